"""Validation of produced batches before they are stored: Kafka's checks, in Kafka's order.

A produce request has exactly one batch of magic 2 for each partition [data-plane/one-batch].
Compressed batches are stored as they arrive. They are opened once here, so that undecodable records
are refused instead of stored. (Kafka: `LogValidator`, `UnifiedLog.analyzeAndValidateRecords`.)
"""

from typing import NamedTuple

from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages.produce import ProduceResponseRecordError
from coterie.protocol.record_batch_layout import LENGTH_AT, LOG_OVERHEAD_BYTES, MAGIC_AT
from coterie.protocol.records import (
    BatchHeader,
    Compression,
    check_crc,
    decode_pairs,
    decode_records,
    encode_records,
    read_header,
    record_timestamps,
    stamp_append_time,
)
from coterie.server.config.topic_config import TopicConfig
from coterie.server.logs.partition import Partition

_ZSTD_SINCE = 7
_NEWEST_MAGIC = 2
_CODECS = {
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
    "uncompressed": Compression.NONE,
}


class RefusedBatch(Exception):  # noqa: N818 - a refusal is an answer, not a failure of the server
    """A batch is not stored.

    Attributes:
        error: the error of the partition.
        text: the error message of the partition; None where Kafka sends none.
        record_errors: the records for which the batch is refused.
        in_log: whether Kafka's log refuses it, and not the layer above: the response then has the
            log start offset.
    """

    def __init__(
        self,
        error: ErrorCode,
        text: str | None = None,
        record_errors: list[ProduceResponseRecordError] | None = None,
        *,
        in_log: bool = True,
    ) -> None:
        super().__init__(error, text)
        self.error = error
        self.text = text
        self.record_errors = record_errors or []
        self.in_log = in_log


class ValidBatch(NamedTuple):
    """A batch to append, and its header."""

    batch: bytes
    header: BatchHeader


def validate_batch(
    records: bytes | None, version: int, partition: Partition, now_ms: int
) -> ValidBatch:
    """Validate the records of one partition of a produce request [data-plane/batch-checks].

    Returns:
        The batch to store. It differs from the received one if the topic asks for the append time
        or for another compression.

    Raises:
        RefusedBatch: the batch is not stored.
    """
    config = partition.topic.config
    batch, header = _one_batch(records or b"", version)
    if header.is_transactional:
        raise RefusedBatch(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, in_log=False)
    if header.base_offset != 0:
        raise RefusedBatch(ErrorCode.INVALID_RECORD)
    if len(batch) > config.max_message_bytes:
        raise RefusedBatch(ErrorCode.MESSAGE_TOO_LARGE, in_log=False)
    if not check_crc(batch, header):
        raise RefusedBatch(ErrorCode.CORRUPT_MESSAGE, in_log=False)
    if header.record_count < 1 or header.record_count != header.last_offset_delta + 1:
        raise RefusedBatch(ErrorCode.INVALID_RECORD)
    if header.is_control or (header.producer_id >= 0 > header.base_sequence):
        raise RefusedBatch(ErrorCode.INVALID_RECORD)
    _check_contents(batch, header, partition, now_ms)
    if config.log_append_time:
        batch = stamp_append_time(batch, now_ms)
    elif config.compression != "producer":
        batch = _recompressed(batch, header, config)
    return ValidBatch(batch, read_header(batch))


