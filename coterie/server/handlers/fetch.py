"""Fetch: read record batches; wait up to `max_wait_ms` for `min_bytes` [data-plane/long-poll].

Fetch sessions (KIP-227) save traffic in clusters with many partitions. Here every fetch is a full
one, which is a legal answer: a client that wants to open a session gets session id 0, and one that
continues a session gets FETCH_SESSION_ID_NOT_FOUND [data-plane/no-fetch-sessions].
"""

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import NamedTuple, TypeVar

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponseCurrentLeader,
    FetchResponseNodeEndpoint,
    FetchResponseTopic,
)
from coterie.protocol.records import iterate_batches
from coterie.server.handlers.closed_logs import must_wait
from coterie.server.logs.fetching import (
    ISOLATION_LEVELS,
    READ_COMMITTED,
    DelayedFetch,
    FetchPartition,
    read_partition,
    refused_partition,
)
from coterie.server.logs.partition import Partition
from coterie.server.logs.topics import Topic
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.network.sliced_response import run_in_slices
from coterie.server.services import Services

_TOPIC_IDS_SINCE = 13
_LEADERS_SINCE = 16
# -1 fetches without a session or closes one, 0 opens one; all others continue one.
_EPOCHS_WITHOUT_SESSION = (-1, 0)

# How many partitions are read in one turn of the event loop: about a millisecond.
_READ_AT_ONCE = 128

_Part = TypeVar("_Part")

# A topic of the request, and its partitions.
WantedTopic = tuple[FetchRequestTopic, list[FetchPartition]]


class _Result(NamedTuple):
    """The result of one read of all partitions.

    Attributes:
        response: the response.
        size_bytes: the size of its records.
        answer_now: it must not wait for more records.
    """

    response: FetchResponse
    size_bytes: int
    answer_now: bool


def handle(broker: Services, request: FetchRequest, connection: Exchange) -> FetchResponse | None:
    """Answer with the records there are, or wait for more."""
    if request.session_epoch not in _EPOCHS_WITHOUT_SESSION:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    if request.isolation_level not in ISOLATION_LEVELS:
        return _unknown_isolation(request)
    entries = len(request.topics)
    for asked in request.topics:
        entries += len(asked.partitions)
    if entries > _READ_AT_ONCE:
        _LargeFetch(broker, request, connection).begin()
        return None
    closed: list[Partition] = []
    wanted = _look_up(broker, request, closed, by_id=connection.version >= _TOPIC_IDS_SINCE)
    if closed and must_wait(broker, closed, request, connection):
        return None
    result = _read(broker, request, wanted, connection)
    if _may_be_sent(broker, request, wanted, result):
        return result.response
    delayed = DelayedResponse(connection)
    _wait(
        broker,
        request,
        wanted,
        result,
        delayed,
        lambda: delayed.send(_read(broker, request, wanted, connection).response),
    )
    connection.delay_and_mute(delayed)
    return None


def _min_bytes(broker: Services, request: FetchRequest) -> int:
    return min(request.min_bytes, request.max_bytes, broker.fetch_max_bytes)


def _may_be_sent(
    broker: Services, request: FetchRequest, wanted: list[WantedTopic], result: _Result
) -> bool:
    """Return whether a response need not wait for more records."""
    return (
        result.answer_now
        or result.size_bytes >= _min_bytes(broker, request)
        or request.max_wait_ms <= 0
        or not wanted
        or _is_cut(result, request.isolation_level)
    )


def _wait(
    broker: Services,
    request: FetchRequest,
    wanted: list[WantedTopic],
    result: _Result,
    delayed: DelayedResponse,
    answer: Callable[[], None],
) -> None:
    """Wait for more records; then `answer` reads again."""
    DelayedFetch(
        broker.loop,
        delayed,
        [each.partition for _, topic in wanted for each in topic if each.partition is not None],
        _min_bytes(broker, request) - result.size_bytes,
        request.max_wait_ms,
        answer,
    )


class _LargeFetch:
    """A fetch of many partitions, which are looked up and read in slices."""

    def __init__(self, broker: Services, request: FetchRequest, connection: Exchange) -> None:
        self._broker = broker
        self._request = request
        self._connection = connection
        self._delayed = DelayedResponse(connection)
        self._wanted: list[WantedTopic] = []

    def begin(self) -> None:
        """Mute the connection, look the partitions up, and open those that are closed."""
        self._connection.delay_and_mute(self._delayed)
        run_in_slices(self._broker, self._connection, self._look_up(), self._open)

    def _look_up(self) -> Generator[None, None, list[Partition]]:
        closed: list[Partition] = []
        by_id = self._connection.version >= _TOPIC_IDS_SINCE
        for asked in self._request.topics:
            partitions: dict[int, FetchPartition] = {}
            for part in _parts(asked.partitions):
                partitions |= _look_up_topic(self._broker, asked, part, closed, by_id=by_id)
                yield
            self._wanted.append((asked, list(partitions.values())))
            yield
        return closed

    def _open(self, closed: list[Partition]) -> None:
        self._broker.topics.opener.open(closed, lambda: self._read(self._send_or_wait))

    def _read(self, then: Callable[[_Result], None]) -> None:
        steps = _read_in_steps(self._broker, self._request, self._wanted, self._connection)
        run_in_slices(self._broker, self._connection, steps, then)

    def _send_or_wait(self, result: _Result) -> None:
        if _may_be_sent(self._broker, self._request, self._wanted, result):
            self._send(result)
        elif not self._connection.closed:
            answer = partial(self._read, self._send)
            _wait(self._broker, self._request, self._wanted, result, self._delayed, answer)

    def _send(self, result: _Result) -> None:
        self._delayed.send(result.response)


