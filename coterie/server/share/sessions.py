"""Share sessions: what a member of a share group fetches, and how far its requests have come.

A session belongs to the connection that has opened it, and ends with it. Any connection may use it
[share-partitions/sessions].

Invariants: there are never more sessions than the limit, nor more partitions of all of them.
"""

from collections.abc import Iterable

from coterie.protocol.errors import ErrorCode
from coterie.server.network.delayed_response import Exchange

OPENING_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = 0x7FFFFFFF

# So many partitions may all sessions have: about 30 MiB. They need not exist.
MAX_SHARED_PARTITIONS = 200_000

# Topic id and number of a partition.
SharedPartition = tuple[bytes, int]
# Group and member.
SessionKey = tuple[str, str]


class ShareSession:
    """The session of one member.

    Attributes:
        key: the group and the member.
        connection: the connection that has opened it.
        partitions: what it fetches, in the order of the next fetch; the value is whether the last
            answer had an error for the partition, but for that of the opening request, or it was
            added to an open session and none had it yet: then the next one has it.
        epoch: the epoch of the next request.
    """

    __slots__ = ("connection", "epoch", "key", "partitions")

    def __init__(self, key: SessionKey, connection: Exchange) -> None:
        """Begin without partitions; the opening request is being handled."""
        self.key = key
        self.connection = connection
        self.partitions: dict[SharedPartition, bool] = {}
        self.epoch = OPENING_EPOCH + 1

    def advance(self) -> None:
        """Expect the next request."""
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def in_turn(self, epoch: int) -> list[SharedPartition]:
        """Return the partitions in the order of the fetch with an epoch: each is first in turn."""
        partitions = list(self.partitions)
        if not partitions:
            return []
        begin = epoch % len(partitions)
        return partitions[begin:] + partitions[:begin]

    def found_records(self, partition: SharedPartition) -> None:
        """Let others come first next time."""
        if partition in self.partitions:
            self.partitions[partition] = self.partitions.pop(partition)


class ShareSessions:
    """The share sessions of a broker."""

    def __init__(self, max_sessions: int) -> None:
        """Start without sessions.

        Args:
            max_sessions: group.share.max.share.sessions.
        """
        self._max_sessions = max_sessions
        self._sessions: dict[SessionKey, ShareSession] = {}
        # How many partitions they have together.
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, key: SessionKey, connection: Exchange) -> ShareSession | None:
        """Open a session, in the place of one that there is; None if there are too many."""
        replaced = self._sessions.get(key)
        if replaced is not None:
            self.remove(replaced)
            replaced.connection.when_closed(replaced, None)
        if len(self._sessions) >= self._max_sessions:
            return None
        session = self._sessions[key] = ShareSession(key, connection)
        return session

    def get(self, key: SessionKey) -> ShareSession | None:
        """Return the session of a member, if it has one; its epoch stays."""
        return self._sessions.get(key)

    def find(self, key: SessionKey, epoch: int) -> ShareSession | ErrorCode:
        """Return the session of a request that continues or ends it, or why there is none."""
        session = self._sessions.get(key)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.advance()
        return session

    def remove(self, session: ShareSession) -> bool:
        """End a session; return False if another one has taken its place, or it has ended."""
        if self._sessions.get(session.key) is not session:
            return False
        del self._sessions[session.key]
        self._partitions -= len(session.partitions)
        return True

    def all(self) -> list[ShareSession]:
        """Return the sessions there are."""
        return list(self._sessions.values())

    def has_room(self, partitions: int, replaced: SessionKey | None = None) -> bool:
        """Return whether so many more partitions may be added, once a session is replaced."""
        session = None if replaced is None else self._sessions.get(replaced)
        freed = 0 if session is None else len(session.partitions)
        return self._partitions - freed + partitions <= MAX_SHARED_PARTITIONS

    def change(
        self,
        session: ShareSession,
        added: Iterable[SharedPartition],
        forgotten: Iterable[SharedPartition],
        *,
        is_answered: bool,
    ) -> None:
        """Let a session fetch partitions from now on, and others not any more.

        Those that are added are in the next answer, unless this answer has them.
        """
        before = len(session.partitions)
        for each in added:
            session.partitions.setdefault(each, not is_answered)
        for each in forgotten:
            session.partitions.pop(each, None)
        if self._sessions.get(session.key) is session:
            self._partitions += len(session.partitions) - before

    def clear(self) -> None:
        """End all sessions."""
        for session in self._sessions.values():
            session.connection.when_closed(session, None)
        self._sessions.clear()
        self._partitions = 0

    def has_group(self, group_id: str) -> bool:
        """Return whether a group has sessions."""
        return any(group == group_id for group, _ in self._sessions)
