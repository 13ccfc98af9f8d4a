"""SCRAM credentials of users: Kafka's checks, stored before they are acknowledged."""

from base64 import b64encode

import pytest

from coterie.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestDeletion,
    AlterUserScramCredentialsRequestUpsertion,
)
from coterie.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequestUser,
)
from coterie.security.mechanisms import Mechanism
from coterie.security.scram import salted_password
from coterie.server.handlers import scram_credentials
from coterie.server.security.security_log import SecurityLog
from coterie.storage.errors import LogFailed
from tests.unit.security.test_scram import proof
from tests.unit.server.logins import LoginClient, sasl_broker
from tests.unit.server.manual import Client, make_broker

# What an alteration of two users was answered.
Results = dict[str, tuple[int, str | None]]
TWICE = 92, "A user credential cannot be altered twice in the same request"
DONE = 0, None


@pytest.fixture
def client() -> Client:
    return Client(make_broker())


def upsert(
    name: str, mechanism: int = 1, iterations: int = 4096, salted: bytes = b"x" * 32
) -> AlterUserScramCredentialsRequestUpsertion:
    return AlterUserScramCredentialsRequestUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted
    )


def delete(name: str, mechanism: int = 1) -> AlterUserScramCredentialsRequestDeletion:
    return AlterUserScramCredentialsRequestDeletion(name=name, mechanism=mechanism)


def alter(
    client: Client,
    *alterations: AlterUserScramCredentialsRequestUpsertion
    | AlterUserScramCredentialsRequestDeletion,
) -> Results:
    deletion = AlterUserScramCredentialsRequestDeletion
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in alterations if isinstance(each, deletion)],
        upsertions=[each for each in alterations if not isinstance(each, deletion)],
    )
    results = client.call(request, 0).results
    assert len(results) == len({each.user for each in results})
    return {each.user: (each.error_code, each.error_message) for each in results}


def described(client: Client, *names: str) -> dict[str, list[tuple[int, int]] | int]:
    users = [DescribeUserScramCredentialsRequestUser(name=name) for name in names]
    answer = client.call(DescribeUserScramCredentialsRequest(users=users or None), 0)
    assert (answer.error_code, answer.error_message) == (0, "")
    return {
        each.user: each.error_code
        or [(info.mechanism, info.iterations) for info in each.credential_infos]
        for each in answer.results
    }


def test_credentials_are_stored_described_and_deleted(client: Client) -> None:
    """Compared with Kafka 4.3.1 [security/scram]."""
    assert alter(client, upsert("a"), upsert("b", 2, 5000)) == {"a": DONE, "b": DONE}
    assert alter(client, upsert("a", 2)) == {"a": DONE}
    assert described(client) == {"a": [(1, 4096), (2, 4096)], "b": [(2, 5000)]}
    assert described(client, "b", "none") == {"b": [(2, 5000)], "none": 91}
    assert described(client, "b", "b") == {"b": 92}
    assert alter(client, delete("b", 2), delete("none")) == {
        "b": DONE,
        "none": (91, "Attempt to delete a user credential that does not exist"),
    }
    assert described(client) == {"a": [(1, 4096), (2, 4096)]}


def test_a_user_is_altered_once_in_a_request(client: Client) -> None:
    alter(client, upsert("a"), upsert("a2", 2))
    assert alter(client, upsert("b"), upsert("b", 2)) == {"b": TWICE}
    assert alter(client, delete("a"), upsert("a", 2)) == {"a": TWICE}
    assert alter(client, delete("a"), delete("a", 2)) == {"a": TWICE}
    # The first error of a user counts.
    assert alter(client, delete("c"), upsert("c"))["c"][0] == 91
    assert alter(client, upsert("d", 1, 4095), upsert("d"))["d"][0] == 93
    assert alter(client, upsert("e"), upsert("e", 1, 4095)) == {"e": TWICE}
    assert set(described(client)) == {"a", "a2"}


@pytest.mark.parametrize(
    ("upsertion", "error", "text"),
    [
        (upsert(""), 93, "Username must not be empty"),
        (upsert("u", 0), 33, "Unknown SCRAM mechanism"),
        (upsert("u", 3), 33, "Unknown SCRAM mechanism"),
        (upsert("u", 1, 4095), 93, "Too few iterations"),
        (upsert("u", 1, 16385), 93, "Too many iterations"),
        (upsert("u", 1, 4096, b""), -1, None),
    ],
)
def test_refused_credentials_do_not_stop_others(
    client: Client,
    upsertion: AlterUserScramCredentialsRequestUpsertion,
    error: int,
    text: str | None,
) -> None:
    found = alter(client, upsertion, upsert("good"))
    assert found == {upsertion.name: (error, text), "good": DONE}
    assert described(client) == {"good": [(1, 4096)]}


def test_there_is_a_limit(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram_credentials, "MOST_USERS", 2)
    assert alter(client, upsert("a"), upsert("b"), upsert("c"))["c"] == (
        44,
        "At most 2 users may have credentials.",
    )
    assert alter(client, upsert("a", 2), upsert("b")) == {"a": DONE, "b": DONE}


def test_many_alterations_are_made_in_slices(client: Client) -> None:
    names = [f"u{number}" for number in range(300)]
    assert set(alter(client, *map(upsert, names)).values()) == {DONE}
    assert len(described(client)) == 300
    assert described(client, *names)["u299"] == [(1, 4096)]


def test_what_is_not_stored_is_not_acknowledged(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = LogFailed("coterie.security-0", OSError(28, "No space left on device"))
    monkeypatch.setattr(SecurityLog, "append", lambda _log, _records, done: done(failure))
    assert alter(client, upsert("a"), upsert("", 1)) == {
        "a": (56, "No space left on device"),
        "": (93, "Username must not be empty"),
    }


def test_users_log_in_at_once_and_until_they_are_deleted() -> None:
    """[security/scram]"""

    def log_in(client: LoginClient) -> int:
        assert client.handshake("SCRAM-SHA-256").error_code == 0
        bare = "n=new,r=abc"
        first = client.authenticate(f"n,,{bare}".encode()).auth_bytes.decode()
        final = f"c={b64encode(b'n,,').decode()},{first.split(',')[0]}"
        signed = proof(Mechanism.SCRAM_SHA_256, "new-secret", bare, first, final)
        return client.authenticate(f"{final},p={signed}".encode()).error_code

    salted = salted_password(1, "new-secret", b"salt", 4096)
    with sasl_broker() as running:
        with LoginClient(running) as client:
            assert log_in(client) == 58
        with LoginClient(running) as admin, LoginClient(running) as client:
            admin.log_in()
            created = AlterUserScramCredentialsRequest(
                deletions=[], upsertions=[upsert("new", salted=salted)]
            )
            assert admin.call(created, 0).results[0].error_code == 0
            assert log_in(client) == 0
            deleted = AlterUserScramCredentialsRequest(deletions=[delete("new")], upsertions=[])
            assert admin.call(deleted, 0).results[0].error_code == 0
            # A connection stays logged in.
            assert client.call(DescribeUserScramCredentialsRequest(users=None), 0).error_code == 0
        with LoginClient(running) as client:
            assert log_in(client) == 58
