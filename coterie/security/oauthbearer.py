"""OAUTHBEARER (RFC 7628, KIP-255): one token, which a validator accepts or refuses.

A refused token is answered with a JSON text, and the login fails at the next message of the client,
which is one byte 1. Extensions are read and ignored, as in Kafka by default.
"""

import json
import re
from base64 import urlsafe_b64decode
from binascii import Error
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from coterie.security.mechanisms import LoggedIn, LoginFailed, Step

_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE = r"[\x21-\x7e \t\r\n]+"
_FIRST = re.compile(
    rf"n,(?:a=(?P<other>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+={_VALUE}\x01)*)\x01",
)
_BEARER = re.compile(r"bearer +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.IGNORECASE)
_REFUSED = '{"status":"invalid_token"}'
# What the client sends after a refusal.
_ACKNOWLEDGED = b"\x01"
# The parts of a compact JWS: header, claims, signature.
_PARTS = 3


class Refused(Exception):  # noqa: N818 - an answer to the client, which does not get the reason
    """A token is refused."""


class TokenValidator(Protocol):
    """What accepts tokens."""

    def validate(self, token: str, now_ms: int) -> LoggedIn:
        """Return whom a token names.

        Raises:
            Refused: it is not valid.
        """


class OAuthBearerServer:
    """OAUTHBEARER with the tokens of one listener."""

    def __init__(self, validator: TokenValidator) -> None:
        """Take what accepts tokens."""
        self.validator = validator

    def begin(self, random: bytes) -> "OAuthBearerConversation":  # noqa: ARG002 - needs no chance
        """See `Server`."""
        return OAuthBearerConversation(self.validator)


class OAuthBearerConversation:
    """One login."""

    def __init__(self, validator: TokenValidator) -> None:
        """Wait for the token."""
        self._validator = validator
        self._has_refused = False

    def step(self, token: bytes, now_ms: int) -> Step:
        """See `Conversation` [security/oauthbearer]."""
        if self._has_refused:
            raise LoginFailed(_REFUSED if token == _ACKNOWLEDGED else None)
        found = _FIRST.fullmatch(token.decode(errors="replace"))
        if found is None:
            raise LoginFailed
        pairs = [each.split("=", 1) for each in found["pairs"].split("\x01")[:-1]]
        bearers = [_BEARER.fullmatch(value) for key, value in pairs if key == "auth"]
        if len(bearers) != 1 or bearers[0] is None:
            raise LoginFailed
        try:
            who = self._validator.validate(bearers[0]["token"], now_ms)
        except Refused:
            self._has_refused = True
            return Step(_REFUSED.encode())
        other = (found["other"] or "").replace("=2C", ",").replace("=3D", "=")
        if other and other != who.name:
            raise LoginFailed(
                f"Authentication failed: Client requested an authorization id ({other}) that is"
                f" different from the token's principal name ({who.name})"
            )
        return Step(b"", who)


class UnsecuredTokens(NamedTuple):
    """Tokens that nobody has signed (KIP-255): for development, as anybody can write one.

    Attributes:
        skew_ms: by how much clocks may differ.
        principal_claim, scope_claim: the claims with the user and the scope.
        required_scope: what the scope must have.
    """

    skew_ms: int = 0
    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: Sequence[str] = ()

    def validate(self, token: str, now_ms: int) -> LoggedIn:
        """See `TokenValidator`."""
        parts = token.split(".")
        if len(parts) != _PARTS or parts[2]:
            raise Refused
        if decoded(parts[0]).get("alg") != "none":
            raise Refused
        claims = decoded(parts[1])
        name = claims.get(self.principal_claim)
        if not isinstance(name, str) or not name.strip():
            raise Refused
        expires_s = time_of(claims, "exp")
        if "iat" in claims:
            issued_s = time_of(claims, "iat")
            if issued_s * 1000 > now_ms + self.skew_ms or issued_s >= expires_s:
                raise Refused
        if now_ms - self.skew_ms >= expires_s * 1000:
            raise Refused
        if not set(self.required_scope) <= set(scope_of(claims, self.scope_claim)):
            raise Refused
        return LoggedIn(name, int(expires_s * 1000))


def time_of(claims: Mapping[str, Any], name: str) -> float:
    """Return the time in a claim, in seconds.

    Raises:
        Refused: there is none.
    """
    value = claims.get(name)
    # A truth value is a number in Python, and its JSON has infinity.
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) >= 1 << 53:
        raise Refused
    return float(value)


def scope_of(claims: Mapping[str, Any], name: str) -> Sequence[str]:
    """Return the scope in a claim, which is a text or a list.

    Raises:
        Refused: it is neither.
    """
    scope = claims.get(name, ())
    if isinstance(scope, str):
        return scope.split()
    if isinstance(scope, list | tuple) and all(isinstance(each, str) for each in scope):
        return scope
    raise Refused


def decoded(part: str) -> Mapping[str, Any]:
    """Return the object in a part of a token.

    Raises:
        Refused: there is none.
    """
    try:
        value = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (Error, ValueError, RecursionError):
        raise Refused from None
    if not isinstance(value, dict):
        raise Refused
    return value
