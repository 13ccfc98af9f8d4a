"""DeleteRecords: delete the records before an offset (KIP-107) [data-plane/delete-records]."""

from collections.abc import Generator

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
)
from coterie.server.handlers.closed_logs import must_wait
from coterie.server.logs.partition import Partition, PartitionState
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_in_slices
from coterie.server.services import Services
from coterie.storage.errors import StorageError

# An offset that stands for the high watermark.
_HIGH_WATERMARK = -1


def handle(
    broker: Services, request: DeleteRecordsRequest, connection: Exchange
) -> DeleteRecordsResponse | None:
    """Delete, and answer with the new log start offset of each partition."""
    named = (
        (each.name, (one.partition_index for one in each.partitions)) for each in request.topics
    )
    if must_wait(broker, broker.logs.unopened(named), request, connection):
        return None
    return answer_in_slices(broker, connection, _answer(broker, request))


def _answer(
    broker: Services, request: DeleteRecordsRequest
) -> Generator[None, None, DeleteRecordsResponse]:
    # Of a partition that is named twice the last entry counts.
    last: dict[str, dict[int, DeleteRecordsRequestPartition]] = {}
    for asked in request.topics:
        yield
        last.setdefault(asked.name, {}).update(
            (each.partition_index, each) for each in asked.partitions
        )
    topics = []
    for name, entries in last.items():
        partitions = []
        yield
        for each in entries.values():
            # Looked up each time, because the topic may be deleted between two steps.
            partitions.append(_delete(broker, name, each))
            yield
        topics.append(DeleteRecordsResponseTopic(name=name, partitions=partitions))
    return DeleteRecordsResponse(topics=topics)


def _delete(
    broker: Services, topic: str, asked: DeleteRecordsRequestPartition
) -> DeleteRecordsResponsePartition:
    partition = broker.logs.led(topic, asked.partition_index)
    if not isinstance(partition, Partition):
        return _error(asked, partition)
    if partition.topic.is_internal:
        return _error(asked, ErrorCode.INVALID_TOPIC_EXCEPTION)
    config = partition.topic.config
    if config.compact and not config.delete:
        return _error(asked, ErrorCode.POLICY_VIOLATION)
    if partition.state is not PartitionState.OPEN:
        return _error(asked, ErrorCode.KAFKA_STORAGE_ERROR)
    try:
        end = partition.high_watermark
        offset = end if asked.offset == _HIGH_WATERMARK else asked.offset
        if not 0 <= offset <= end:
            return _error(asked, ErrorCode.OFFSET_OUT_OF_RANGE)
        start = broker.logs.delete_records(partition, offset)
    except (StorageError, OSError):
        return _error(asked, ErrorCode.KAFKA_STORAGE_ERROR)
    return DeleteRecordsResponsePartition(
        partition_index=asked.partition_index,
        low_watermark=start,
        error_code=ErrorCode.NONE,
    )


def _error(
    asked: DeleteRecordsRequestPartition, error: ErrorCode
) -> DeleteRecordsResponsePartition:
    return DeleteRecordsResponsePartition(
        partition_index=asked.partition_index, low_watermark=-1, error_code=error
    )
