"""Fetch sessions: the partitions that a client reads, remembered between its requests (KIP-227).

A client that reads many partitions names all of them once. After that its requests name only those
that it reads from another offset, and the responses name only those with news
[data-plane/fetch-sessions]. A session belongs to no connection. It ends when its client says so,
when its last partition is forgotten, or when another one takes its place
[data-plane/session-eviction].

Most partitions of a large session have no news most of the time. Such an idle partition watches its
log, which costs a request nothing; the first append or other change makes it active again, and from
then on it costs an append nothing. So a request looks at the active partitions only.

Invariants: `partition_count` is the number of partitions of all sessions. A partition of a session
is active, or it watches the partition of the topic; after the end of the session it watches none.
"""

from bisect import bisect_left, insort
from collections.abc import Callable
from operator import attrgetter

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import FetchResponsePartition
from coterie.server.logs.fetching import DelayedFetch, FetchPartition, Watchers
from coterie.server.logs.partition import OPEN

# The id in requests and responses without a session.
NO_SESSION = 0
# A request with this epoch opens a session; one with FINAL_EPOCH opens none, or closes one.
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_GREATEST_EPOCH = 2**31 - 1

# Kafka divides an id by this number to find one of its eight tables of sessions.
_KAFKA_IDS_A_TABLE = (2**31 - 1) // 8
_KAFKA_TABLES = 8

# After this time without a request any other client may have a session's place, and a session that
# has existed for longer must yield to a larger one. As in Kafka, where it is not a setting either.
EVICTION_MS = 120_000

# The most partitions in all sessions: each takes about 800 bytes [data-plane/session-eviction].
MAX_SESSION_PARTITIONS = 100_000

# A partition of a session: name or id of the topic, and its number.
SessionKey = tuple[str | bytes, int]

_place = attrgetter("place")


class SessionPartition:
    """A partition of a session.

    Attributes:
        wanted: what the client wants to read of it.
        topic: the name of its topic; empty if the client uses an id that was never found.
        high_watermark, log_start_offset: the ones that were last sent to the client, or -1.
        key: its name in the session.
        place: the partitions are read in the order of their places.
    """

    __slots__ = (
        "_session",
        "high_watermark",
        "key",
        "log_start_offset",
        "place",
        "topic",
        "wanted",
    )

    def __init__(self, session: "FetchSession", wanted: FetchPartition) -> None:
        """Start as a partition that no response has described; the session has to add it."""
        self._session = session
        self.key: SessionKey = wanted.topic, wanted.partition_index
        self.place = 0
        self.topic = wanted.topic if isinstance(wanted.topic, str) else ""
        if wanted.partition is not None:
            self.topic = wanted.partition.topic.name
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
        """Remember what is sent to the client. An error is reported again and again."""
        self.high_watermark = -1 if found.error_code else found.high_watermark
        self.log_start_offset = found.log_start_offset

    # --- watching ---------------------------------------------------------------------------------

    def rest(self) -> None:
        """Become idle: nothing has to be read or reported before a change."""
        session, partition = self._session, self.wanted.partition
        assert partition is not None, "a partition without news exists"
        # Another request may have ended the session meanwhile, or have let it forget the partition.
        if not session.has_ended and session.active.get(self.key) is self:
            assert self not in partition.watchers, "an active partition does not watch its log"
            partition.watchers[self] = None
            del session.active[self.key]

    def wake(self) -> None:
        """Become active, if it is idle."""
        partition = self.wanted.partition
        if partition is not None:
            partition.watchers.pop(self, None)
        self._session.active[self.key] = self

    def changed(self) -> None:
        """Become active; the fetches of the session that wait go on waiting for the partition."""
        partition = self.wanted.partition
        session = self._session
        assert partition is not None, "an idle partition exists"
        assert session.partitions.get(self.key) is self, "an idle partition is in its session"
        self.wake()
        for fetch in session.waiting():
            fetch.watch(partition.watchers)

    def records_appended(self, size_bytes: int, stable_bytes: int) -> None:
        """Become active; the fetches of the session that wait count the append."""
        self.changed()
        for fetch in self._session.waiting():
            fetch.records_appended(size_bytes, stable_bytes)

    def finish(self) -> None:
        """Become active; the fetches of the session that wait are answered."""
        self.changed()
        for fetch in self._session.waiting():
            fetch.finish()