def _parts(partitions: list[_Part]) -> Iterator[list[_Part]]:
    """Cut a list into parts of one step."""
    for first in range(0, len(partitions), _READ_AT_ONCE):
        yield partitions[first : first + _READ_AT_ONCE]


def _is_cut(result: _Result, isolation: int) -> bool:
    """Return whether records were left out of the response, so that waiting adds nothing to it.

    They did not fit, or are in another segment.
    """
    if not result.size_bytes:
        return False
    for topic in result.response.responses:
        for each in topic.partitions:
            end = each.last_stable_offset if isolation == READ_COMMITTED else each.high_watermark
            next_offset = end
            for _, header in iterate_batches(each.records or b""):
                next_offset = header.next_offset
            if next_offset < end:
                return True
    return False


def _unknown_isolation(request: FetchRequest) -> FetchResponse:
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    responses = [
        FetchResponseTopic(
            topic=asked.topic,
            topic_id=asked.topic_id,
            partitions=[
                refused_partition(each.partition, error, has_list=True) for each in asked.partitions
            ],
        )
        for asked in request.topics
    ]
    return FetchResponse(error_code=error, responses=responses)


def _look_up(
    broker: Services, request: FetchRequest, closed: list[Partition], *, by_id: bool
) -> list[WantedTopic]:
    """Look up the partitions. Of a partition that is named twice the last entry counts.

    Those whose logs are not open are added to `closed`.
    """
    wanted: list[WantedTopic] = []
    for asked in request.topics:
        partitions = _look_up_topic(broker, asked, asked.partitions, closed, by_id=by_id)
        wanted.append((asked, list(partitions.values())))
    return wanted


def _look_up_topic(
    broker: Services,
    asked: FetchRequestTopic,
    partitions: list[FetchRequestPartition],
    closed: list[Partition],
    *,
    by_id: bool,
) -> dict[int, FetchPartition]:
    """Look up some partitions of a topic."""
    topics = broker.topics
    topic = topics.by_id.get(asked.topic_id) if by_id else topics.by_name.get(asked.topic)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return {each.partition: _partition(topic, each, unknown, closed) for each in partitions}


def _partition(
    topic: Topic | None,
    asked: FetchRequestPartition,
    unknown: ErrorCode,
    closed: list[Partition],
) -> FetchPartition:
    partition = None if topic is None else topic.partition(asked.partition)
    error = ErrorCode.NONE
    if partition is None:
        error = unknown if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif partition.opened_log is None:
        closed.append(partition)
    return FetchPartition(
        asked.partition,
        partition,
        error,
        asked.fetch_offset,
        asked.partition_max_bytes,
        asked.current_leader_epoch,
        asked.last_fetched_epoch,
    )


def _read(
    broker: Services,
    request: FetchRequest,
    wanted: list[WantedTopic],
    connection: Exchange,
    size_bytes: int = 0,
) -> _Result:
    """Read partitions in the order of the request, up to the size limit of the response.

    Args:
        broker: the broker.
        request: the request.
        wanted: the partitions.
        connection: the connection of the request, which is muted while it waits.
        size_bytes: what the response holds already; it is part of the result's size.
    """
    left_bytes = min(request.max_bytes, broker.fetch_max_bytes)
    if size_bytes and left_bytes > 0:
        left_bytes = max(left_bytes - size_bytes, 0)
    answer_now = False
    responses = []
    for asked, partitions in wanted:
        answers = []
        for each in partitions:
            found = read_partition(each, left_bytes, request.isolation_level, first=size_bytes == 0)
            size_bytes += found.size_bytes
            if left_bytes > 0:
                left_bytes = max(left_bytes - found.size_bytes, 0)
            answer_now = answer_now or found.answer_now
            answers.append(found.response)
        responses.append(
            FetchResponseTopic(topic=asked.topic, topic_id=asked.topic_id, partitions=answers)
        )
    response = FetchResponse(responses=responses)
    if answer_now and connection.version >= _LEADERS_SINCE:
        _add_leaders(broker, wanted, response, connection.client.listener)
    return _Result(response, size_bytes, answer_now)


def _read_in_steps(
    broker: Services, request: FetchRequest, wanted: list[WantedTopic], connection: Exchange
) -> Generator[None, None, _Result]:
    response = FetchResponse(responses=[])
    size_bytes, answer_now = 0, False
    for asked, partitions in wanted:
        answered = FetchResponseTopic(topic=asked.topic, topic_id=asked.topic_id, partitions=[])
        response.responses.append(answered)
        for part in _parts(partitions):
            found = _read(broker, request, [(asked, part)], connection, size_bytes)
            size_bytes, answer_now = found.size_bytes, answer_now or found.answer_now
            answered.partitions += found.response.responses[0].partitions
            response.node_endpoints = found.response.node_endpoints or response.node_endpoints
            yield
        yield
    return _Result(response, size_bytes, answer_now)


def _add_leaders(
    broker: Services, wanted: list[WantedTopic], response: FetchResponse, listener: str
) -> None:
    """Name the leader of partitions for which the client's epoch is too old (KIP-951)."""
    for (_, partitions), answered in zip(wanted, response.responses, strict=True):
        for each, answer in zip(partitions, answered.partitions, strict=True):
            if answer.error_code == ErrorCode.FENCED_LEADER_EPOCH and each.partition is not None:
                where = broker.image.placement(each.partition)
                answer.current_leader = FetchResponseCurrentLeader(
                    leader_id=where.leader_id, leader_epoch=where.leader_epoch
                )
                response.node_endpoints = [
                    FetchResponseNodeEndpoint(
                        node_id=found.node_id, host=found.host, port=found.port, rack=found.rack
                    )
                    for found in broker.image.endpoints(listener)
                    if found.node_id == where.leader_id
                ]
