"""Signed tokens of OAUTHBEARER: JWTs whose keys are in a file or at a URL (KIP-768, KIP-1139).

The algorithms are a fixed list without `none` and without those of shared secrets. A file is read
again when it has changed, a URL after `refresh_ms`, and for an unknown key at most once in ten
seconds. Errors name the file, or status and host; never what was fetched [security/signed-tokens].
"""

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from asyncio import Task
from collections.abc import Sequence
from typing import Any, NamedTuple

from coterie.security.mechanisms import LoggedIn
from coterie.security.oauthbearer import Refused, decoded, scope_of, time_of
from coterie.server.config.sources import ConfigError
from coterie.server.environment import Environment

ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512",
)  # fmt: skip
# A set of keys has some kilobytes.
_MOST_BYTES = 1 << 20
_FETCH_TIMEOUT_S = 10
# An unknown key may have been made since the last fetch, or by a stranger.
_UNKNOWN_KEY_MS = 10_000
_PARTS = 3


class Expected(NamedTuple):
    """What a token must say.

    Attributes:
        audience: one of these must be its audience; none for any.
        issuer: who must have issued it; None for anybody.
        scope_claim, sub_claim: the claims with the scope and the user.
        skew_s: by how much clocks may differ.
    """

    audience: Sequence[str]
    issuer: str | None
    scope_claim: str
    sub_claim: str
    skew_s: int


class Keys:
    """The keys at a URL, `file:` included."""

    def __init__(self, url: str, refresh_ms: int, environment: Environment) -> None:
        """Read the keys.

        Args:
            url: where they are.
            refresh_ms: after this time they are fetched anew.
            environment: its clock, and where a fetch waits.

        Raises:
            ConfigError: they cannot be read.
        """
        self._url = url
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("file", "http", "https"):
            raise ConfigError("sasl.oauthbearer.jwks.endpoint.url is no file:, http: or https: URL")
        self._path = urllib.request.url2pathname(parts.path) if parts.scheme == "file" else None
        self._shown = self._path or f"{parts.scheme}://{parts.hostname}"
        self._refresh_ms = refresh_ms
        self._environment = environment
        self._fetched_ms = environment.now_ms()
        self._fetching: Task[None] | None = None
        self._changed: object = None
        self._keys: list[Any] = []
        try:
            self.take(self.fetch())
        except (OSError, ValueError) as error:
            reason = _reason(error)
            raise ConfigError(f"the keys at {self._shown} can't be read: {reason}") from None

    def fetch(self) -> bytes:
        """Return what is at the URL, in any thread. Raises OSError."""
        if self._path is not None:
            with open(self._path, "rb") as file:
                self._changed = _changed(self._path)
                return file.read(_MOST_BYTES)
        with urllib.request.urlopen(self._url, timeout=_FETCH_TIMEOUT_S) as answer:  # noqa: S310 - the scheme was checked
            data: bytes = answer.read(_MOST_BYTES)
            return data

    def take(self, data: bytes) -> None:
        """Use the keys of a set. Raises ValueError: it is none."""
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        try:
            self._keys = list(KeySet.import_key_set(json.loads(data)).keys)
        except (JoseError, KeyError, TypeError, AttributeError) as error:
            raise ValueError("it is no set of keys") from error

    def find(self, key_id: str | None) -> list[Any]:
        """Return the key of an id, or all keys without one."""
        now_ms = self._environment.now_ms()
        if self._path is not None:
            self._read_changed(self._path)
        elif now_ms - self._fetched_ms >= self._refresh_ms:
            self._begin_fetch(now_ms)
        if key_id is None:
            return self._keys
        found = [each for each in self._keys if each.kid == key_id]
        if not found and self._path is None and now_ms - self._fetched_ms >= _UNKNOWN_KEY_MS:
            # The client tries again, and then the key may be there.
            self._begin_fetch(now_ms)
        return found

    def _begin_fetch(self, now_ms: int) -> None:
        self._fetched_ms = now_ms
        if self._fetching is None:
            self._fetching = self._environment.loop.create_task(self._fetch_and_take())

    async def _fetch_and_take(self) -> None:
        try:
            self.take(await self._environment.run_blocking(self.fetch))
        except (OSError, ValueError) as error:
            # The keys stay as they were.
            log = self._environment.log
            log.warning("keys of tokens not fetched", source=self._shown, error=_reason(error))
        finally:
            self._fetching = None

    def _read_changed(self, path: str) -> None:
        """Read the file again if it is another one; keys that cannot be read stay as they were."""
        if _changed(path) != self._changed:
            try:
                self.take(self.fetch())
            except (OSError, ValueError):
                return


def _reason(error: Exception) -> str:
    """Return what went wrong, without anything of what was fetched."""
    if isinstance(error, urllib.error.HTTPError):
        return f"status {error.code}"
    if isinstance(error, OSError):
        return error.strerror or "no answer"
    return "it is no set of keys"


def _changed(path: str) -> object:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


class SignedTokens:
    """The validator of signed tokens."""

    def __init__(self, keys: Keys, expected: Expected) -> None:
        """Take keys, and what tokens must say."""
        self._keys = keys
        self._expected = expected

    def validate(self, token: str, now_ms: int) -> LoggedIn:
        """See `TokenValidator` [security/signed-tokens]."""
        parts = token.split(".")
        if len(parts) != _PARTS:
            raise Refused
        header = decoded(parts[0])
        key_id = header.get("kid")
        if header.get("alg") not in ALGORITHMS or not isinstance(key_id, str | None):
            raise Refused
        if not any(_is_signed(token, key) for key in self._keys.find(key_id)):
            raise Refused
        return self._checked(decoded(parts[1]), now_ms)

    def _checked(self, claims: Any, now_ms: int) -> LoggedIn:
        expected, skew_ms = self._expected, self._expected.skew_s * 1000
        expires_s, issued_s = time_of(claims, "exp"), time_of(claims, "iat")
        before_s = time_of(claims, "nbf") if "nbf" in claims else 0
        if expires_s * 1000 + skew_ms < now_ms or max(issued_s, before_s) * 1000 > now_ms + skew_ms:
            raise Refused
        audience = claims.get("aud", ())
        audiences = [audience] if isinstance(audience, str) else audience
        if expected.audience and not (
            isinstance(audiences, list) and any(each in expected.audience for each in audiences)
        ):
            raise Refused
        if expected.issuer is not None and claims.get("iss") != expected.issuer:
            raise Refused
        scope = scope_of(claims, expected.scope_claim)
        name = claims.get(expected.sub_claim)
        if len(set(scope)) != len(scope) or not isinstance(name, str) or not name.strip():
            raise Refused
        return LoggedIn(name.strip(), int(expires_s * 1000))


def _is_signed(token: str, key: Any) -> bool:
    from joserfc import jwt
    from joserfc.errors import JoseError

    try:
        jwt.decode(token, key, algorithms=ALGORITHMS)
    except (JoseError, ValueError, TypeError):
        return False
    return True
