"""A small form of the attacks, which `python -m tests.attacks` runs at full size; and replays."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.protocol.messages.metadata import MetadataRequest
from coterie.security.mechanisms import Mechanism
from tests.attacks.attacks import ATTACKS, run
from tests.unit.security.test_scram import proof
from tests.unit.server.certificates import (
    Files,
    authority,
    client_context,
    tls_broker,
    tls_client,
    write_certificates,
)
from tests.unit.server.logins import ALICE, LoginClient, framed, sasl_broker
from tests.unit.server.running import RunningBroker
from tests.unit.server.test_login import VERSIONS
from tests.unit.server.test_tls import HELLO, principals

# Two seconds each, but for the handshakes, which must end after ten. The others that wait for
# their end are shown by tests/unit/server/test_login.py.
_SHORT = ("consumers", "enumeration", "wrong passwords", "half open")
# Milliseconds of CPU of a few handshakes, in asyncio's debug mode and beside other tests: twice of
# what the full size may cost.
_SLACK = {"ms": 2.0}


@pytest.mark.timeout(180)
def test_a_few_attacks_cost_what_they_may() -> None:
    assert set(_SHORT) <= ATTACKS.keys()
    figures = run(0.03, _SHORT)
    above = [
        str(each)
        for each in figures
        if each.most is not None and each.value > each.most * _SLACK.get(each.unit, 1.0)
    ]
    assert above == []


# --- replay and downgrade -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with sasl_broker() as broker:
        yield broker


def recorded(client: LoginClient, mechanism: Mechanism) -> bytes:
    """Log in with SCRAM; return the last message."""
    assert client.handshake(mechanism.value).error_code == 0
    bare = "n=fixed,r=abc"
    first = client.authenticate(f"n,,{bare}".encode()).auth_bytes.decode()
    final = f"c=biws,{first.split(',')[0]}"
    message = f"{final},p={proof(mechanism, 'pencil', bare, first, final)}".encode()
    assert client.authenticate(message).error_code == 0
    return message


@pytest.mark.parametrize("mechanism", [Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512])
def test_a_login_of_scram_cannot_be_replayed(running: RunningBroker, mechanism: Mechanism) -> None:
    with LoginClient(running) as client:
        final = recorded(client, mechanism)
    with LoginClient(running) as client:
        client.handshake(mechanism.value)
        assert client.authenticate(b"n,,n=fixed,r=abc").error_code == 0
        assert client.authenticate(final).error_code == 58
        assert client.rest() == b""
    with LoginClient(running) as client:
        # With the nonce of the old login as the client's part of a new one.
        nonce = final.split(b",")[1]
        client.handshake(mechanism.value)
        assert client.authenticate(b"n,,n=fixed," + nonce).error_code == 0
        assert client.authenticate(final).error_code == 58
    with LoginClient(running) as client:
        # What one mechanism has signed is nothing to the other.
        other = {Mechanism.SCRAM_SHA_256: "SCRAM-SHA-512"}.get(mechanism, "SCRAM-SHA-256")
        client.handshake(other)
        client.authenticate(b"n,,n=fixed,r=abc")
        assert client.authenticate(final).error_code == 58


def test_the_mechanism_cannot_be_changed_within_a_login(running: RunningBroker) -> None:
    for before in (b"", b"n,,n=fixed,r=abc"):
        with LoginClient(running) as client:
            client.handshake("SCRAM-SHA-256")
            if before:
                assert client.authenticate(before).error_code == 0
            answer = client.handshake("PLAIN")
            assert (answer.error_code, answer.mechanisms) == (34, [])
            assert client.rest() == b""
    with LoginClient(running) as client:
        # A token of PLAIN where SCRAM was agreed on.
        client.handshake("SCRAM-SHA-256")
        assert client.authenticate(ALICE).error_code == 58
        client.socket.sendall(framed(MetadataRequest(topics=None), 9))
        assert client.rest() == b""


def test_a_weaker_mechanism_that_is_not_enabled_is_refused() -> None:
    with sasl_broker({"sasl.enabled.mechanisms": "SCRAM-SHA-512"}) as running:
        for name in ("PLAIN", "SCRAM-SHA-256", "scram-sha-512"):
            with LoginClient(running) as client:
                answer = client.handshake(name)
                assert (answer.error_code, answer.mechanisms) == (33, ["SCRAM-SHA-512"])


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_first_answer_does_not_tell_who_exists(running: RunningBroker, mechanism: str) -> None:
    shapes = set()
    for name in ("fixed", "nobody", "nobody-else"):
        salts = set()
        for _ in range(2):
            with LoginClient(running) as client:
                client.call(VERSIONS, 3)
                client.handshake(mechanism)
                answer = client.authenticate(f"n,,n={name},r=abc".encode())
                nonce, salt, iterations = answer.auth_bytes.decode().split(",")
                salts.add(salt)
                shapes.add((answer.error_code, len(nonce) >= 24 + len("r=abc"), iterations))
        assert len(salts) == 1, f"the salt of {name} changes"
    assert shapes == {(0, True, "i=4096")}


# --- TLS ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize("name", ["alice\0", "alice\0.evil.example", "\0alice"])
def test_a_name_with_nul_is_another_name(files: Files, tmp_path: Path, name: str) -> None:
    path = tmp_path / "nul.pem"
    path.write_text(authority().issue(name).pem)
    rules = r"RULE:^CN=([a-z]+)$/$1/,DEFAULT"
    with (
        tls_broker(files, ssl_client_auth="required", ssl_principal_mapping_rules=rules) as running,
        tls_client(running, client_context(files, str(path))) as client,
    ):
        assert client.call(HELLO, 3).error_code == 0
        assert principals(running) == {"User:CN=" + name.replace("\0", r"\00")}


def openssl(running: RunningBroker, files: Files, *options: str, said: str = "") -> str:
    """Return what OpenSSL's client prints."""
    host, port = running.address
    command = ["openssl", "s_client", "-connect", f"{host}:{port}", "-CAfile", files.authority]
    done = subprocess.run(
        [*command, *options], input=said, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


def test_nothing_is_negotiated_anew(files: Files) -> None:
    with tls_broker(files) as running:
        said = openssl(running, files, "-tls1_2", said="R\n")
        assert "RENEGOTIATING" in said
        assert "no renegotiation" in said
        with tls_client(running, client_context(files)) as client:
            assert client.call(HELLO, 3).error_code == 0


def test_there_is_no_early_data(files: Files, tmp_path: Path) -> None:
    session, data = tmp_path / "session", tmp_path / "data"
    data.write_bytes(framed(HELLO, 3))
    with tls_broker(files) as running:
        said = openssl(running, files, "-tls1_3", "-sess_out", str(session))
        # Without a ticket there is no session in which data could come early.
        assert "New Session Ticket" not in said
        assert not session.exists()
        said = openssl(running, files, "-tls1_3", "-early_data", str(data))
        assert "Early data was accepted" not in said
        with tls_client(running, client_context(files)) as client:
            assert client.call(HELLO, 3).error_code == 0


@pytest.mark.parametrize("option", ["-no_tls1_2 -no_tls1_3", "-cipher NULL", "-cipher EXPORT"])
def test_weak_protocols_and_ciphers_are_refused(files: Files, option: str) -> None:
    with tls_broker(files) as running:
        said = openssl(running, files, *option.split(), "-tls1_2" if "cipher" in option else "-4")
        assert (
            "Cipher is (NONE)" in said
            or "no ciphers available" in said
            or "no cipher match" in said
        )