class FetchSession:
    """A session.

    Attributes:
        session_id: its id, above 0.
        uses_topic_ids: whether its client names topics by their ids.
        created_ms: when it was opened.
        last_used_ms: when its last request arrived.
        epoch: the epoch of the next request.
        partitions: by their keys.
        active: those that may have news, in any order.
        watchers: the fetches that wait for the idle partitions.
        size: the number of partitions that the cache has counted.
        is_replaceable: whether a larger session may have its place.
        has_ended: whether it was closed; requests that wait may still read its partitions.
        authorized_as: for whom, and by which state of the rules, the idle partitions may be read;
            None without an authorizer.
    """

    __slots__ = (
        "_last_place",
        "active",
        "authorized_as",
        "created_ms",
        "epoch",
        "has_ended",
        "is_replaceable",
        "last_used_ms",
        "partitions",
        "session_id",
        "size",
        "uses_topic_ids",
        "watchers",
    )

    def __init__(self, now_ms: int, *, uses_topic_ids: bool) -> None:
        """Start without partitions and without an id."""
        self.session_id = NO_SESSION
        self.partitions: dict[SessionKey, SessionPartition] = {}
        self.active: dict[SessionKey, SessionPartition] = {}
        self.watchers: Watchers = {}
        self.authorized_as: object = None
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.size = 0
        self.is_replaceable = False
        self.has_ended = False
        self._last_place = 0

    def add(self, partition: SessionPartition) -> None:
        """Add a partition, which is read after all others."""
        assert partition.key not in self.partitions, "a session has a partition once"
        self.partitions[partition.key] = self.active[partition.key] = partition
        assert len(self.active) <= len(self.partitions), "active partitions are in the session"
        self.read_last(partition)

    def forget(self, key: SessionKey) -> None:
        """Remove a partition, if there is one."""
        partition = self.partitions.pop(key, None)
        if partition is not None:
            partition.wake()
            del self.active[key]

    def read_last(self, partition: SessionPartition) -> None:
        """Read a partition after all others from now on, so that all have their turn."""
        self._last_place += 1
        partition.place = self._last_place

    def to_read(self) -> list[SessionPartition]:
        """Return the partitions that may have news, in the order in which they are read."""
        return sorted(self.active.values(), key=_place)

    def waiting(self) -> list[DelayedFetch]:
        """Return the fetches that wait for the idle partitions."""
        return [each for each in self.watchers if isinstance(each, DelayedFetch)]

    def end(self) -> None:
        """Let no partition watch any more."""
        self.has_ended = True
        if len(self.active) < len(self.partitions):
            for partition in self.partitions.values():
                partition.wake()
        assert len(self.active) == len(self.partitions), "no partition watches after the end"


def may_be_session(session_id: int) -> bool:
    """Return whether Kafka has a table for an id; at any other it fails.

    Eight positive ids have none, because the division leaves a rest. Small negative
    ids have the first one, because Java's division rounds towards zero [data-plane/session-errors].
    """
    return -_KAFKA_IDS_A_TABLE < session_id < _KAFKA_TABLES * _KAFKA_IDS_A_TABLE


def next_epoch(epoch: int) -> int:
    """Return the epoch that follows; after the greatest one that is 1."""
    assert epoch >= INITIAL_EPOCH, "only a session that is open has a next epoch"
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
        session: FetchSession,
        now_ms: int,
    ) -> int:
        """Open a session and return its id, or `NO_SESSION` if there is no room for it."""
        assert session.session_id == NO_SESSION, "a session is opened once"
        assert not session.has_ended, "a session that has ended is not opened"
        session.size = len(session.partitions)
        if not self._make_room(session.size, now_ms):
            return NO_SESSION
        session_id = self._new_id()
        while session_id in self._sessions or not may_be_session(session_id):
            session_id = self._new_id()
        assert session_id > NO_SESSION, "ids of sessions are above 0"
        session.session_id = session_id
        self._sessions[session_id] = session
        self.partition_count += session.size
        assert len(self._sessions) <= self._slots, "each session has a place"
        assert self.partition_count <= MAX_SESSION_PARTITIONS, "there was room for its partitions"
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
            False if the session was closed, because the sessions have too many partitions now, or
            by another request while a large one was handled in slices.
        """
        if session.has_ended:
            return False
        del self._sessions[session.session_id]
        self._sessions[session.session_id] = session
        session.last_used_ms = now_ms
        size = len(session.partitions)
        is_replaceable = now_ms - session.created_ms > EVICTION_MS
        if size != session.size or is_replaceable != session.is_replaceable:
            self._forget_size(session)
            self.partition_count += size - session.size
            assert self.partition_count >= size, "all partitions of a session are counted"
            session.size = size
            session.is_replaceable = is_replaceable
            if is_replaceable:
                insort(self._replaceable, (size, session.session_id))
            assert len(self._replaceable) <= len(self._sessions), "a session is listed once"
        if self.partition_count > MAX_SESSION_PARTITIONS:
            self.close(session.session_id)
            return False
        return True

    def close(self, session_id: int) -> None:
        """Close a session, if it exists."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end()
            self._forget_size(session)
            self.partition_count -= session.size
            assert self.partition_count >= 0, "a partition is counted once"
            assert self._sessions or not self.partition_count, "only sessions have partitions"
            assert len(self._replaceable) <= len(self._sessions), "a closed session is not listed"

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
            assert session_id in self._sessions, "a session that yields is open"
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
