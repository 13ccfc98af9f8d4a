"""Fetch sessions: the partitions that a client reads, remembered between its requests (KIP-227).

A client that reads many partitions names all of them once. After that its requests name only those
that it reads from another offset, and the responses name only those with news
[data-plane/fetch-sessions]. A session belongs to no connection. It ends when its client says so,
when its last partition is forgotten, or when another one takes its place
[data-plane/session-eviction].

Invariant: `partition_count` is the number of partitions of all sessions.
"""

from bisect import bisect_left, insort
from collections.abc import Callable

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import FetchResponsePartition
from coterie.server.logs.fetching import FetchPartition
from coterie.server.logs.partition import OPEN

# The id in requests and responses without a session.
NO_SESSION = 0
# A request with this epoch opens a session; one with FINAL_EPOCH opens none, or closes one.
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_GREATEST_EPOCH = 2**31 - 1

# After this time without a request any other client may have a session's place, and a session that
# has existed for longer must yield to a larger one. As in Kafka, where it is not a setting either.
EVICTION_MS = 120_000

# The most partitions in all sessions: each takes about 500 bytes [data-plane/session-limits].
MAX_SESSION_PARTITIONS = 100_000

# A partition of a session: name or id of the topic, and its number.
SessionKey = tuple[str | bytes, int]


class SessionPartition:
    """A partition of a session.

    Attributes:
        topic, topic_id: as the client names the topic; `topic` is also set when its id is found.
        wanted: what the client wants to read of it.
        high_watermark, log_start_offset: what the client was last told about it, or -1.
    """

    __slots__ = ("high_watermark", "log_start_offset", "topic", "topic_id", "wanted")

    def __init__(self, topic: str, topic_id: bytes, wanted: FetchPartition) -> None:
        """Start as a partition of which the client knows nothing."""
        self.topic = topic
        self.topic_id = topic_id
        self.wanted = wanted
        self.high_watermark = -1
        self.log_start_offset = -1

    def has_no_news(self) -> bool:
        """Return whether nothing has to be read or reported.

        False if that is not known: it is decided without a call, because most partitions of a large
        session have no news.
        """
        wanted = self.wanted
        partition = wanted.partition
        if partition is None or partition.state is not OPEN:
            return False
        log = partition.opened_log
        return (
            log is not None
            and wanted.offset == log.log_end_offset == self.high_watermark
            and log.log_start_offset == self.log_start_offset
            and (wanted.current_leader_epoch < 0 or wanted.current_leader_epoch == log.leader_epoch)
            and (wanted.last_fetched_epoch < 0 or wanted.last_fetched_epoch == log.leader_epoch)
        )

    def is_news(self, found: FetchResponsePartition) -> bool:
        """Return whether a response must contain what was found."""
        return bool(
            found.records
            or found.error_code
            or found.high_watermark != self.high_watermark
            or found.log_start_offset != self.log_start_offset
            or found.diverging_epoch is not None
        )

    def answered(self, found: FetchResponsePartition) -> None:
        """Remember what the client is told. An error is reported again and again."""
        self.high_watermark = -1 if found.error_code else found.high_watermark
        self.log_start_offset = found.log_start_offset


class FetchSession:
    """A session.

    Attributes:
        session_id: its id, above 0.
        uses_topic_ids: whether its client names topics by their ids.
        created_ms: when it was opened.
        last_used_ms: when its last request arrived.
        epoch: the epoch of the next request.
        partitions: in the order in which they are read.
        size: the number of partitions that the cache has counted.
        is_replaceable: whether a larger session may have its place.
    """

    __slots__ = (
        "created_ms",
        "epoch",
        "is_replaceable",
        "last_used_ms",
        "partitions",
        "session_id",
        "size",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        partitions: dict[SessionKey, SessionPartition],
        now_ms: int,
        *,
        uses_topic_ids: bool,
    ) -> None:
        """Open a session with the partitions of a full request."""
        self.session_id = session_id
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.size = len(partitions)
        self.is_replaceable = False

    def read_last(self, key: SessionKey) -> None:
        """Read a partition after all others from now on, so that all have their turn."""
        partition = self.partitions.pop(key, None)
        if partition is not None:
            self.partitions[key] = partition


