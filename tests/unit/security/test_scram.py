"""SCRAM: a real exchange with Kafka byte for byte, and every way in which a login fails.

Rules: [security/scram-login].
"""

import hashlib
import hmac
from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.security.mechanisms import LoggedIn, LoginFailed, Mechanism
from coterie.security.scram import (
    NUMBERS,
    ScramConversation,
    ScramKeys,
    ScramServer,
    ScramUser,
    keys_of,
    nonce_of,
    salted_password,
)

SCRAMS = sorted(NUMBERS)
CLIENT_NONCE = "fyko+d2lbbFgONRv9qkxdawL"
SERVER_NONCE = "196ejp1njmktrtfjocr1qua4rn"
FIRST = f"n,,n=fixed,r={CLIENT_NONCE}"
SERVER_FIRST = f"r={CLIENT_NONCE}{SERVER_NONCE},s=MTIzc2FsdHk=,i=4096"
# An exchange with a running Kafka 4.3.1, and what follows from it for the other hash.
GOLDEN = {
    Mechanism.SCRAM_SHA_256: (
        "1QrmtTqhBseiieivFH1nqVjN0UXFAI3fbt5YWj4038E=",
        "gq4TMJhHU4yvC8ylavNfX+mH8K28EaJ9ddnDXhq1mNg=",
    ),
    Mechanism.SCRAM_SHA_512: (
        "7bGznLP/BqNPc+Qga0/ij8sicrAyH5Hj2zRBvkF7GG5Sl7I0Fx6zHIZ7I/xxAC6QOWmiv+ZL3Vra4G+o5EsaRw==",
        "FfCISR4T0qZzczxacfSN1pcQmvKyrucZz4q+PSf7Gzmb2H25ehdNeS/GrI3IvRmkkTcdLnyMULnvpiJhBP8l/A==",
    ),
}


class Users:
    """Users and tokens with passwords."""

    def __init__(
        self,
        passwords: dict[str, str],
        *,
        tokens: bool = False,
        salt: bytes = b"123salty",
        iterations: int = 4096,
    ) -> None:
        self._tokens = tokens
        self._salt, self._iterations = salt, iterations
        self._passwords = passwords

    def find(self, name: str, mechanism: int) -> ScramUser | None:
        password = self._passwords.get(name)
        if password is None or self._tokens:
            return None
        return self._user(name, mechanism, password)

    def example(self, mechanism: int) -> ScramKeys | None:
        for name, password in self._passwords.items():
            return self._user(name, mechanism, password).keys
        return None

    def find_token(self, token_id: str, mechanism: int) -> ScramUser | None:
        password = self._passwords.get(token_id)
        if password is None or not self._tokens:
            return None
        return self._user(token_id, mechanism, password)._replace(
            who=LoggedIn("owner", 99, by_token=True)
        )

    def _user(self, name: str, mechanism: int, password: str) -> ScramUser:
        salt, iterations = self._salt, self._iterations
        salted = salted_password(mechanism, password, salt, iterations)
        return ScramUser(keys_of(mechanism, salted, salt, iterations), LoggedIn(name))


def server(mechanism: Mechanism = Mechanism.SCRAM_SHA_256, **passwords: str) -> ScramServer:
    return ScramServer(mechanism, Users(passwords), b"secret")


def begun(mechanism: Mechanism = Mechanism.SCRAM_SHA_256) -> ScramConversation:
    return ScramConversation(server(mechanism, fixed="pencil"), SERVER_NONCE)


def proof(
    mechanism: Mechanism, password: str, first_bare: str, server_first: str, final: str
) -> str:
    """Return the proof of a client, computed apart from the code under test."""
    name = mechanism.value.removeprefix("SCRAM-").replace("-", "").lower()
    fields = dict(each.split("=", 1) for each in server_first.split(","))
    salt, iterations = b64decode(fields["s"]), int(fields["i"])
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    stored = hashlib.new(name, client_key).digest()
    said = f"{first_bare},{server_first},{final}".encode()
    signature = hmac.digest(stored, said, name)
    return b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()


