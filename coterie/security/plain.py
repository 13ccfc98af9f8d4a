"""PLAIN (RFC 4616): name and password in one token, compared with the users of a listener.

The time of a comparison tells neither whether a user exists nor how much of a password is right.
"""

import hashlib
import hmac
from collections.abc import Mapping

from coterie.security.mechanisms import OTHER_USER, LoggedIn, LoginFailed, Step

_TOKENS = 3


class PlainServer:
    """PLAIN with the users of one listener."""

    def __init__(self, users: Mapping[str, str]) -> None:
        """Take the users, with their passwords."""
        # Digests have one length, so a comparison says nothing of the length of a password.
        self._digests = {name: _digest(password) for name, password in users.items()}

    @property
    def users(self) -> frozenset[str]:
        """The names of the users."""
        return frozenset(self._digests)

    def add(self, user: str, password: str) -> None:
        """Let a user log in, or change its password."""
        self._digests[user] = _digest(password)

    def remove(self, user: str) -> None:
        """Let a user log in no more."""
        self._digests.pop(user, None)

    def begin(self, random: bytes) -> "PlainServer":  # noqa: ARG002 - PLAIN needs no chance
        """See `Server`. A login is one step, so nothing is kept of it."""
        return self

    def step(self, token: bytes, now_ms: int) -> Step:  # noqa: ARG002 - users do not expire
        """See `Conversation` [security/plain]."""
        parts = token.decode(errors="replace").split("\0", _TOKENS)
        if len(parts) != _TOKENS:
            text = f"Invalid SASL/PLAIN response: expected {_TOKENS} tokens, got {len(parts)}"
            raise LoginFailed(text)
        other, name, password = parts
        if not name:
            raise LoginFailed("Authentication failed: username not specified")
        if not password:
            raise LoginFailed("Authentication failed: password not specified")
        expected = self._digests.get(name)
        given = _digest(password)
        # For a user that does not exist the same is done, with the same result for any password.
        is_right = hmac.compare_digest(given, bytes(len(given)) if expected is None else expected)
        if expected is None or not is_right:
            raise LoginFailed("Authentication failed: Invalid username or password")
        if other and other != name:
            raise LoginFailed(OTHER_USER)
        return Step(b"", LoggedIn(name))


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()
