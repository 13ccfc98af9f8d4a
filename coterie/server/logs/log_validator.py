"""Validation of produced batches before they are stored: Kafka's checks, in Kafka's order.

A produce request has exactly one batch of magic 2 for each partition [data-plane/one-batch].
Batches are stored as they arrive. They are opened once here, so that records which consumers could
not read are refused instead of stored. (Kafka: `LogValidator`.)
"""

import itertools

from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages.produce import ProduceResponseRecordError
from coterie.protocol.raw_records import open_body, split_records
from coterie.protocol.record_batch_layout import (
    HEADER_BYTES,
)
from coterie.protocol.record_check import check_records
from coterie.protocol.records import (
    BatchHeader,
    Compression,
    check_crc,
    decode_records,
    encode_records,
    read_header,
    stamp_timestamp,
)
from coterie.server.config.topic_config import TopicConfig
from coterie.server.logs.partition import Partition
from coterie.server.logs.received_batches import RefusedBatch, ValidBatch

_MAX_INT64 = (1 << 63) - 1
# compression.type; `producer` leaves batches as they are.
_CODECS = {
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
    "uncompressed": Compression.NONE,
}


def validate_batch(
    batch: bytes,
    header: BatchHeader,
    partition: Partition,
    now_ms: int,
) -> ValidBatch:
    """Validate the batch of one partition of a produce request [data-plane/batch-checks].

    Args:
        batch: what `only_batch` has returned.
        header: of the batch.
        partition: where it is to be appended.
        now_ms: epoch milliseconds.

    Returns:
        The batch to store. It differs from the received one if the topic asks for the append time
        or for another compression, or if its maximum timestamp is wrong.

    Raises:
        RefusedBatch: the batch is not stored.
    """
    config = partition.topic.config
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
    max_timestamp_ms = _check_records(batch, header, partition, now_ms)
    valid = _as_stored(batch, header, config, max_timestamp_ms, now_ms)
    if len(valid.batch) > config.segment_bytes:
        raise RefusedBatch(ErrorCode.RECORD_LIST_TOO_LARGE, in_log=False)
    return valid


def _as_stored(
    batch: bytes, header: BatchHeader, config: TopicConfig, max_timestamp_ms: int, now_ms: int
) -> ValidBatch:
    """Return the batch with the compression and the timestamps that the topic asks for."""
    codec = _CODECS.get(config.compression)
    if codec is not None and codec != header.compression:
        time_ms = now_ms if config.log_append_time else None
        batch = _recompressed(batch, header, codec, config.compression_level, time_ms)
    elif config.log_append_time:
        batch = stamp_timestamp(batch, header, now_ms, log_append_time=True)
    elif max_timestamp_ms != header.max_timestamp_ms or header.log_append_time:
        batch = stamp_timestamp(batch, header, max_timestamp_ms, log_append_time=False)
    else:
        return ValidBatch(batch, header)
    stored = read_header(batch)
    assert stored.length_bytes == len(batch), "what is stored is exactly one batch"
    assert stored.record_count == header.record_count, "a batch keeps all its records"
    return ValidBatch(batch, stored)


def _check_records(batch: bytes, header: BatchHeader, partition: Partition, now_ms: int) -> int:
    """Check the records, their keys and timestamps; return their greatest timestamp.

    [data-plane/batch-checks]
    """
    config = partition.topic.config
    body, start, end = batch, HEADER_BYTES, len(batch)
    if header.compression:
        try:
            body, start, end = open_body(batch, header)
        except MalformedFrame:
            # Not CORRUPT_MESSAGE, which clients retry: the CRC is right, so the producer has made
            # the batch this way. Kafka answers the same.
            raise RefusedBatch(ErrorCode.UNKNOWN_SERVER_ERROR) from None
    try:
        least_ms, greatest_ms, has_null_key = check_records(body, start, end, header.record_count)
    except MalformedFrame:
        raise RefusedBatch(ErrorCode.INVALID_RECORD) from None
    if header.log_append_time:
        least_ms = greatest_ms = header.max_timestamp_ms
        is_refused = config.log_append_time or greatest_ms == -1
    else:
        least_ms += header.base_timestamp_ms
        greatest_ms += header.base_timestamp_ms
        is_refused = False
    if (
        is_refused
        or (has_null_key and config.compact)
        or greatest_ms - now_ms > config.after_max_ms
        or now_ms - least_ms > config.before_max_ms
        or greatest_ms > _MAX_INT64
    ):
        _refuse_records(body[start:end], header, partition, now_ms)
    return greatest_ms if greatest_ms >= 0 else -1


