"""Delegation tokens (KIP-48): who may log in with one, and until when.

A token's password follows from its id and the secret of the brokers, so no password is kept. It is
the base64 of an HMAC; a client logs in with it by SCRAM [security/delegation-tokens].
"""

import hmac
from base64 import b64encode
from collections.abc import Iterable, Iterator

from coterie.protocol.messages.security_records import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
    SecurityRecord,
)
from coterie.security.mechanisms import LoggedIn
from coterie.security.scram import MIN_ITERATIONS, ScramKeys, ScramUser, keys_of, salted_password

# They are in memory, and a start reads all of them: some 5 MiB.
MOST_TOKENS = 10_000
# Keys take milliseconds to compute, and those of a token stay the same.
_MOST_KEYS = 1_000
_USER = "User:"


class DelegationTokens:
    """The tokens by id, and what follows from the secret.

    Attributes:
        record_types: the records that are kept here.
        is_enabled: whether there is a secret; without one there are no tokens.
    """

    record_types: tuple[type[SecurityRecord], ...] = (
        DelegationTokenRecord,
        RemoveDelegationTokenRecord,
    )

    def __init__(self, secret: str | None) -> None:
        """Start without tokens, with the secret of the brokers."""
        self.is_enabled = bool(secret)
        self._secret = (secret or "").encode()
        self._tokens: dict[str, DelegationTokenRecord] = {}
        self._ids: dict[bytes, str] = {}
        self._keys: dict[tuple[str, int], ScramKeys] = {}

    def __len__(self) -> int:
        return len(self._tokens)

    def __iter__(self) -> Iterator[DelegationTokenRecord]:
        return iter(list(self._tokens.values()))

    def hmac(self, token_id: str) -> bytes:
        """Return what makes the password of a token."""
        return hmac.digest(self._secret, token_id.encode(), "sha512")

    def find(self, hmac_of_token: bytes) -> DelegationTokenRecord | None:
        """Return the token with an HMAC."""
        token_id = self._ids.get(hmac_of_token)
        return None if token_id is None else self._tokens[token_id]

    def login(self, token_id: str, mechanism: int, now_ms: int) -> ScramUser | None:
        """Return who logs in with a token, if it has not expired."""
        token = self._tokens.get(token_id)
        if token is None or not self.is_enabled or is_expired(token, now_ms):
            return None
        keys = self._keys.get((token_id, mechanism))
        if keys is None:
            salt = hmac.digest(self._secret, f"salt of {token_id}".encode(), "sha256")
            password = b64encode(self.hmac(token_id)).decode()
            salted = salted_password(mechanism, password, salt, MIN_ITERATIONS)
            keys = keys_of(mechanism, salted, salt, MIN_ITERATIONS)
            if len(self._keys) >= _MOST_KEYS:
                self._keys.clear()
            self._keys[token_id, mechanism] = keys
        owner = token.owner.removeprefix(_USER)
        return ScramUser(keys, LoggedIn(owner, token.expiration_timestamp, by_token=True))

    def replay(self, record: DelegationTokenRecord | RemoveDelegationTokenRecord) -> None:
        """Apply a record."""
        if isinstance(record, DelegationTokenRecord):
            self._tokens[record.token_id] = record
            self._ids[self.hmac(record.token_id)] = record.token_id
            return
        self._tokens.pop(record.token_id, None)
        self._ids.pop(self.hmac(record.token_id), None)
        for mechanism in (1, 2):
            self._keys.pop((record.token_id, mechanism), None)

    def records(self) -> Iterator[SecurityRecord]:
        """Return the records that make the present state."""
        yield from self._tokens.values()


def is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    """Return whether a token is valid no more."""
    return min(token.expiration_timestamp, token.max_timestamp) < now_ms


def is_owner_or_renewer(token: DelegationTokenRecord, principal: str) -> bool:
    """Return whether a principal owns a token, has asked for it, or is one of its renewers."""
    return principal in (token.owner, token.requester, *token.renewers)


def expiring(token: DelegationTokenRecord, expires_ms: int) -> DelegationTokenRecord:
    """Return a token with another time of expiry, which is not after its greatest."""
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=token.renewers,
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=min(expires_ms, token.max_timestamp),
        token_id=token.token_id,
    )


def removals(tokens: Iterable[DelegationTokenRecord], now_ms: int) -> list[SecurityRecord]:
    """Return the records that remove the expired ones of some tokens."""
    return [
        RemoveDelegationTokenRecord(token_id=each.token_id)
        for each in tokens
        if is_expired(each, now_ms)
    ]
