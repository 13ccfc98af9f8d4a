"""Fetches that open or continue a fetch session [data-plane/fetch-sessions]."""

from collections.abc import Generator

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
)
from coterie.server.handlers.fetch_partitions import (
    LEADERS_SINCE,
    READ_AT_ONCE,
    TOPIC_IDS_SINCE,
    FetchResult,
    Reading,
    WantedTopic,
    add_leaders,
    find_partition,
    may_be_sent,
    named_entries,
    parts,
    refused_as_a_whole,
)
from coterie.server.handlers.stepped_fetch import SteppedFetch
from coterie.server.logs.fetch_sessions import (
    FetchSession,
    SessionKey,
    SessionPartition,
    next_epoch,
)
from coterie.server.logs.fetching import FetchPartition, Watchers
from coterie.server.logs.partition import OPEN, Partition, Topic
from coterie.server.metadata.topic_rules import MAX_NAME_LENGTH
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import run_now
from coterie.server.services import Services

# A partition with news: what the session has of it, and what was found.
_Found = tuple[SessionPartition, FetchResponsePartition]


def open_session(
    broker: Services,
    connection: Exchange,
    wanted: list[WantedTopic],
    response: FetchResponse,
) -> Generator[None, None, FetchResponse]:
    """Open a session with the partitions of a full request; return the response with its id."""
    by_id = connection.version >= TOPIC_IDS_SINCE
    session = FetchSession(connection.now_ms, uses_topic_ids=by_id)
    for (asked, topic_partitions), answered in zip(wanted, response.responses, strict=True):
        if _is_too_long(asked):
            continue
        topic: str | bytes = asked.topic_id if by_id else asked.topic
        for count, each in enumerate(topic_partitions, 1):
            cached = _unknown_to_client(session, (topic, each.partition_index), asked, each)
            cached.answered(answered.partitions[count - 1])
            session.add(cached)
            if not count % READ_AT_ONCE:
                yield
        yield
    response.session_id = broker.fetch_sessions.open(session, connection.now_ms)
    return response


def leaves_no_partition(session: FetchSession, request: FetchRequest) -> bool:
    """Return whether a request that continues a session makes it forget all its partitions."""
    if session.partitions and not request.forgotten_topics_data:
        return False
    count = sum(len(each.partitions) for each in request.forgotten_topics_data)
    if count < len(session.partitions):
        # Most requests forget few of many; only others are worth a look at each partition.
        return False
    forgotten = {
        (_key(session, each), index)
        for each in request.forgotten_topics_data
        for index in each.partitions
    }
    return forgotten.issuperset(session.partitions) and all(
        (_key(session, asked), each.partition) in forgotten
        for asked in request.topics
        for each in asked.partitions
    )


def _key(
    session: FetchSession, asked: FetchRequestTopic | FetchRequestForgottenTopic
) -> str | bytes:
    """Return what a topic is called in the keys of a session."""
    return asked.topic_id if session.uses_topic_ids else asked.topic


def _name(partition: Partition | None, name: str) -> str:
    return name if partition is None else partition.topic.name


def _is_too_long(asked: FetchRequestTopic) -> bool:
    """Return whether no topic has such a name; clients must not fill the memory with names."""
    return len(asked.topic) > MAX_NAME_LENGTH


def _unknown_to_client(
    session: FetchSession, key: SessionKey, asked: FetchRequestTopic, wanted: FetchPartition
) -> SessionPartition:
    """Return a partition of a session that no response has described yet."""
    name = _name(wanted.partition, asked.topic)
    return SessionPartition(session, key, name, asked.topic_id, wanted)