def _refuse_records(body: bytes, header: BatchHeader, partition: Partition, now_ms: int) -> None:
    """Refuse the batch if one of its records is wrong. All of those are in the response.

    [data-plane/batch-checks] [data-plane/timestamps]
    """
    config = partition.topic.config
    earliest_ms, latest_ms = now_ms - config.before_max_ms, now_ms + config.after_max_ms
    no_key = f"Compacted topic cannot accept message without key in topic partition {partition}"
    out_of_range = f"is out of range. The timestamp should be within [{earliest_ms}, {latest_ms}]"
    texts: dict[int, str] = {}
    has_wrong_timestamp = False
    records = split_records(body, 0, len(body), header.record_count)
    for index, (_, _, delta_ms, offset, _, _, key_bytes, _, value_bytes) in enumerate(records):
        timestamp_ms = header.max_timestamp_ms
        if not header.log_append_time:
            timestamp_ms = _as_int64(header.base_timestamp_ms + delta_ms)
        if key_bytes < 0 and config.compact:
            texts[index] = no_key
            continue
        if not config.log_append_time and timestamp_ms != -1:
            if earliest_ms <= timestamp_ms <= latest_ms:
                continue
            text = f"Timestamp {timestamp_ms} of message with offset {index} {out_of_range}"
        elif header.log_append_time:
            # What Kafka prints: it reads no more than the lengths of compressed records.
            is_partial = header.compression and not _is_recompressed(header, config)
            text = (
                f"Invalid timestamp type in message {'Partial' if is_partial else ''}"
                f"DefaultRecord(offset={offset}, timestamp={timestamp_ms},"
                f" key={max(key_bytes, 0)} bytes, value={max(value_bytes, 0)} bytes)."
                " Producer should not set timestamp type to LogAppendTime."
            )
        else:
            continue
        texts[index] = text
        has_wrong_timestamp = True
    if not texts:
        return
    errors = [
        ProduceResponseRecordError(batch_index=index, batch_index_error_message=text)
        for index, text in texts.items()
    ]
    if has_wrong_timestamp:
        text = "One or more records have been rejected due to invalid timestamp"
        raise RefusedBatch(ErrorCode.INVALID_TIMESTAMP, text, errors)
    shown = ", ".join(
        f"RecordError(batchIndex={index}, message='{text}')"
        for index, text in itertools.islice(texts.items(), 3)
    )
    text = (
        f"One or more records have been rejected due to {len(errors)} record errors in total,"
        f" and only showing the first three errors at most: [{shown}]"
    )
    raise RefusedBatch(ErrorCode.INVALID_RECORD, text, errors)


def _is_recompressed(header: BatchHeader, config: TopicConfig) -> bool:
    codec = _CODECS.get(config.compression)
    return codec is not None and codec != header.compression


def _recompressed(
    batch: bytes,
    header: BatchHeader,
    codec: Compression,
    level: int | None,
    log_append_time_ms: int | None,
) -> bytes:
    """Return the batch in the compression of the topic [data-plane/recompression]."""
    assert not header.is_control, "a client sends no control batch"
    try:
        records = decode_records(batch, header)
    except MalformedFrame:
        raise RefusedBatch(ErrorCode.UNKNOWN_SERVER_ERROR) from None
    return encode_records(
        # A producer may have given the records any offset deltas.
        [record._replace(offset=offset) for offset, record in enumerate(records)],
        compression=codec,
        compression_level=level,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        log_append_time_ms=log_append_time_ms,
    )


def _as_int64(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