def _one_batch(records: bytes, version: int) -> ValidBatch:
    """Return the only batch. Bytes behind it that are not a batch are ignored."""
    length = int.from_bytes(records[LENGTH_AT:LOG_OVERHEAD_BYTES], signed=True)
    length += LOG_OVERHEAD_BYTES
    if len(records) > MAGIC_AT and records[MAGIC_AT] > _NEWEST_MAGIC:
        text = f"Invalid magic found in record: {records[MAGIC_AT]}"
        raise RefusedBatch(ErrorCode.CORRUPT_MESSAGE, text, in_log=False)
    if len(records) <= MAGIC_AT or length > len(records) or records[MAGIC_AT] < _NEWEST_MAGIC:
        raise RefusedBatch(ErrorCode.INVALID_RECORD, in_log=False)
    try:
        header = read_header(records)
    except MalformedFrame:
        raise RefusedBatch(ErrorCode.CORRUPT_MESSAGE, in_log=False) from None
    if header.compression == Compression.ZSTD and version < _ZSTD_SINCE:
        raise RefusedBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, in_log=False)
    behind = len(records) - length
    if behind > MAGIC_AT:
        following = int.from_bytes(
            records[length + LENGTH_AT : length + LOG_OVERHEAD_BYTES], signed=True
        )
        if following + LOG_OVERHEAD_BYTES <= behind:
            # A second batch.
            raise RefusedBatch(ErrorCode.INVALID_RECORD, in_log=False)
    return ValidBatch(records if not behind else records[:length], header)


def _check_contents(batch: bytes, header: BatchHeader, partition: Partition, now_ms: int) -> None:
    """Check keys, timestamps and compression [data-plane/undecodable-records]."""
    config = partition.topic.config
    earliest, latest = now_ms - config.before_max_ms, now_ms + config.after_max_ms
    try:
        if config.compact:
            _check_keys(batch, header, partition)
        elif header.compression != Compression.NONE:
            # Reading the first record decompresses the whole block.
            next(iter(record_timestamps(batch, header)))
        if not config.log_append_time and (header.max_timestamp_ms > latest or earliest > 0):
            _check_timestamps(batch, header, earliest, latest)
    except MalformedFrame:
        # Not CORRUPT_MESSAGE, which clients retry: the CRC is right, so the producer has made the
        # batch this way. Kafka answers the same.
        raise RefusedBatch(ErrorCode.UNKNOWN_SERVER_ERROR) from None


def _check_keys(batch: bytes, header: BatchHeader, partition: Partition) -> None:
    """Refuse records without a key [data-plane/compacted-keys]."""
    text = f"Compacted topic cannot accept message without key in topic partition {partition}"
    errors = [
        ProduceResponseRecordError(batch_index=index, batch_index_error_message=text)
        for index, (key, _) in enumerate(decode_pairs(batch, header))
        if key is None
    ]
    if errors:
        shown = ", ".join(
            f"RecordError(batchIndex={each.batch_index},"
            f" message='{each.batch_index_error_message}')"
            for each in errors[:3]
        )
        raise RefusedBatch(
            ErrorCode.INVALID_RECORD,
            f"One or more records have been rejected due to {len(errors)} record errors in total,"
            f" and only showing the first three errors at most: [{shown}]",
            errors,
        )


def _check_timestamps(batch: bytes, header: BatchHeader, earliest: int, latest: int) -> None:
    """Refuse a timestamp too far from the broker's time [data-plane/timestamps]."""
    for index, (timestamp, _) in enumerate(record_timestamps(batch, header)):
        if timestamp != -1 and not earliest <= timestamp <= latest:
            text = (
                f"Timestamp {timestamp} of message with offset {index} is out of range."
                f" The timestamp should be within [{earliest}, {latest}]"
            )
            raise RefusedBatch(
                ErrorCode.INVALID_TIMESTAMP,
                "One or more records have been rejected due to invalid timestamp",
                [ProduceResponseRecordError(batch_index=index, batch_index_error_message=text)],
            )


def _recompressed(batch: bytes, header: BatchHeader, config: TopicConfig) -> bytes:
    """Return the batch in the compression of the topic [data-plane/recompression]."""
    codec = _CODECS[config.compression]
    if header.compression == codec:
        return batch
    try:
        return encode_records(
            decode_records(batch, header),
            compression=codec,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
        )
    except MalformedFrame:
        raise RefusedBatch(ErrorCode.UNKNOWN_SERVER_ERROR) from None