def next_epoch(epoch: int) -> int:
    """Return the epoch that follows; after the greatest one that is 1."""
    return 1 if epoch >= _GREATEST_EPOCH else epoch + 1


class FetchSessionCache:
    """The sessions of all clients.

    Attributes:
        partition_count: how many partitions they have.
        evictions: how many sessions had to yield to others.
    """

    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        """Start without sessions.

        Args:
            slots: the most sessions at a time.
            new_id: returns a random number above 0.
        """
        self._slots = slots
        self._new_id = new_id
        # In the order of their last use.
        self._sessions: dict[int, FetchSession] = {}
        # Size and id of each session that a larger one may replace, in order.
        self._replaceable: list[tuple[int, int]] = []
        self.partition_count = 0
        self.evictions = 0

    # Not a length: a cache without sessions is not false.
    @property
    def session_count(self) -> int:
        """How many sessions there are."""
        return len(self._sessions)

    def open(
        self,
        partitions: dict[SessionKey, SessionPartition],
        now_ms: int,
        *,
        uses_topic_ids: bool,
    ) -> int:
        """Open a session and return its id, or `NO_SESSION` if there is no room for it."""
        if not self._make_room(len(partitions), now_ms):
            return NO_SESSION
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        assert session_id > NO_SESSION, "ids of sessions are above 0"
        session = FetchSession(session_id, partitions, now_ms, uses_topic_ids=uses_topic_ids)
        self._sessions[session_id] = session
        self.partition_count += session.size
        return session_id

    def find(
        self, session_id: int, epoch: int, *, uses_topic_ids: bool
    ) -> FetchSession | ErrorCode:
        """Return the session that a request continues, or its error [data-plane/session-errors]."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return session

    def continued(self, session: FetchSession, now_ms: int) -> bool:
        """Count the partitions of a session after a request has changed them.

        Returns:
            False if the session was closed, because the sessions have too many partitions now.
        """
        del self._sessions[session.session_id]
        self._sessions[session.session_id] = session
        session.last_used_ms = now_ms
        size = len(session.partitions)
        is_replaceable = now_ms - session.created_ms > EVICTION_MS
        if size != session.size or is_replaceable != session.is_replaceable:
            self._forget_size(session)
            self.partition_count += size - session.size
            session.size = size
            session.is_replaceable = is_replaceable
            if is_replaceable:
                insort(self._replaceable, (size, session.session_id))
        if self.partition_count > MAX_SESSION_PARTITIONS:
            self.close(session.session_id)
            return False
        return True

    def close(self, session_id: int) -> None:
        """Close a session, if it exists."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._forget_size(session)
            self.partition_count -= session.size
            assert self.partition_count >= 0, "a partition is counted once"

    def _forget_size(self, session: FetchSession) -> None:
        if session.is_replaceable:
            at = bisect_left(self._replaceable, (session.size, session.session_id))
            assert self._replaceable[at][1] == session.session_id, "replaceable ones are listed"
            del self._replaceable[at]

    def _make_room(self, size: int, now_ms: int) -> bool:
        """Close sessions that must yield to a new one; return whether it has room."""
        if size > MAX_SESSION_PARTITIONS:
            return False
        while (
            len(self._sessions) >= self._slots
            or self.partition_count + size > MAX_SESSION_PARTITIONS
        ):
            session_id = self._evictable(size, now_ms)
            if session_id is None:
                return False
            self.close(session_id)
            self.evictions += 1
        return True

    def _evictable(self, size: int, now_ms: int) -> int | None:
        """Return the session that yields to one of this size: an idle one, or a smaller old one."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return None
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            return oldest.session_id
        if self._replaceable and self._replaceable[0][0] < size:
            return self._replaceable[0][1]
        return None
