"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802) as Kafka speaks them: the server, and the keys.

Kafka's deviations: a password is its UTF-8 bytes, without SASLprep; there is no channel binding;
the extension `tokenauth=true` says that the name is the id of a delegation token (KIP-48).

Stricter than Kafka [security/scram-login]: an unknown user gets a salt too, always the same for a
name, and fails at the last message; the channel binding must repeat the header that was sent.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import NamedTuple, Protocol

from coterie.security.mechanisms import OTHER_USER, LoggedIn, LoginFailed, Mechanism, Step

MIN_ITERATIONS = 4_096
MAX_ITERATIONS = 16_384
# Kafka's numbers of the mechanisms, in requests and records.
NUMBERS = {Mechanism.SCRAM_SHA_256: 1, Mechanism.SCRAM_SHA_512: 2}
HASHES = {1: "sha256", 2: "sha512"}

_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"(?:[A-Za-z0-9/+]{4})*(?:[A-Za-z0-9/+]{3}=|[A-Za-z0-9/+]{2}==)?"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"
# The messages of a client are compiled at the first login: most brokers never see one.
_CLIENT_FIRST = (
    rf"(?P<header>n,(?:a=(?P<other>{_NAME}))?,)"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})"
    rf"(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL = (
    rf"(?P<bare>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS})"
    rf",p=(?P<proof>{_BASE64})"
)
# Digits and letters: 160 random bits are 31 of them, and Kafka's 130 bits at least 24.
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class ScramKeys(NamedTuple):
    """What the server keeps of a password.

    Attributes:
        salt, iterations: how it was hashed.
        stored_key, server_key: what proves it, and what proves the server.
    """

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        # Keys are in no log and no traceback.
        return f"ScramKeys(iterations={self.iterations})"


class ScramUser(NamedTuple):
    """A user or token that may log in: its keys, and who it is."""

    keys: ScramKeys
    who: LoggedIn


class ScramUsers(Protocol):
    """The users of a mechanism, and the delegation tokens."""

    def find(self, name: str, mechanism: int) -> ScramUser | None:
        """Return the user of a name."""

    def find_token(self, token_id: str, mechanism: int) -> ScramUser | None:
        """Return who logs in with a delegation token; its password is its HMAC in base64."""


def salted_password(mechanism: int, password: str, salt: bytes, iterations: int) -> bytes:
    """Return what a password is hashed to. It takes milliseconds, as it should."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def keys_of(mechanism: int, salted: bytes, salt: bytes, iterations: int) -> ScramKeys:
    """Return what the server keeps of a salted password."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    return ScramKeys(salt, iterations, stored_key, hmac.digest(salted, b"Server Key", name))


def nonce_of(random: bytes) -> str:
    """Return the server's part of the nonce, for at least 16 random bytes."""
    number, digits = int.from_bytes(b"\1" + random), ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits += _DIGITS[digit]
    return digits


class ScramServer:
    """SCRAM with one hash, for the users of a broker."""

    def __init__(self, mechanism: Mechanism, users: ScramUsers, secret: bytes) -> None:
        """Take the parts.

        Args:
            mechanism: one of the two.
            users: who may log in.
            secret: random bytes, from which the salts of unknown users follow.
        """
        self.number = NUMBERS[mechanism]
        self.users = users
        self._secret = secret

    def begin(self, random: bytes) -> "ScramConversation":
        """See `Server`."""
        return ScramConversation(self, nonce_of(random))

    def unknown(self, name: str) -> ScramKeys:
        """Return keys for a user that does not exist, with which no proof fits."""
        salt = hmac.digest(self._secret, name.encode(), "sha256")[:20]
        size = hashlib.new(HASHES[self.number]).digest_size
        return ScramKeys(salt, MIN_ITERATIONS, bytes(size), bytes(size))


class ScramConversation:
    """One login: the client's first message, and then its final one."""

    def __init__(self, server: ScramServer, nonce: str) -> None:
        """Begin, with the server's part of the nonce."""
        self._server = server
        self._nonce = nonce
        self._user: ScramUser | None = None
        self._keys: ScramKeys
        # What both sides have said, as far as it is signed.
        self._header = b""
        self._said = ""
        self._next: Callable[[str], Step] = self._first

    def step(self, token: bytes, now_ms: int) -> Step:
        """See `Conversation` [security/scram-login]."""
        del now_ms
        try:
            # Only ASCII fits the patterns.
            return self._next(token.decode("ascii"))
        except UnicodeDecodeError:
            raise LoginFailed from None

    def _first(self, message: str) -> Step:
        found = re.fullmatch(_CLIENT_FIRST, message)
        if found is None:
            raise LoginFailed
        name = found["name"].replace("=2C", ",").replace("=3D", "=")
        server = self._server
        extensions = dict(each.split("=", 1) for each in found["extensions"].split(",")[1:])
        if extensions.get("tokenauth", "").lower() == "true":
            self._user = server.users.find_token(name, server.number)
        else:
            self._user = server.users.find(name, server.number)
        other = (found["other"] or "").replace("=2C", ",").replace("=3D", "=")
        if other and other != name:
            raise LoginFailed(OTHER_USER)
        self._keys = server.unknown(name) if self._user is None else self._user.keys
        self._nonce = found["nonce"] + self._nonce
        salt = b64encode(self._keys.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._keys.iterations}"
        self._header = found["header"].encode()
        self._said = f"{found['bare']},{answer}"
        self._next = self._final
        return Step(answer.encode())

    def _final(self, message: str) -> Step:
        self._next = self._over
        found = re.fullmatch(_CLIENT_FINAL, message)
        if found is None:
            raise LoginFailed
        is_bound = b64decode(found["binding"]) == self._header
        is_ours = hmac.compare_digest(found["nonce"], self._nonce)
        said = f"{self._said},{found['bare']}".encode()
        name = HASHES[self._server.number]
        signature = hmac.digest(self._keys.stored_key, said, name)
        proof = b64decode(found["proof"])
        if len(proof) != len(signature):
            raise LoginFailed
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        stored_key = hashlib.new(name, client_key).digest()
        is_right = hmac.compare_digest(stored_key, self._keys.stored_key)
        if self._user is None or not (is_bound and is_ours and is_right):
            raise LoginFailed
        verifier = hmac.digest(self._keys.server_key, said, name)
        return Step(b"v=" + b64encode(verifier), self._user.who)

    def _over(self, message: str) -> Step:  # noqa: ARG002 - a message too many
        raise LoginFailed