def logged_in(
    scram: ScramServer, name: str, password: str, extensions: str = "", header: str = "n,,"
) -> LoggedIn | None:
    conversation = scram.begin(b"x" * 20)
    bare = f"n={name},r=abc{extensions}"
    server_first = conversation.step(f"{header}{bare}".encode(), 0).token.decode()
    nonce = server_first.split(",")[0]
    final = f"c={b64encode(header.encode()).decode()},{nonce}"
    mechanism = next(each for each, number in NUMBERS.items() if number == scram.number)
    signed = proof(mechanism, password, bare, server_first, final)
    return conversation.step(f"{final},p={signed}".encode(), 0).who


@pytest.mark.parametrize("mechanism", SCRAMS)
def test_the_exchange_is_that_of_kafka(mechanism: Mechanism) -> None:
    signed, verifier = GOLDEN[mechanism]
    conversation = begun(mechanism)
    assert conversation.step(FIRST.encode(), 0) == (SERVER_FIRST.encode(), None)
    final = f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p={signed}"
    assert conversation.step(final.encode(), 0) == (f"v={verifier}".encode(), LoggedIn("fixed"))


def test_the_keys_are_those_of_kafka() -> None:
    salted = salted_password(1, "pencil", b"123salty", 4096)
    assert salted.hex() == "669c2d0f35aafe1b3fbbdf071c0d62ae99dbb65bdcb1537a2abd0d666a7472f6"
    keys = keys_of(1, salted, b"123salty", 4096)
    assert keys.stored_key.hex() == (
        "8891dfa0f95377c8e96766608cdc91a8a7d88cde1f4328dc6058ff797b634272"
    )
    assert keys.server_key.hex() == (
        "f098b847d55ce056159640c73ac153dc232295d4ba4733351de369f9155ca30a"
    )
    assert "88" not in repr(keys)
    assert str(keys.salt) not in repr(keys)


@pytest.mark.parametrize(
    "final",
    [
        "c=biws,r={nonce},p={wrong}",
        "c=biws,r={cut},p={proof}",
        "c=biws,r={nonce}x,p={proof}",
        "c=eSws,r={nonce},p={proof}",
        "c=,r={nonce},p={proof}",
        "c=biws,r={nonce},p=AAAA",
        "c=biws,r={nonce},p=",
        "c=biws,r={nonce},p=%",
        "c=biws,r={nonce}",
        "c=biws,r={nonce},p={proof}\n",
        "",
        "\x00",
        "ü",
    ],
)
def test_any_other_final_message_fails_without_a_cause(final: str) -> None:
    conversation = begun()
    conversation.step(FIRST.encode(), 0)
    nonce, signed = CLIENT_NONCE + SERVER_NONCE, GOLDEN[Mechanism.SCRAM_SHA_256][0]
    wrong = b64encode(bytes(32)).decode()
    message = final.format(nonce=nonce, cut=nonce[:-1], proof=signed, wrong=wrong)
    with pytest.raises(LoginFailed) as failed:
        conversation.step(message.encode(), 0)
    assert failed.value.text is None


def test_a_final_message_of_an_earlier_login_fails() -> None:
    signed = GOLDEN[Mechanism.SCRAM_SHA_256][0]
    final = f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p={signed}".encode()
    conversation = server(fixed="pencil").begin(b"y" * 20)
    conversation.step(FIRST.encode(), 0)
    with pytest.raises(LoginFailed):
        conversation.step(final, 0)
    with pytest.raises(LoginFailed):
        conversation.step(final, 0)


