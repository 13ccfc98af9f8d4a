"""Record batches in a replay: rebuilt where the recording has no payloads, and compared."""

from struct import Struct
from typing import Any, NamedTuple

from coterie.conversation.batches import BATCH_HEADER_BYTES, read_batch_headers
from coterie.conversation.identities import Identities
from coterie.protocol import checksum
from coterie.protocol.errors import DECODE_ERRORS
from coterie.protocol.record_batch import BatchHeader, Record, iterate_batches
from coterie.protocol.record_batch_layout import CRC, CRC_AT, CRC_START, position_of
from coterie.protocol.record_reader import decode_records
from coterie.protocol.record_writer import encode_records

_PRODUCER_ID_AT = position_of("producer_id")
_PRODUCER_ID = Struct(">q")
# A record has a length, attributes, two deltas, two lengths and a count of headers.
_LEAST_RECORD_BYTES = 7


class Batches(NamedTuple):
    """What is compared of the batches of a partition.

    Attributes:
        spans: the first offset and the number of records of each batch.
        records: keys and values, if both sides have them.
    """

    spans: list[tuple[int, int]]
    records: list[tuple[Any, Any]] | None

    def __str__(self) -> str:
        text = ", ".join(f"{count} from offset {first}" for first, count in self.spans)
        return text or "none"


def rebuilt(request: Any) -> None:
    """Put batches with as many empty records into a Produce request without payloads."""
    for topic in request.topic_data:
        for partition in topic.partition_data:
            if partition.records is not None:
                partition.records = b"".join(
                    _empty_records(header)
                    if _is_plausible(header)
                    else partition.records[at : at + BATCH_HEADER_BYTES]
                    for at, header in read_batch_headers(partition.records)
                )


def _is_plausible(header: BatchHeader) -> bool:
    """Return whether as many records as the header counts can have been in the batch.

    Of others the headers are sent alone: they were damaged, and are refused again.
    """
    return 0 < header.record_count <= header.length_bytes // _LEAST_RECORD_BYTES


def _empty_records(header: BatchHeader) -> bytes:
    last = header.record_count - 1
    records = [
        Record(
            header.base_offset + (header.last_offset_delta if n == last else n),
            header.max_timestamp_ms if n == last else header.base_timestamp_ms,
            b"",
            b"",
        )
        for n in range(header.record_count)
    ]
    return encode_records(
        records,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )


def with_producers(request: Any, identities: Identities) -> None:
    """Put the replay's producer ids into the batches of a Produce request."""
    for topic in request.topic_data:
        for partition in topic.partition_data:
            if partition.records:
                partition.records = _with_producers(partition.records, identities)


def _with_producers(records: bytes, identities: Identities) -> bytes:
    changed = bytearray(records)
    try:
        for position, header in iterate_batches(records):
            producer_id = identities.replayed("producer", header.producer_id)
            if header.magic == 2 and producer_id != header.producer_id:
                _PRODUCER_ID.pack_into(changed, position + _PRODUCER_ID_AT, producer_id)
                end = position + header.length_bytes
                crc = checksum.crc32c(bytes(changed[position + CRC_START : end]))
                CRC.pack_into(changed, position + CRC_AT, crc)
    except DECODE_ERRORS:
        # A damaged batch is sent as it was recorded.
        return records
    return bytes(changed)


def batches_of(records: bytes | None, *, headers_only: bool, with_records: bool) -> Batches:
    """Return what is compared of the batches in a Fetch response.

    Args:
        records: the field of the response.
        headers_only: whether the recording has left the records out.
        with_records: whether keys and values are compared.
    """
    spans: list[tuple[int, int]] = []
    found: list[tuple[Any, Any]] = []
    if headers_only:
        headers = read_batch_headers(records or b"")
        return Batches([(each.base_offset, each.record_count) for _, each in headers], None)
    try:
        for position, header in iterate_batches(records or b""):
            if header.magic == 2:
                spans.append((header.base_offset, header.record_count))
            if with_records:
                decoded = decode_records(records or b"", header, position)
                found += [(each.key, each.value) for each in decoded]
    except DECODE_ERRORS:
        # The last batch may be cut off at the size that the client has asked for.
        pass
    return Batches(spans, found if with_records else None)
