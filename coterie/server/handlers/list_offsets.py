"""ListOffsets: the offset of a timestamp, or of a special time [data-plane/list-offsets]."""

from collections.abc import Generator

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from coterie.server.handlers.closed_logs import must_wait
from coterie.server.logs.fetching import ISOLATION_LEVELS, READ_COMMITTED
from coterie.server.logs.partition import Partition
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_in_slices
from coterie.server.services import Services
from coterie.storage.errors import StorageError

_NONE = ErrorCode.NONE
# A client that is looking for a fault asks followers with it [cluster/wrong-leader].
_DEBUGGING_REPLICA = -2
# The first version in which each special time may be asked for.
_SINCE = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}


def handle(
    broker: Services, request: ListOffsetsRequest, connection: Exchange
) -> ListOffsetsResponse | None:
    """Answer for each partition; one that is named twice is refused, as in Kafka."""
    named = [
        (each.name, [one.partition_index for one in each.partitions]) for each in request.topics
    ]
    if must_wait(broker, broker.logs.unopened(named), request, connection):
        return None
    return answer_in_slices(broker, connection, _answer(broker, request, connection.version))


def _answer(
    broker: Services, request: ListOffsetsRequest, version: int
) -> Generator[None, None, ListOffsetsResponse]:
    topics = []
    isolation = request.isolation_level
    debugs = request.replica_id == _DEBUGGING_REPLICA
    is_known = isolation in ISOLATION_LEVELS
    for asked in request.topics:
        answers: dict[int, ListOffsetsResponsePartition] = {}
        yield
        for each in asked.partitions:
            yield
            index = each.partition_index
            if not is_known:
                answers[index] = _without_offset(index, ErrorCode.UNKNOWN_SERVER_ERROR)
            elif index in answers:
                answers[index] = _without_offset(index, ErrorCode.INVALID_REQUEST)
            elif each.timestamp < 0 and version < _SINCE.get(each.timestamp, version + 1):
                answers[index] = _without_offset(index, ErrorCode.UNSUPPORTED_VERSION)
            else:
                # Looked up each time, because the topic may be deleted between two steps.
                found = broker.logs.readable(
                    asked.name, index, each.current_leader_epoch, may_follow=debugs
                )
                answers[index] = (
                    _find(found, each.timestamp, isolation, debugs=debugs)
                    if isinstance(found, Partition)
                    else _without_offset(index, found)
                )
        topics.append(ListOffsetsResponseTopic(name=asked.name, partitions=list(answers.values())))
    return ListOffsetsResponse(topics=topics)


def _find(
    partition: Partition, time: int, isolation: int, *, debugs: bool
) -> ListOffsetsResponsePartition:
    log = partition.log
    try:
        end = log.log_end_offset if debugs else partition.high_watermark
        if isolation == READ_COMMITTED:
            end = min(end, log.last_stable_offset)
        if time == LATEST_TIMESTAMP:
            return _found(partition, -1, end, log.leader_epoch)
        if time in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            start = log.log_start_offset
            # The next record of an empty log has the present epoch.
            epoch = log.leader_epoch if start == log.log_end_offset else log.epochs.at(start)
            return _found(partition, -1, start, epoch)
        if time == MAX_TIMESTAMP:
            timestamp, offset = log.max_timestamp()
        else:
            # There is no tiered storage, so the special times that are left have no offset.
            timestamp, offset = (log.offset_for_timestamp(time) if time >= 0 else None) or (-1, -1)
    except (StorageError, OSError):
        return _without_offset(partition.index, ErrorCode.KAFKA_STORAGE_ERROR)
    if not 0 <= offset < end:
        return _without_offset(partition.index, ErrorCode.NONE)
    return _found(partition, timestamp, offset, log.epochs.at(offset))


def _found(
    partition: Partition, timestamp: int, offset: int, leader_epoch: int
) -> ListOffsetsResponsePartition:
    return ListOffsetsResponsePartition(
        partition_index=partition.index,
        error_code=_NONE,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=leader_epoch,
    )


def _without_offset(index: int, error: ErrorCode) -> ListOffsetsResponsePartition:
    """Return the response for an error; NONE means that no record has the timestamp."""
    return ListOffsetsResponsePartition(partition_index=index, error_code=error)