class SessionFetch(SteppedFetch):
    """A fetch that continues a session.

    The request changes the session before anything is read. What the response contains is noted
    when it is sent, since a fetch that waits reads twice.
    """

    def __init__(
        self, broker: Services, request: FetchRequest, connection: Exchange, session: FetchSession
    ) -> None:
        """Take the epoch of the session: no other request may have it."""
        super().__init__(broker, request, connection)
        self._session = session
        self._epoch = session.epoch = next_epoch(session.epoch)
        # The response, if nothing is read.
        self._end: FetchResponse | None = None
        self._found: list[_Found] = []

    def answer(self) -> FetchResponse | None:
        """Answer at once if little has to be read and the response need not wait."""
        if self._is_large():
            self.begin()
            return None
        closed = run_now(self._look_up())
        if self._end is not None:
            return self._end
        if closed:
            self._connection.delay_and_mute(self._delayed)
            self._open(closed)
            return None
        result = run_now(self._read())
        if may_be_sent(self._broker, self._request, result):
            return run_now(self._complete(result))
        watched = self._watched()
        if not watched:
            return run_now(self._complete(result))
        self._wait(result, watched)
        self._connection.delay_and_mute(self._delayed)
        return None

    def _is_large(self) -> bool:
        entries = len(self._session.active) + named_entries(self._request)
        for forgotten in self._request.forgotten_topics_data:
            entries += 1 + len(forgotten.partitions)
        return entries > READ_AT_ONCE

    # --- the session ------------------------------------------------------------------------------

    def _look_up(self) -> Generator[None, None, list[Partition]]:
        """Change the session as the request asks, and look up what was not found before."""
        session, sessions = self._session, self._broker.fetch_sessions
        for asked in self._request.topics:
            for part in parts(asked.partitions):
                self._add(asked, part)
                yield
        for forgotten in self._request.forgotten_topics_data:
            topic = _key(session, forgotten)
            for numbers in parts(forgotten.partitions):
                for index in numbers:
                    session.forget((topic, index))
                yield
        if not sessions.continued(session, self._connection.now_ms):
            self._end = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
        closed: list[Partition] = []
        for count, cached in enumerate(list(session.active.values()), 1):
            partition = cached.wanted.partition
            if partition is None or partition.state is not OPEN:
                self._look_up_again(cached, closed)
            if not count % READ_AT_ONCE:
                yield
        if self._end is None and self._is_refused():
            self._end = refused_as_a_whole(self._request, self._connection.version)
        return closed

    def _add(self, asked: FetchRequestTopic, partitions: list[FetchRequestPartition]) -> None:
        """Add partitions of a topic, or change what the client wants of them."""
        if _is_too_long(asked):
            return
        session = self._session
        topic, name = self._topic(asked.topic, asked.topic_id), _key(session, asked)
        for each in partitions:
            wanted = find_partition(topic, each, ErrorCode.NONE, [])
            key = name, each.partition
            cached = session.partitions.get(key)
            if cached is None:
                session.add(_unknown_to_client(session, key, asked, wanted))
            else:
                cached.wake()
                cached.wanted = wanted

    def _topic(self, name: str, topic_id: bytes) -> Topic | None:
        topics = self._broker.topics
        by_id = self._session.uses_topic_ids
        return topics.by_id.get(topic_id) if by_id else topics.by_name.get(name)

    def _look_up_again(self, cached: SessionPartition, closed: list[Partition]) -> None:
        """Look up a partition that did not exist, was deleted, or is not open."""
        topic = self._topic(cached.topic, cached.topic_id)
        partition = None if topic is None else topic.partition(cached.wanted.partition_index)
        error = ErrorCode.NONE
        if partition is None:
            error = self._unknown(cached) if topic is None else _UNKNOWN
        elif partition.opened_log is None and self._broker.logs.opener.may_open(partition):
            closed.append(partition)
        cached.wanted = cached.wanted._replace(partition=partition, error=error)
        cached.topic = _name(partition, cached.topic)

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

    def _read(self) -> Generator[None, None, FetchResult]:
        """Read the partitions that may have news."""
        broker, request = self._broker, self._request
        reading = Reading(broker, request)
        self._found = found = []
        for count, cached in enumerate(self._session.to_read(), 1):
            if not count % READ_AT_ONCE:
                yield
            if cached.has_no_news():
                cached.rest()
                continue
            part = reading.read(cached.wanted)
            if cached.is_news(part):
                found.append((cached, part))
        response = FetchResponse(session_id=self._session.session_id, responses=_by_topic(found))
        if reading.answer_now and self._connection.version >= LEADERS_SINCE:
            pairs = ((cached.wanted, answer) for cached, answer in found)
            add_leaders(broker, response, pairs, self._connection.client.listener)
        return FetchResult(response, reading.size_bytes, reading.answer_now)

    def _complete(self, result: FetchResult) -> Generator[None, None, FetchResponse]:
        """Note what is sent to the client."""
        session = self._session
        if session.epoch != self._epoch:
            # Another request has continued the session while this one was waiting.
            return FetchResponse(
                error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                session_id=session.session_id,
                responses=[],
            )
        for count, (cached, part) in enumerate(self._found, 1):
            cached.answered(part)
            if part.records:
                session.read_last(cached)
            if not count % READ_AT_ONCE:
                yield
        return result.response

    def _watched(self) -> list[Watchers]:
        session = self._session
        found = (each.wanted.partition for each in session.active.values())
        watched = [partition.watchers for partition in found if partition is not None]
        if len(session.active) < len(session.partitions):
            watched.append(session.watchers)
        return watched

    # --- the order of the steps -------------------------------------------------------------------

    def _answer(self) -> None:
        if len(self._session.active) > READ_AT_ONCE:
            super()._answer()
        else:
            self._delayed.send(run_now(self._complete(run_now(self._read()))))

    def _open(self, closed: list[Partition]) -> None:
        if self._end is not None:
            self._delayed.send(self._end)
        else:
            super()._open(closed)


_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _by_topic(found: list[_Found]) -> list[FetchResponseTopic]:
    """Group neighbours of one topic: the order of the partitions stays as they were read."""
    topics: list[FetchResponseTopic] = []
    last = None
    for cached, part in found:
        topic, _ = cached.key
        if topic != last:
            last = topic
            topics.append(
                FetchResponseTopic(topic=cached.topic, topic_id=cached.topic_id, partitions=[])
            )
        topics[-1].partitions.append(part)
    return topics
