"""SASL mechanisms on the client's side: the tokens of a login, without I/O.

A mechanism is a generator: it yields the next token of the client and receives that of the broker.
It ends when the client has nothing more to send, and raises `MechanismFailed` when a token of the
broker is wrong [client/mechanisms].

Invariants: a broker that does not know the password is not believed, because SCRAM proves both
sides. A broker cannot make the client compute for long: the number of iterations is limited.
"""

import hmac
import json
import math
import secrets
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Callable, Generator
from typing import NamedTuple

from coterie.security.mechanisms import Mechanism
from coterie.security.scram import HASHES, MIN_ITERATIONS, NUMBERS, keys_of, salted_password

Tokens = Generator[bytes, bytes, None]

# They take some 50 ms; a broker that asks for more keeps the client busy (CVE-2026-10143).
_MOST_ITERATIONS = 65_536
# As many random bytes as Kafka's client has letters.
_NONCE_BYTES = 24
# The header of an exchange without channel binding (RFC 5802, 7).
_NO_BINDING = "n,,"
_SEPARATOR = "\x01"


class MechanismFailed(Exception):  # noqa: N818 - it says what happened
    """A token of the broker is wrong, or says that the login has failed."""


class Credentials(NamedTuple):
    """What a client logs in with.

    Attributes:
        mechanism: Kafka's name of the mechanism.
        user: the user, or the id of a delegation token.
        secret: the password, the HMAC of the delegation token, or the OAuth token.
        is_token: whether user and secret are those of a delegation token (KIP-48).
    """

    mechanism: str
    user: str
    secret: str
    is_token: bool = False

    def __repr__(self) -> str:
        """Return a text without the secret, for logs and failing tests."""
        return f"Credentials({self.mechanism}, {self.user!r}, [hidden])"


def plain(credentials: Credentials) -> Tokens:
    """Yield the one token of PLAIN (RFC 4616)."""
    yield f"\0{credentials.user}\0{credentials.secret}".encode()


def oauthbearer(credentials: Credentials) -> Tokens:
    """Yield the one token of OAUTHBEARER (RFC 7628); a refusal has its reason in the challenge."""
    refusal = yield bearer_message(credentials.secret)
    if refusal:
        raise MechanismFailed(f"it refused the OAuth token: {refusal.decode(errors='replace')}")


def bearer_message(token: str, authorization_id: str = "") -> bytes:
    """Return the message of OAUTHBEARER with a token; the id is that of the user or empty."""
    start = f"n,a={authorization_id}," if authorization_id else _NO_BINDING
    return f"{start}{_SEPARATOR}auth=Bearer {token}{_SEPARATOR * 2}".encode()


def _scram(credentials: Credentials) -> Tokens:
    mechanism = NUMBERS[Mechanism(credentials.mechanism)]
    return scram(credentials, mechanism, secrets.token_urlsafe(_NONCE_BYTES))


def scram(credentials: Credentials, mechanism: int, nonce: str) -> Tokens:
    """Yield the tokens of SCRAM (RFC 5802) and check what the broker proves.

    Args:
        credentials: of the user or the delegation token.
        mechanism: Kafka's number of it.
        nonce: printable characters that no login had before.
    """
    name = credentials.user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}" + (",tokenauth=true" if credentials.is_token else "")
    challenge = (yield (_NO_BINDING + first).encode()).decode()
    fields = _fields(challenge)
    try:
        both, salt, iterations = (
            fields["r"],
            b64decode(fields["s"], validate=True),
            int(fields["i"]),
        )
    except (KeyError, ValueError):
        raise MechanismFailed(f"its SCRAM message is malformed: {challenge[:200]!r}") from None
    if not both.startswith(nonce) or both == nonce:
        raise MechanismFailed("its SCRAM nonce does not continue that of the client")
    if not MIN_ITERATIONS <= iterations <= _MOST_ITERATIONS:
        raise MechanismFailed(
            f"it asks for {iterations} iterations of SCRAM;"
            f" {MIN_ITERATIONS} to {_MOST_ITERATIONS} are accepted"
        )
    hash_name = HASHES[mechanism]
    salted = salted_password(mechanism, credentials.secret, salt, iterations)
    keys = keys_of(mechanism, salted, salt, iterations)
    last = f"c={b64encode(_NO_BINDING.encode()).decode()},r={both}"
    signed = f"{first},{challenge},{last}".encode()
    signature = hmac.digest(keys.stored_key, signed, hash_name)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    verdict = _fields((yield f"{last},p={b64encode(proof).decode()}".encode()).decode())
    expected = hmac.digest(keys.server_key, signed, hash_name)
    if not hmac.compare_digest(verdict.get("v", ""), b64encode(expected).decode()):
        raise MechanismFailed("it has not proved that it knows the password")


def _fields(text: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}


def unsecured_token(subject: str, claims: dict[str, object], now_s: float) -> str:
    """Return a JSON web token without a signature, for brokers that accept these (RFC 7515, A.5).

    Args:
        subject: the user.
        claims: further claims.
        now_s: the present time.
    """
    # In whole milliseconds: for a broker whose clock counts these, more would be the future.
    issued_s = math.floor(now_s * 1000) / 1000
    body = {"sub": subject, "iat": issued_s, "exp": issued_s + 3600, **claims}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, body))
    return ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


MECHANISMS: dict[str, Callable[[Credentials], Tokens]] = {
    Mechanism.PLAIN: plain,
    Mechanism.SCRAM_SHA_256: _scram,
    Mechanism.SCRAM_SHA_512: _scram,
    Mechanism.OAUTHBEARER: oauthbearer,
}
