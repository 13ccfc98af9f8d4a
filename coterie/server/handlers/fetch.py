"""Fetch: read record batches, waiting for `min_bytes` up to `max_wait_ms` (spec section 1).

Fetch sessions (KIP-227) save a cluster with many partitions traffic; here every fetch is a full
one. That is a legal answer: a client that offers to open a session is given session id 0, and one
that goes on with a session it had elsewhere is told that there is none.
"""

from typing import TYPE_CHECKING

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponseTopic,
)
from coterie.server.logs.fetching import (
    READ_COMMITTED,
    DelayedFetch,
    FetchPartition,
    PartitionData,
    read_partition,
    refused_partition,
)
from coterie.server.logs.topics import Topic
from coterie.server.network.delayed_response import DelayedResponse

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection

_TOPIC_IDS_SINCE = 13
# Session epochs: -1 ends a session (or asks without one), 0 would open one, others go on with one.
_NO_SESSION_EPOCHS = (-1, 0)

_ISOLATION_LEVELS = (0, READ_COMMITTED)

WantedTopic = tuple[FetchRequestTopic, list[FetchPartition]]


def handle(
    broker: "Broker", request: FetchRequest, connection: "Connection"
) -> FetchResponse | None:
    """Answer with what there is, or wait for more."""
    if request.session_epoch not in _NO_SESSION_EPOCHS:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    if request.isolation_level not in _ISOLATION_LEVELS:
        return _unknown_isolation(request)
    wanted = _wanted(broker, request, by_id=connection.version >= _TOPIC_IDS_SINCE)
    response, size_bytes, urgent = _read(broker, request, wanted)
    if urgent or size_bytes >= request.min_bytes or request.max_wait_ms <= 0 or not wanted:
        return response
    reply = DelayedResponse(connection)
    partitions = [
        each.partition for _, topic in wanted for each in topic if each.partition is not None
    ]
    DelayedFetch(
        broker.loop,
        reply,
        partitions,
        request.min_bytes - size_bytes,
        request.max_wait_ms,
        lambda: _read(broker, request, wanted)[0],
    )
    connection.delay_and_mute(reply)
    return None


def _unknown_isolation(request: FetchRequest) -> FetchResponse:
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    responses = [
        FetchResponseTopic(
            topic=asked.topic,
            topic_id=asked.topic_id,
            partitions=[refused_partition(each.partition, error) for each in asked.partitions],
        )
        for asked in request.topics
    ]
    return FetchResponse(error_code=error, responses=responses)


def _wanted(broker: "Broker", request: FetchRequest, *, by_id: bool) -> list[WantedTopic]:
    """What is asked for, looked up; a partition that is named twice counts as it is named last."""
    found: list[WantedTopic] = []
    for asked in request.topics:
        topics = broker.topics
        topic = topics.by_id.get(asked.topic_id) if by_id else topics.by_name.get(asked.topic)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partitions = {each.partition: _partition(topic, each, unknown) for each in asked.partitions}
        found.append((asked, list(partitions.values())))
    return found


def _partition(
    topic: Topic | None, asked: FetchRequestPartition, unknown: ErrorCode
) -> FetchPartition:
    partition = None if topic is None else topic.partition(asked.partition)
    error = ErrorCode.NONE
    if partition is None:
        error = unknown if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
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
    broker: "Broker", request: FetchRequest, wanted: list[WantedTopic]
) -> tuple[FetchResponse, int, bool]:
    """The answer, how many bytes of records it has, and whether it must not wait."""
    left_bytes = min(request.max_bytes, broker.fetch_max_bytes)
    size_bytes, urgent = 0, False
    responses = []
    for asked, partitions in wanted:
        answers = []
        for each in partitions:
            found: PartitionData = read_partition(
                each, left_bytes, request.isolation_level, first=size_bytes == 0
            )
            size_bytes += found.size_bytes
            left_bytes -= found.size_bytes
            urgent = urgent or found.urgent
            answers.append(found.response)
        responses.append(
            FetchResponseTopic(topic=asked.topic, topic_id=asked.topic_id, partitions=answers)
        )
    return FetchResponse(responses=responses), size_bytes, urgent
