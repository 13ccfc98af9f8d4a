"""Record batches in transcripts: what a Produce request carries, and what a Fetch brought.

    records={count: 3}                                     three records, now, without keys
    records={values: [a, b], keys: [k, null], time: 1000}  two records with a timestamp
    records={producer: 7, epoch: 0, sequence: 5, codec: zstd}
    records={count: 1, magic: 1}    records=[{count: 1}, {count: 1}]    records=0x00ff

Some entries make a batch wrong on purpose: `says_records`, `says_last_delta` and `says_max_time`
change the header alone, `crc: bad` its checksum; `junk: 17` adds bytes, `cut: 5` removes some.
"""

import time
from struct import Struct
from typing import Any

from coterie.conversation.syntax import TranscriptError, parse_list, parse_map, unquote
from coterie.protocol import checksum
from coterie.protocol.compression import Compression
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.record_batch import BatchHeader, Record, iterate_batches, read_header
from coterie.protocol.record_batch_layout import COMPRESSION_MASK
from coterie.protocol.record_reader import decode_records
from coterie.protocol.record_writer import encode_legacy, encode_records

# Positions in the header of a batch [record-batch/header].
_BASE_OFFSET = slice(0, 8)
_MAGIC = 16
_CRC = slice(17, 21)
_CRC_START = 21
_ATTRIBUTES = slice(21, 23)
_LAST_DELTA = slice(23, 27)
_MAX_TIME = slice(35, 43)
_SEQUENCE = slice(53, 57)
_COUNT = slice(57, 61)
BATCH_HEADER_BYTES = 61
_LENGTH_AT = 8
_LOG_OVERHEAD_BYTES = 12
_read_length = Struct(">i").unpack_from
_LEGACY_MAGIC = 2
_READABLE_MAGIC = 2

# The entries that change the header alone, by the place of the field.
_LIES = {
    "base_offset": _BASE_OFFSET,
    "attributes": _ATTRIBUTES,
    "says_last_delta": _LAST_DELTA,
    "says_max_time": _MAX_TIME,
    "sequence": _SEQUENCE,
    "says_records": _COUNT,
}


def records_bytes(text: str) -> bytes | None:
    """Return the bytes of a field of records.

    Raises:
        TranscriptError: the text is not one of the forms above.
    """
    if text == "null":
        return None
    if text == '""':
        return b""
    if text.startswith("0x"):
        return bytes.fromhex(text[2:])
    return b"".join(_batch(parse_map(item)) for item in parse_list(text))


def _batch(entries: dict[str, str]) -> bytes:
    take = entries.pop
    values = [unquote(each) for each in parse_list(take("values", "[]"))]
    count = int(take("count", str(len(values) or 1)))
    values += [f"value-{number}" for number in range(len(values), count)]
    keys = [unquote(each) for each in parse_list(take("keys", "[]"))] or ["null"] * count
    now_ms = int(time.time() * 1000)
    moment = take("time", "now")
    first_ms = now_ms + int(moment[3:] or 0) if moment.startswith("now") else int(moment)
    step_ms = int(take("step", "0"))
    records = [
        Record(
            number,
            first_ms + number * step_ms,
            None if key == "null" else key.encode(),
            None if value == "null" else value.encode(),
        )
        for number, (key, value) in enumerate(zip(keys, values, strict=True))
    ]
    magic = int(take("magic", "2"))
    if magic < _LEGACY_MAGIC:
        return b"".join(encode_legacy(each, magic) for each in records)
    batch = bytearray(
        encode_records(
            records,
            compression=Compression[take("codec", "none").upper()],
            producer_id=int(take("producer", "-1")),
            producer_epoch=int(take("epoch", "-1")),
            transactional=take("transactional", "false") == "true",
        )
    )
    return _distorted(batch, magic, entries)


def _distorted(batch: bytearray, magic: int, entries: dict[str, str]) -> bytes:
    """Return a batch with the fields that the entries name changed; the checksum fits them."""
    for name, place in _LIES.items():
        if name in entries:
            value = int(entries.pop(name), 0)
            batch[place] = value.to_bytes(place.stop - place.start, "big", signed=True)
    batch[_MAGIC] = magic
    crc = checksum.crc32c(bytes(batch[_CRC_START:]))
    if entries.pop("crc", "good") == "bad":
        crc ^= 1
    batch[_CRC] = crc.to_bytes(4, "big")
    batch += bytes(int(entries.pop("junk", "0")))
    cut = int(entries.pop("cut", "0"))
    if entries:
        raise TranscriptError(f"unknown in a batch: {', '.join(entries)}")
    return bytes(batch[: len(batch) - cut])


def records_tree(data: bytes | None) -> Any:
    """Return the batches of a field of records as values to compare; hexadecimal if unreadable."""
    if data is None:
        return "null"
    batches = []
    try:
        for position, header in iterate_batches(data):
            batches.append(_batch_tree(data, header, position))
    except MalformedFrame as error:
        # A broker may cut the last batch at the limit of bytes; a client ignores what is left.
        if not batches:
            return f"0x{data[:64].hex()} ({error})"
    return batches


def _batch_tree(data: bytes, header: BatchHeader, position: int) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "base_offset": str(header.base_offset),
        "last_offset": str(header.last_offset),
        "magic": str(header.magic),
        "attributes": f"{header.attributes:#x}",
        "codec": Compression(header.attributes & COMPRESSION_MASK).name.lower(),
        "producer": str(header.producer_id),
        "epoch": str(header.producer_epoch),
        "sequence": str(header.base_sequence),
        "leader_epoch": str(header.leader_epoch),
        "max_time": str(header.max_timestamp_ms),
        "records": str(header.record_count),
    }
    if header.magic == _READABLE_MAGIC and not header.is_control:
        records = decode_records(data, header, position)
        tree["values"] = [_text(each.value) for each in records]
        tree["keys"] = [_text(each.key) for each in records]
    return tree


def _text(content: bytes | None) -> str:
    return "null" if content is None else content.decode(errors="replace")


def batch_headers(records: bytes) -> bytes:
    """Return the headers of record batches, without their records.

    Messages of the older formats are left out, and so is a batch that is cut off in its header.
    """
    headers = []
    position = 0
    while position + BATCH_HEADER_BYTES <= len(records):
        if records[position + _MAGIC] == 2:
            headers.append(records[position : position + BATCH_HEADER_BYTES])
        (length,) = _read_length(records, position + _LENGTH_AT)
        if length <= 0:
            break
        position += _LOG_OVERHEAD_BYTES + length
    return b"".join(headers)


def read_batch_headers(headers: bytes) -> list[tuple[int, BatchHeader]]:
    """Return what `batch_headers` has kept, with the position of each header."""
    return [(at, read_header(headers, at)) for at in range(0, len(headers), BATCH_HEADER_BYTES)]
