"""Fetches that open or continue a fetch session [data-plane/fetch-sessions]."""

from collections.abc import Iterable

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestTopic,
    FetchResponse,
)
from coterie.server.handlers.plain_fetch import (
    READ_AT_ONCE,
    TOPIC_IDS_SINCE,
    Fetch,
    named_entries,
)
from coterie.server.logs.fetch_sessions import (
    FetchSession,
    SessionPartition,
    next_epoch,
)
from coterie.server.logs.fetching import FetchPartition, Watchers
from coterie.server.logs.partition import OPEN, Topic
from coterie.server.metadata.topic_rules import MAX_NAME_LENGTH
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services


def leaves_no_partition(session: FetchSession, request: FetchRequest) -> bool:
    """Return whether a request that continues a session makes it forget all its partitions."""
    if session.partitions and not request.forgotten_topics_data:
        return False
    count = sum(len(each.partitions) for each in request.forgotten_topics_data)
    if count < len(session.partitions):
        # Most requests forget few of many; only others are worth a look at each partition.
        return False
    forgotten = {
        (_name(session, each), index)
        for each in request.forgotten_topics_data
        for index in each.partitions
    }
    return forgotten.issuperset(session.partitions) and all(
        (_name(session, asked), each.partition) in forgotten
        for asked in request.topics
        for each in asked.partitions
    )


def _name(
    session: FetchSession, asked: FetchRequestTopic | FetchRequestForgottenTopic
) -> str | bytes:
    """Return what a topic is called in a session: by its name or its id."""
    return asked.topic_id if session.uses_topic_ids else asked.topic


def _is_too_long(wanted: FetchPartition) -> bool:
    """Return whether no topic can have its name.

    The request that opens a session gets an answer for it, but no session keeps it: clients must
    not fill the memory with names [data-plane/session-eviction].
    """
    return len(wanted.topic) > MAX_NAME_LENGTH


class SessionFetch(Fetch):
    """A fetch that opens a session, or continues one.

    The request changes the session before anything is read. What the response contains is noted
    when it is sent, since a fetch that waits reads twice; a new session is opened then.
    """

    __slots__ = ("_epoch", "_is_new", "_news", "_session")

    def __init__(
        self,
        broker: Services,
        request: FetchRequest,
        connection: Exchange,
        session: FetchSession | None,
    ) -> None:
        """Take the epoch of the session, or make a new one if there is none.

        No other request may have the epoch.
        """
        super().__init__(broker, request, connection)
        self._is_new = session is None
        if session is None:
            by_id = connection.version >= TOPIC_IDS_SINCE
            session = FetchSession(connection.now_ms, uses_topic_ids=by_id)
        else:
            session.epoch = next_epoch(session.epoch)
        self._session = session
        self._epoch = session.epoch
        # The partitions of the response.
        self._news: list[SessionPartition] = []

    def _is_large(self) -> bool:
        request = self._request
        entries = len(self._session.active) + named_entries(request)
        for forgotten in request.forgotten_topics_data:
            entries += 1 + len(forgotten.partitions)
        return entries > READ_AT_ONCE

    # --- the session ------------------------------------------------------------------------------

    def _look_up(self) -> Iterable[None]:
        """Change the session as the request asks, and look up what was not found before."""
        session, sessions = self._session, self._broker.fetch_sessions
        yield from super()._look_up()
        self._closed = []
        count = 0
        for wanted in self._wanted.values():
            self._add(wanted)
            count += 1
            if not count % READ_AT_ONCE:
                yield
        # The request that opens a session forgets nothing.
        for forgotten in () if self._is_new else self._request.forgotten_topics_data:
            name = _name(session, forgotten)
            for index in forgotten.partitions:
                session.forget((name, index))
                count += 1
                if not count % READ_AT_ONCE:
                    yield
        if not (self._is_new or sessions.continued(session, self._connection.now_ms)):
            error = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            self._response = FetchResponse(error_code=error, responses=[])
            return
        for count, cached in enumerate(list(session.active.values()), 1):
            partition = cached.wanted.partition
            if partition is None or partition.state is not OPEN:
                self._look_up_again(cached)
            if not count % READ_AT_ONCE:
                yield

    def _add(self, wanted: FetchPartition) -> None:
        """Add a partition, or change what the client wants of it."""
        session = self._session
        cached = session.partitions.get((wanted.topic, wanted.partition_index))
        if cached is not None:
            cached.wake()
            cached.wanted = wanted
        elif self._is_new or not _is_too_long(wanted):
            session.add(SessionPartition(session, wanted))

    def _topic(self, name: str | bytes) -> Topic | None:
        topics = self._broker.topics
        return topics.by_name.get(name) if isinstance(name, str) else topics.by_id.get(name)

    def _look_up_again(self, cached: SessionPartition) -> None:
        """Look up a partition that did not exist, was deleted, or is not open."""
        wanted = cached.wanted
        topic = self._topic(wanted.topic)
        partition = None if topic is None else topic.partition(wanted.partition_index)
        error = ErrorCode.NONE
        if partition is None:
            error = self._unknown(cached) if topic is None else _UNKNOWN
        else:
            cached.topic = partition.topic.name
            if partition.opened_log is None:
                self._closed.append(partition)
        cached.wanted = wanted._replace(partition=partition, error=error)

    def _unknown(self, cached: SessionPartition) -> ErrorCode:
        """Return the error for a topic that does not exist, or not any more."""
        if not self._session.uses_topic_ids:
            return _UNKNOWN
        if not cached.topic:
            return ErrorCode.UNKNOWN_TOPIC_ID
        topic = self._broker.topics.by_name.get(cached.topic)
        if topic is None or topic.partition(cached.wanted.partition_index) is None:
            return _UNKNOWN
        return ErrorCode.INCONSISTENT_TOPIC_ID

    # --- records ----------------------------------------------------------------------------------

    def _fill(self) -> Iterable[None]:
        """Read the partitions that may have news."""
        read = self._read
        self._news = news = []
        for count, cached in enumerate(self._session.to_read(), 1):
            if not count % READ_AT_ONCE:
                yield
            if cached.has_no_news():
                cached.rest()
                continue
            found = read.read_partition(cached.wanted)
            if cached.is_news(found):
                news.append(cached)
                read.add(cached.wanted, found)

    def _watchers(self) -> list[Watchers]:
        session = self._session
        found = (each.wanted.partition for each in session.active.values())
        watched = [partition.watchers for partition in found if partition is not None]
        if len(session.active) < len(session.partitions):
            watched.append(session.watchers)
        return watched

    def _render(self) -> Iterable[None]:
        """Note what is sent to the client, and open a new session."""
        session = self._session
        if session.epoch != self._epoch:
            # Another request has continued the session while this one was waiting.
            self._response = FetchResponse(
                error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                session_id=session.session_id,
                responses=[],
            )
            return
        found = zip(self._news, self._read.found, strict=True)
        for count, (cached, (_, part)) in enumerate(found, 1):
            cached.answered(part)
            if part.records and not self._is_new:
                session.read_last(cached)
            elif _is_too_long(cached.wanted):
                session.forget(cached.key)
            if not count % READ_AT_ONCE:
                yield
        yield from super()._render()
        if self._is_new:
            self._broker.fetch_sessions.open(session, self._connection.now_ms)
        assert self._response is not None, "the response is made"
        self._response.session_id = session.session_id


_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
