"""The partitions of a Fetch: looked up, read, and the rules by which a response may be sent."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponseCurrentLeader,
    FetchResponseNodeEndpoint,
    FetchResponsePartition,
    FetchResponseTopic,
)
from coterie.protocol.records import iterate_batches
from coterie.server.logs.fetching import (
    READ_COMMITTED,
    FetchPartition,
    Watchers,
    read_partition,
    refused_partition,
)
from coterie.server.logs.partition import Partition, Topic
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

TOPIC_IDS_SINCE = 13
LEADERS_SINCE = 16

# How many partitions are looked up or read in one step: about a millisecond.
READ_AT_ONCE = 128

_Part = TypeVar("_Part")

# A topic of the request, and its partitions.
WantedTopic = tuple[FetchRequestTopic, list[FetchPartition]]


class FetchResult(NamedTuple):
    """The result of one read of all partitions.

    Attributes:
        response: the response.
        size_bytes: the size of its records.
        answer_now: it must not wait for more records.
    """

    response: FetchResponse
    size_bytes: int
    answer_now: bool


def named_entries(request: FetchRequest) -> int:
    """Return how many topics and partitions a request names."""
    entries = len(request.topics)
    for asked in request.topics:
        entries += len(asked.partitions)
    return entries


def watchers_of(wanted: list[WantedTopic]) -> list[Watchers]:
    """Return the watchers of the partitions that exist."""
    return [
        each.partition.watchers
        for _, topic in wanted
        for each in topic
        if each.partition is not None
    ]


def parts(partitions: list[_Part]) -> Iterator[list[_Part]]:
    """Cut a list into parts of one step."""
    for first in range(0, len(partitions), READ_AT_ONCE):
        yield partitions[first : first + READ_AT_ONCE]


def look_up(
    broker: Services, request: FetchRequest, closed: list[Partition], *, by_id: bool
) -> list[WantedTopic]:
    """Look up the partitions. Of a partition that is named twice the last entry counts.

    Those whose logs are not open are added to `closed`.
    """
    wanted: list[WantedTopic] = []
    for asked in request.topics:
        partitions = look_up_topic(broker, asked, asked.partitions, closed, by_id=by_id)
        wanted.append((asked, list(partitions.values())))
    return wanted


def look_up_topic(
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
    return {each.partition: find_partition(topic, each, unknown, closed) for each in partitions}


def find_partition(
    topic: Topic | None,
    asked: FetchRequestPartition,
    unknown: ErrorCode,
    closed: list[Partition],
) -> FetchPartition:
    """Look up one partition; `unknown` is the error if its topic does not exist."""
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


class Reading:
    """One read of all partitions, up to the size limit of the response.

    Attributes:
        size_bytes: the size of the records that were read.
        answer_now: the response must not wait for more records.
    """

    __slots__ = ("_isolation", "_left_bytes", "answer_now", "size_bytes")

    def __init__(self, broker: Services, request: FetchRequest, size_bytes: int = 0) -> None:
        """Begin to read; the response holds `size_bytes` already, which are part of its size."""
        self._isolation = request.isolation_level
        left_bytes = min(request.max_bytes, broker.fetch_max_bytes)
        if size_bytes and left_bytes > 0:
            left_bytes = max(left_bytes - size_bytes, 0)
        self._left_bytes = left_bytes
        self.size_bytes = size_bytes
        self.answer_now = False

    def read(self, wanted: FetchPartition) -> FetchResponsePartition:
        """Read one partition."""
        is_first = self.size_bytes == 0
        found = read_partition(wanted, self._left_bytes, self._isolation, first=is_first)
        self.size_bytes += found.size_bytes
        if self._left_bytes > 0:
            self._left_bytes = max(self._left_bytes - found.size_bytes, 0)
        self.answer_now = self.answer_now or found.answer_now
        return found.response


def read(
    broker: Services,
    request: FetchRequest,
    wanted: list[WantedTopic],
    connection: Exchange,
    size_bytes: int = 0,
) -> FetchResult:
    """Read partitions in the order of the request, up to the size limit of the response.

    Args:
        broker: the broker.
        request: the request.
        wanted: the partitions.
        connection: the connection of the request, which is muted while it waits.
        size_bytes: what the response holds already; it is part of the result's size.
    """
    reading = Reading(broker, request, size_bytes)
    responses = [
        FetchResponseTopic(
            topic=asked.topic,
            topic_id=asked.topic_id,
            partitions=[reading.read(each) for each in partitions],
        )
        for asked, partitions in wanted
    ]
    response = FetchResponse(responses=responses)
    if reading.answer_now and connection.version >= LEADERS_SINCE:
        for (_, partitions), answered in zip(wanted, responses, strict=True):
            pairs = zip(partitions, answered.partitions, strict=True)
            add_leaders(broker, response, pairs, connection.client.listener)
    return FetchResult(response, reading.size_bytes, reading.answer_now)


def add_leaders(
    broker: Services,
    response: FetchResponse,
    partitions: Iterable[tuple[FetchPartition, FetchResponsePartition]],
    listener: str,
) -> None:
    """Name the leader of partitions for which the client's epoch is too old (KIP-951)."""
    for each, answer in partitions:
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


def min_bytes(broker: Services, request: FetchRequest) -> int:
    """Return for how many bytes of records a response waits."""
    return min(request.min_bytes, request.max_bytes, broker.fetch_max_bytes)


def may_be_sent(broker: Services, request: FetchRequest, result: FetchResult) -> bool:
    """Return whether a response need not wait for more records [data-plane/long-poll]."""
    return (
        result.answer_now
        or result.size_bytes >= min_bytes(broker, request)
        or request.max_wait_ms <= 0
        or _is_cut(result, request.isolation_level)
    )


def _is_cut(result: FetchResult, isolation: int) -> bool:
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


def refused_as_a_whole(request: FetchRequest, version: int) -> FetchResponse:
    """Return the response to a request with a field that Kafka fails at.

    These are an isolation level that does not exist, with a partition to read
    [data-plane/isolation], and a session id that has no place in its tables
    [data-plane/session-errors].
    """
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    # Later clients read the error of the whole response.
    topics = request.topics if version < TOPIC_IDS_SINCE else []
    responses = [
        FetchResponseTopic(
            topic=asked.topic,
            topic_id=asked.topic_id,
            partitions=[
                refused_partition(each.partition, error, has_list=True) for each in asked.partitions
            ],
        )
        for asked in topics
    ]
    return FetchResponse(error_code=error, session_id=request.session_id, responses=responses)
