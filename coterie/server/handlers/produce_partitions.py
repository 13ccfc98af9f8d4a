"""The partitions of a Produce: appending one batch to one of them, and its part of the response."""

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceResponsePartition,
)
from coterie.server.handlers.transactional_produce import TransactionCheck
from coterie.server.logs.log_validator import validate_batch
from coterie.server.logs.partition import OPEN, Partition
from coterie.server.logs.received_batches import RefusedBatch, ValidBatch, only_batch
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services
from coterie.storage.errors import StorageError
from coterie.storage.log import Log

# One broker is all replicas [data-plane/required-acks].
_ALL_ACKS = -1
_VALID_ACKS = (_ALL_ACKS, 0, 1)
_NONE = ErrorCode.NONE
_OLD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH


def append_to(
    broker: Services,
    topic: str | bytes,
    asked: ProduceRequestPartition,
    request: ProduceRequest,
    connection: Exchange,
    appended: list[Log],
    check: TransactionCheck | None,
) -> ProduceResponsePartition:
    """Append to one partition.

    Args:
        broker: the broker.
        topic: its topic, by name or by id.
        asked: the partition's part of the request.
        request: the request.
        connection: where it came from.
        appended: a log that was appended to is added to it.
        check: checks batches of transactions; None if the request has no transactional id.
    """
    partition = broker.logs.led(topic, asked.index)
    if not isinstance(partition, Partition):
        return error_partition(asked.index, partition)
    try:
        batch, header = only_batch(asked.records, connection.version)
        if request.acks not in _VALID_ACKS:
            return error_partition(asked.index, ErrorCode.INVALID_REQUIRED_ACKS)
        if partition.topic.is_own or partition.topic.is_internal:
            return error_partition(asked.index, ErrorCode.INVALID_TOPIC_EXCEPTION)
        if partition.state is not OPEN:
            return error_partition(asked.index, ErrorCode.KAFKA_STORAGE_ERROR)
        if header.is_transactional:
            if check is None:
                return error_partition(asked.index, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            check.verify(partition, header)
        if request.acks == _ALL_ACKS and partition.held_end is not None:
            raise RefusedBatch(ErrorCode.NOT_ENOUGH_REPLICAS)  # noqa: TRY301 - as others are
        try:
            valid = validate_batch(batch, header, partition, connection.now_ms)
        except RefusedBatch as refused:
            if refused.error is not ErrorCode.INVALID_TIMESTAMP:
                raise
            # Producers have the clock of the machine. It is ahead after that was suspended.
            valid = validate_batch(batch, header, partition, broker.environment.wall_ms())
        return _append_validated(partition, asked.index, valid, connection.now_ms, appended)
    except RefusedBatch as refused:
        return refused_partition(asked.index, refused, partition.log if refused.in_log else None)
    except (StorageError, OSError) as error:
        broker.failures.log_failed(partition.log, error)
        return error_partition(asked.index, ErrorCode.KAFKA_STORAGE_ERROR)


def _append_validated(
    partition: Partition,
    index: int,
    valid: ValidBatch,
    now_ms: int,
    appended: list[Log],
) -> ProduceResponsePartition:
    batch, header = valid
    append_time_ms = now_ms if partition.topic.config.log_append_time else -1
    base_offset = None
    first_sequences = partition.first_sequences
    if header.producer_id >= 0:
        error, stored = partition.log.producers.check(header)
        if (
            first_sequences is not None
            and stored is None
            and error != _OLD_EPOCH
            and first_sequences.is_passed_over(header.producer_id, header.base_sequence)
        ):
            # Another batch of the producer comes first [data-plane/first-sequence].
            error = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if error:
            raise RefusedBatch(error)
        if stored is not None:
            base_offset, append_time_ms = stored.base_offset, stored.timestamp_ms
    if base_offset is None:
        base_offset = partition.append(batch, header, now_ms)
        if first_sequences is not None and header.is_transactional:
            first_sequences.forget(header.producer_id)
    # The response to a retry waits for a sync too: the stored batch may not be durable yet.
    log = partition.log
    appended.append(log)
    return ProduceResponsePartition(
        index=index,
        error_code=_NONE,
        base_offset=base_offset,
        log_append_time_ms=append_time_ms,
        log_start_offset=log.log_start_offset,
    )


def refused_partition(
    index: int, refused: RefusedBatch, log: Log | None = None
) -> ProduceResponsePartition:
    """Return the response for a batch that is not stored.

    Args:
        index: the number of the partition.
        refused: why.
        log: the log that has refused it, if it was the log.
    """
    return ProduceResponsePartition(
        index=index,
        error_code=refused.error,
        base_offset=-1,
        log_start_offset=-1 if log is None else log.log_start_offset,
        record_errors=refused.record_errors,
        error_message=refused.text,
    )


def error_partition(index: int, error: ErrorCode) -> ProduceResponsePartition:
    """Return the response for a partition that is not appended to."""
    return ProduceResponsePartition(index=index, error_code=error, base_offset=-1)
