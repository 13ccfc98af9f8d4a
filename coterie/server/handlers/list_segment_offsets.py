"""ListOffsets version 0: where segments begin, the newest first [data-plane/segment-offsets]."""

from collections.abc import Generator

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from coterie.server.handlers.closed_logs import must_wait
from coterie.server.logs.partition import Partition
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_in_slices
from coterie.server.services import Services
from coterie.storage.errors import StorageError


def handle(
    broker: Services, request: ListOffsetsRequest, connection: Exchange
) -> ListOffsetsResponse | None:
    """Answer for each partition."""
    named = [
        (each.name, [one.partition_index for one in each.partitions]) for each in request.topics
    ]
    if must_wait(broker, broker.logs.unopened(named), request, connection):
        return None
    return answer_in_slices(broker, connection, _answer(broker, request, connection.now_ms))


def _answer(
    broker: Services, request: ListOffsetsRequest, now_ms: int
) -> Generator[None, None, ListOffsetsResponse]:
    topics = []
    for asked in request.topics:
        partitions = []
        yield
        for each in asked.partitions:
            # Looked up each time, because the topic may be deleted between two steps.
            partition = broker.logs.readable(asked.name, each.partition_index)
            error, offsets = _find(partition, each, now_ms)
            partitions.append(
                ListOffsetsResponsePartition(
                    partition_index=each.partition_index,
                    error_code=error,
                    old_style_offsets=offsets,
                )
            )
            yield
        topics.append(ListOffsetsResponseTopic(name=asked.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def _find(
    partition: Partition | ErrorCode, asked: ListOffsetsRequestPartition, now_ms: int
) -> tuple[ErrorCode, list[int]]:
    if not isinstance(partition, Partition):
        return partition, []
    if asked.max_num_offsets < 0:
        return ErrorCode.UNKNOWN_SERVER_ERROR, []
    log = partition.log
    try:
        found = [
            (max(each.base_offset, log.log_start_offset), each.max_timestamp()[0])
            for each in log.segments
        ]
        if log.segments[-1].size:
            found.append((log.log_end_offset, now_ms))
    except (StorageError, OSError):
        return ErrorCode.KAFKA_STORAGE_ERROR, []
    if asked.timestamp == EARLIEST_TIMESTAMP:
        found = found[:1]
    elif asked.timestamp != LATEST_TIMESTAMP:
        older = [index for index, (_, time_ms) in enumerate(found) if time_ms <= asked.timestamp]
        found = found[: older[-1] + 1] if older else []
    offsets = sorted((offset for offset, _ in found), reverse=True)
    return ErrorCode.NONE, offsets[: asked.max_num_offsets]
