"""The SCRAM credentials of all users, as the records of the security log leave them.

A credential holds no password and no salted password: with it alone nobody can log in (RFC 5802).
"""

from collections.abc import Iterator, Mapping

from coterie.protocol.messages.security_records import (
    RemoveUserScramCredentialRecord,
    SecurityRecord,
    UserScramCredentialRecord,
)
from coterie.security.scram import ScramKeys

# They are in memory, and a start reads all of them: 10,000 users with two credentials each are some
# 5 MiB.
MOST_USERS = 10_000


def credential_of(name: str, mechanism: int, keys: ScramKeys) -> UserScramCredentialRecord:
    """Return the record of a user's credential.

    Args:
        name: the user.
        mechanism: Kafka's number of the mechanism.
        keys: what is kept of the password.
    """
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=keys.salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=keys.iterations,
    )


class Credentials:
    """The credentials by user and mechanism.

    Attributes:
        record_types: the records that are kept here.
    """

    record_types: tuple[type[SecurityRecord], ...] = (
        UserScramCredentialRecord,
        RemoveUserScramCredentialRecord,
    )

    def __init__(self) -> None:
        """Start without users."""
        self._users: dict[str, dict[int, UserScramCredentialRecord]] = {}

    @property
    def users(self) -> Mapping[str, Mapping[int, UserScramCredentialRecord]]:
        """The users that have a credential, with their credentials by mechanism."""
        return self._users

    def find(self, user: str, mechanism: int) -> UserScramCredentialRecord | None:
        """Return the credential of a user for a mechanism, by Kafka's number of it."""
        return self._users.get(user, {}).get(mechanism)

    def replay(self, record: UserScramCredentialRecord | RemoveUserScramCredentialRecord) -> None:
        """Apply a record."""
        if isinstance(record, UserScramCredentialRecord):
            self._users.setdefault(record.name, {})[record.mechanism] = record
            return
        mechanisms = self._users.get(record.name, {})
        mechanisms.pop(record.mechanism, None)
        if not mechanisms:
            self._users.pop(record.name, None)

    def records(self) -> Iterator[SecurityRecord]:
        """Return the records that make the present state."""
        for mechanisms in self._users.values():
            yield from mechanisms.values()
