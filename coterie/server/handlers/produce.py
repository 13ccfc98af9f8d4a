"""Produce: append one batch to each of some partitions (KIP-98).

With `--flush commit` the answer waits until what was appended is durable, whatever the acks, for an
acknowledgement promises that. acks=0 has no answer; a client that sent something wrong then
notices by losing its connection, as with Kafka.
"""

from typing import TYPE_CHECKING

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from coterie.server.logs.log_validator import Refused, check_batch
from coterie.server.logs.partition import Partition
from coterie.server.logs.topics import Topic
from coterie.server.network.delayed_response import DelayedResponse
from coterie.storage.errors import StorageError
from coterie.storage.log import Log

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection

_TOPIC_IDS_SINCE = 13
_NO_ACKS = 0
_ACKS = (-1, 0, 1)


def handle(
    broker: "Broker", request: ProduceRequest, connection: "Connection"
) -> ProduceResponse | None:
    """Append everything that can be appended, and answer for each partition."""
    by_id = connection.version >= _TOPIC_IDS_SINCE
    appended: list[Log] = []
    responses = []
    for asked in request.topic_data:
        topics = broker.topics
        topic = topics.by_id.get(asked.topic_id) if by_id else topics.by_name.get(asked.name)
        partitions = []
        for each in asked.partition_data:
            if request.acks not in _ACKS:
                partitions.append(_error(each.index, ErrorCode.INVALID_REQUIRED_ACKS))
            elif topic is None and by_id:
                partitions.append(_error(each.index, ErrorCode.UNKNOWN_TOPIC_ID))
            else:
                partitions.append(_append(broker, topic, each, connection, appended))
        responses.append(
            ProduceResponseTopic(
                name=asked.name, topic_id=asked.topic_id, partition_responses=partitions
            )
        )
    response = ProduceResponse(responses=responses)
    if request.acks == _NO_ACKS:
        _close_on_error(response, connection)
        for log in appended:
            broker.flusher.appended(log)
        return None
    if not appended:
        return response
    if broker.flusher.commit:
        _answer_when_durable(broker, response, connection, appended)
        return None
    for log in appended:
        broker.flusher.appended(log)
    return response


def _append(
    broker: "Broker",
    topic: Topic | None,
    asked: ProduceRequestPartition,
    connection: "Connection",
    appended: list[Log],
) -> ProduceResponsePartition:
    partition = None if topic is None else topic.partition(asked.index)
    if partition is None:
        return _error(asked.index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if partition.topic.is_own:
        return _error(asked.index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not partition.online:
        return _error(asked.index, ErrorCode.KAFKA_STORAGE_ERROR)
    try:
        return _append_checked(partition, asked, connection, appended)
    except Refused as refused:
        return ProduceResponsePartition(
            index=asked.index,
            error_code=refused.error,
            base_offset=-1,
            log_start_offset=partition.log.log_start_offset if refused.in_log else -1,
            record_errors=refused.record_errors,
            error_message=refused.text,
        )
    except (StorageError, OSError) as error:
        broker.log_failed(partition.log, error)
        return _error(asked.index, ErrorCode.KAFKA_STORAGE_ERROR)


def _append_checked(
    partition: Partition,
    asked: ProduceRequestPartition,
    connection: "Connection",
    appended: list[Log],
) -> ProduceResponsePartition:
    now_ms = connection.now_ms
    batch, header = check_batch(asked.records, connection.version, partition, now_ms)
    append_time_ms = now_ms if partition.topic.config.log_append_time else -1
    base_offset = None
    if header.producer_id >= 0:
        error, repeated = partition.producers.check(header, now_ms)
        if error:
            raise Refused(error)
        if repeated is not None:
            base_offset, append_time_ms = repeated.base_offset, repeated.timestamp_ms
    if base_offset is None:
        base_offset = partition.append(batch, header, now_ms)
    # A repeated batch waits for the disk too: its first copy may not be there yet.
    appended.append(partition.log)
    return ProduceResponsePartition(
        index=asked.index,
        error_code=ErrorCode.NONE,
        base_offset=base_offset,
        log_append_time_ms=append_time_ms,
        log_start_offset=partition.log.log_start_offset,
    )


def _error(index: int, error: ErrorCode) -> ProduceResponsePartition:
    return ProduceResponsePartition(index=index, error_code=error, base_offset=-1)


def _close_on_error(response: ProduceResponse, connection: "Connection") -> None:
    for topic in response.responses:
        for each in topic.partition_responses:
            if each.error_code:
                name = ErrorCode(each.error_code).name
                reason = f"Produce with acks=0 to {topic.name or topic.topic_id.hex()}-{each.index}"
                connection.close(name, reason)
                return


def _answer_when_durable(
    broker: "Broker", response: ProduceResponse, connection: "Connection", appended: list[Log]
) -> None:
    """Send the answer when every log has been synced; one that can't be is an error."""
    reply = DelayedResponse(connection)
    connection.delay(reply)
    left = len(appended)

    def synced(error: Exception | None) -> None:
        nonlocal left
        left -= 1
        if error is not None:
            _fail_appended(response)
        if not left:
            reply.send(response)

    for log in appended:
        broker.flusher.appended(log, synced)


def _fail_appended(response: ProduceResponse) -> None:
    """The disk failed: which of the partitions are lost is not known, so none is acknowledged."""
    for topic in response.responses:
        for each in topic.partition_responses:
            if not each.error_code:
                each.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                each.base_offset = -1