@pytest.mark.parametrize(
    "first",
    [
        "",
        "n=fixed,r=abc",
        "y,,n=fixed,r=abc",
        "p=tls-unique,,n=fixed,r=abc",
        "n,,n=,r=abc",
        "n,,n=fixed,r=",
        "n,,n=fi,xed,r=abc",
        "n,,n=fi=xed,r=abc",
        "n,,n=fixed,r=a b",
        "n,,n=fixed,r=abc,",
        "n,,n=fixed,r=abc,x=",
        "n,,n=fixed,r=abc,1=x",
        "n,,n=fixéd,r=abc",
        "n,,n=fix\0ed,r=abc",
        "n,a=,n=fixed,r=abc",
    ],
)
def test_any_other_first_message_fails_without_a_cause(first: str) -> None:
    with pytest.raises(LoginFailed) as failed:
        begun().step(first.encode(), 0)
    assert failed.value.text is None


def test_another_user_than_the_named_one_is_refused() -> None:
    for name in ("fixed", "nobody"):
        with pytest.raises(LoginFailed, match="different from username"):
            begun().step(f"n,a=other,n={name},r=abc".encode(), 0)
    scram = server(fixed="pencil")
    assert logged_in(scram, "fixed", "pencil", header="n,a=fixed,") == LoggedIn("fixed")


def test_an_unknown_user_gets_the_same_salt_each_time_and_fails_at_the_end() -> None:
    scram = server(fixed="pencil")
    firsts = [
        scram.begin(bytes([number] * 20)).step(b"n,,n=nobody,r=abc", 0).token.split(b",")[1:]
        for number in range(2)
    ]
    assert firsts[0] == firsts[1]
    assert firsts[0][1] == b"i=4096"
    other = scram.begin(bytes(20)).step(b"n,,n=somebody,r=abc", 0).token.split(b",")[1:]
    assert other != firsts[0]
    with pytest.raises(LoginFailed) as failed:
        logged_in(scram, "nobody", "pencil")
    assert failed.value.text is None


@pytest.mark.parametrize("salt", [b"123salty", b"\0\xff" * 13, b"x" * 100])
def test_the_salt_of_an_unknown_user_looks_like_that_of_a_user(salt: bytes) -> None:
    users = Users({"fixed": "pencil"}, salt=salt, iterations=5_000)
    scram = ScramServer(Mechanism.SCRAM_SHA_512, users, b"secret")
    made = [scram.unknown(name) for name in ("one", "two", "one")]
    assert made[0] == made[2] != made[1]
    for keys in made:
        assert keys.iterations == 5_000
        assert len(keys.salt) == len(salt)
        assert keys.salt != salt
        assert keys.salt.isalnum() is salt.isalnum()


def test_names_with_commas_and_unknown_extensions() -> None:
    scram = ScramServer(Mechanism.SCRAM_SHA_256, Users({"a,b=c": "pencil"}), b"")
    assert logged_in(scram, "a=2Cb=3Dc", "pencil", ",ext=value") == LoggedIn("a,b=c")


def test_a_delegation_token_logs_its_owner_in() -> None:
    scram = ScramServer(Mechanism.SCRAM_SHA_512, Users({"id1": "hmac"}, tokens=True), b"")
    assert logged_in(scram, "id1", "hmac", ",tokenauth=true") == LoggedIn(
        "owner", 99, by_token=True
    )
    with pytest.raises(LoginFailed):
        logged_in(scram, "id1", "hmac")
    with pytest.raises(LoginFailed):
        logged_in(scram, "id1", "other", ",tokenauth=true")


@given(st.binary(min_size=20, max_size=20))
def test_the_nonce_has_kafkas_characters(random: bytes) -> None:
    nonce = nonce_of(random)
    assert len(nonce) >= 24
    assert nonce.isalnum()
    assert nonce.islower() or nonce.isdecimal()


@given(st.text(min_size=1), st.text(min_size=1))
def test_only_the_password_itself_logs_in(password: str, given_password: str) -> None:
    salted = salted_password(1, password, b"salt", 1)
    assert (salted == salted_password(1, given_password, b"salt", 1)) == (
        password == given_password
    )


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_garbage_fails_and_raises_nothing_else(first: bytes, final: bytes) -> None:
    with pytest.raises(LoginFailed):
        begun().step(first, 0)
    conversation = begun()
    conversation.step(FIRST.encode(), 0)
    with pytest.raises(LoginFailed):
        conversation.step(final, 0)
