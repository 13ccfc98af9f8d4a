"""OffsetForLeaderEpoch: where a leader epoch ended in a log [data-plane/epoch-end-offset]."""

from collections.abc import Generator

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from coterie.server.handlers.closed_logs import must_wait
from coterie.server.logs.partition import Partition
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_in_slices
from coterie.server.services import Services


def handle(
    broker: Services, request: OffsetForLeaderEpochRequest, connection: Exchange
) -> OffsetForLeaderEpochResponse | None:
    """Answer for each partition."""
    named = [(each.topic, [one.partition for one in each.partitions]) for each in request.topics]
    if must_wait(broker, broker.logs.unopened(named), request, connection):
        return None
    return answer_in_slices(broker, connection, _answer(broker, request))


def _answer(
    broker: Services, request: OffsetForLeaderEpochRequest
) -> Generator[None, None, OffsetForLeaderEpochResponse]:
    topics = []
    for asked in request.topics:
        partitions = []
        yield
        for each in asked.partitions:
            partitions.append(_find(broker, asked.topic, each))
            yield
        topics.append(OffsetForLeaderEpochResponseTopic(topic=asked.topic, partitions=partitions))
    return OffsetForLeaderEpochResponse(topics=topics)


def _find(
    broker: Services, topic: str, asked: OffsetForLeaderEpochRequestPartition
) -> OffsetForLeaderEpochResponsePartition:
    # Looked up each time, because the topic may be deleted between two steps.
    found = broker.logs.readable(topic, asked.partition, asked.current_leader_epoch)
    if not isinstance(found, Partition):
        return OffsetForLeaderEpochResponsePartition(error_code=found, partition=asked.partition)
    epoch, end_offset = found.end_of_epoch(asked.leader_epoch)
    return OffsetForLeaderEpochResponsePartition(
        error_code=ErrorCode.NONE,
        partition=found.index,
        leader_epoch=epoch,
        end_offset=end_offset,
    )
