"""What a produce request brings for one partition, and why it may be refused.

From version 3 on it is exactly one batch of magic 2 [data-plane/one-batch]; before, it is a message
set, which becomes one batch here [data-plane/message-sets].
"""

from typing import NamedTuple

from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages.produce import ProduceResponseRecordError
from coterie.protocol.record_batch_layout import LENGTH_AT, LOG_OVERHEAD_BYTES, MAGIC_AT
from coterie.protocol.records import BatchHeader, Compression, check_crc, read_header

_BATCHES_SINCE = 3
_ZSTD_SINCE = 7
_NEWEST_MAGIC = 2
# The length field of the shortest message of magic 0, less its key and value.
_LEAST_LENGTH = 14


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


def only_batch(records: bytes | None, version: int) -> ValidBatch:
    """Return the only batch of a partition in a produce request, or that of its message set.

    Raises:
        RefusedBatch: there are none, several, or, from version 3 on, an old or a new one.
    """
    data = records or b""
    try:
        header = read_header(data)
    except MalformedFrame:
        if version < _BATCHES_SINCE:
            return _batch_of_messages(records)
        end = _batch_end(data, 0)
        if end is None or data[MAGIC_AT] != _NEWEST_MAGIC:
            raise RefusedBatch(ErrorCode.INVALID_RECORD, in_log=False) from None
        raise RefusedBatch(ErrorCode.CORRUPT_MESSAGE, in_log=False) from None
    end = header.length_bytes
    if end > len(data) or header.magic != _NEWEST_MAGIC:
        if version < _BATCHES_SINCE:
            return _batch_of_messages(records)
        raise RefusedBatch(ErrorCode.INVALID_RECORD, in_log=False)
    if version < _ZSTD_SINCE and header.compression == Compression.ZSTD:
        raise RefusedBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, in_log=False)
    if len(data) == end:
        return ValidBatch(data, header)
    try:
        has_second = _batch_end(data, end) is not None
    except RefusedBatch as refused:
        raise RefusedBatch(refused.error, in_log=False) from None
    if has_second:
        raise RefusedBatch(ErrorCode.INVALID_RECORD, in_log=False)
    return ValidBatch(data[:end], header)


def _batch_end(data: bytes, start: int) -> int | None:
    """Return the end of the batch at `start`; None if the bytes are too few for one.

    Raises:
        RefusedBatch: the bytes are enough, and not a batch.
    """
    left = len(data) - start
    if left < LOG_OVERHEAD_BYTES:
        return None
    length = int.from_bytes(data[start + LENGTH_AT : start + LOG_OVERHEAD_BYTES], signed=True)
    if length < _LEAST_LENGTH:
        text = f"Record size {length} is less than the minimum record overhead ({_LEAST_LENGTH})"
        raise RefusedBatch(ErrorCode.CORRUPT_MESSAGE, text, in_log=False)
    if left <= MAGIC_AT:
        return None
    magic = data[start + MAGIC_AT]
    if magic > _NEWEST_MAGIC:
        text = f"Invalid magic found in record: {int.from_bytes([magic], signed=True)}"
        raise RefusedBatch(ErrorCode.CORRUPT_MESSAGE, text, in_log=False)
    end = start + LOG_OVERHEAD_BYTES + length
    return end if end <= len(data) else None


def _batch_of_messages(records: bytes | None) -> ValidBatch:
    """Return a message set as one batch [data-plane/message-sets].

    Raises:
        RefusedBatch: it cannot be stored, or there is nothing to store.
    """
    # Imported here, because clients since 0.11 send no message sets.
    from coterie.protocol.message_sets import (
        DamagedMessage,
        InvalidMessage,
        batch_of_messages,
    )

    if records is None:
        raise RefusedBatch(ErrorCode.UNKNOWN_SERVER_ERROR)
    try:
        end = 0
        while (stop := _batch_end(records, end)) is not None:
            header = read_header(records, end)
            if not check_crc(records, header, end):
                raise RefusedBatch(ErrorCode.CORRUPT_MESSAGE)
            if header.log_append_time:
                raise RefusedBatch(ErrorCode.INVALID_TIMESTAMP)
            assert stop > end, "each message takes some bytes"
            end = stop
        if not end:
            # As in Kafka: an offset of -1, and no error.
            raise RefusedBatch(ErrorCode.NONE)
        batch = batch_of_messages(records[:end])
    except DamagedMessage:
        raise RefusedBatch(ErrorCode.CORRUPT_MESSAGE) from None
    except InvalidMessage:
        raise RefusedBatch(ErrorCode.INVALID_RECORD) from None
    except MalformedFrame:
        raise RefusedBatch(ErrorCode.UNKNOWN_SERVER_ERROR) from None
    header = read_header(batch)
    assert header.length_bytes == len(batch), "a message set becomes exactly one batch"
    return ValidBatch(batch, header)
