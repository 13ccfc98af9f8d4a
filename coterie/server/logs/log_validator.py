"""What a broker checks of a produced batch before it stores it: Kafka's checks, in Kafka's order.

A produce request carries exactly one batch of magic 2 per partition. Compressed batches are stored
as they came; they are opened once here, so that garbage is refused rather than handed to consumers.
"""

from typing import NamedTuple

from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages.produce import ProduceResponseRecordError
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
from coterie.server.config.config import TopicConfig
from coterie.server.logs.partition import Partition

_ZSTD_SINCE = 7
_MAGIC_AT = 16
# Offset, length, leader epoch and magic: what tells whether there is a batch at all.
_PREFIX_BYTES = 12
_CODECS = {
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
    "uncompressed": Compression.NONE,
}


class Refused(Exception):  # noqa: N818 - it says what became of the batch
    """A batch that is not stored.

    Attributes:
        error: the partition's error.
        text: for the client's log, or None.
        record_errors: the records because of which it is refused.
        in_log: whether the log had a look at it, in which case Kafka answers the log's start
            offset.
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


class Accepted(NamedTuple):
    """A batch to append, and its header."""

    batch: bytes
    header: BatchHeader


def check_batch(records: bytes | None, version: int, partition: Partition, now_ms: int) -> Accepted:
    """Check the records of one partition of a produce request.

    Raises:
        Refused: they are not stored.
    """
    config = partition.topic.config
    batch, header = _one_batch(records or b"", version)
    if header.is_transactional:
        raise Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, in_log=False)
    if header.base_offset != 0:
        raise Refused(ErrorCode.INVALID_RECORD)
    if len(batch) > config.max_message_bytes:
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE, in_log=False)
    if not check_crc(batch, header):
        raise Refused(ErrorCode.CORRUPT_MESSAGE, in_log=False)
    if header.record_count < 1 or header.record_count != header.last_offset_delta + 1:
        raise Refused(ErrorCode.INVALID_RECORD)
    if header.is_control or (
        header.producer_id >= 0 and header.base_sequence < 0 <= header.producer_epoch
    ):
        raise Refused(ErrorCode.INVALID_RECORD)
    _check_contents(batch, header, partition, now_ms)
    if config.log_append_time:
        batch = stamp_append_time(batch, now_ms)
    elif config.compression != "producer":
        batch = _recompressed(batch, header, config)
    return Accepted(batch, read_header(batch))


def _one_batch(records: bytes, version: int) -> Accepted:
    """The only batch there is. What stands behind it and is no batch is ignored, as in Kafka."""
    length = int.from_bytes(records[8:_PREFIX_BYTES], signed=True) + _PREFIX_BYTES
    if len(records) > _MAGIC_AT and records[_MAGIC_AT] > 2:
        text = f"Invalid magic found in record: {records[_MAGIC_AT]}"
        raise Refused(ErrorCode.CORRUPT_MESSAGE, text, in_log=False)
    if len(records) <= _MAGIC_AT or length > len(records) or records[_MAGIC_AT] < 2:
        raise Refused(ErrorCode.INVALID_RECORD, in_log=False)
    try:
        header = read_header(records)
    except MalformedFrame:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, in_log=False) from None
    if header.compression == Compression.ZSTD and version < _ZSTD_SINCE:
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, in_log=False)
    behind = len(records) - length
    if behind > _MAGIC_AT:
        following = int.from_bytes(records[length + 8 : length + _PREFIX_BYTES], signed=True)
        if following + _PREFIX_BYTES <= behind:
            raise Refused(ErrorCode.INVALID_RECORD, in_log=False)
    return Accepted(records if not behind else records[:length], header)


def _check_contents(batch: bytes, header: BatchHeader, partition: Partition, now_ms: int) -> None:
    config = partition.topic.config
    earliest, latest = now_ms - config.before_max_ms, now_ms + config.after_max_ms
    try:
        if config.compact:
            _check_keys(batch, header, partition)
        elif header.compression != Compression.NONE:
            # The first record is enough: it can't be read before the whole block is open.
            next(iter(record_timestamps(batch, header)))
        if not config.log_append_time and (header.max_timestamp_ms > latest or earliest > 0):
            _check_timestamps(batch, header, earliest, latest)
    except MalformedFrame:
        # Not CORRUPT_MESSAGE, which clients retry: the CRC is right, so the producer wrote it so.
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR) from None


def _check_keys(batch: bytes, header: BatchHeader, partition: Partition) -> None:
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
        raise Refused(
            ErrorCode.INVALID_RECORD,
            f"One or more records have been rejected due to {len(errors)} record errors in total,"
            f" and only showing the first three errors at most: [{shown}]",
            errors,
        )


def _check_timestamps(batch: bytes, header: BatchHeader, earliest: int, latest: int) -> None:
    for index, (timestamp, _) in enumerate(record_timestamps(batch, header)):
        if timestamp != -1 and not earliest <= timestamp <= latest:
            text = (
                f"Timestamp {timestamp} of message with offset {index} is out of range."
                f" The timestamp should be within [{earliest}, {latest}]"
            )
            raise Refused(
                ErrorCode.INVALID_TIMESTAMP,
                "One or more records have been rejected due to invalid timestamp",
                [ProduceResponseRecordError(batch_index=index, batch_index_error_message=text)],
            )


def _recompressed(batch: bytes, header: BatchHeader, config: TopicConfig) -> bytes:
    """The batch in the topic's own compression."""
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
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR) from None
