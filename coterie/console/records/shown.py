"""A record as a row of the console: its parts decoded, and cut if they are large.

The keys are those of `coterie dump log --json` where they say the same. No byte is lost: a part is
text only if the text encodes to the same bytes, and hexadecimal otherwise.

    key_format, value_format   text; json, a text that is JSON; hex; fields, of markers and of
                               records of the brokers' own topics; null for a null
    key_size, value_size       bytes, of the whole part
    key_cut, value_cut         whether only its beginning is here
    key_schema, value_schema   the schema of a registry that the part names: id, type, name, and the
                               error if it could not be decoded with it; null without one
    key_raw, value_raw         the bytes of a part that a schema has decoded, as hexadecimal
"""

import json
from typing import Any

from coterie.client.record_fields import (
    compression_name,
    decode_marker,
    decode_record,
    is_internal,
    is_plain,
)
from coterie.client.registry.decoding import Decoded, Registry
from coterie.console.records.reading import Read
from coterie.protocol.record_batch_layout import NO_PRODUCER_ID

Row = dict[str, Any]

# What a page of five hundred records shows of a part; one record can be had whole.
PREVIEW_BYTES = 4 * 1024
# Records of the brokers' own topics are decoded up to this size; a generation of a thousand members
# is larger.
_FIELDS_BYTES = 64 * 1024
_MARKS = ("{", "[")
# The last bytes of a text may be the beginning of a character.
_CHARACTER_BYTES = 4


def record_row(
    topic: str,
    read: Read,
    limit_bytes: int | None = PREVIEW_BYTES,
    registry: Registry | None = None,
) -> Row:
    """Return the row of a record.

    Args:
        topic: its topic.
        read: the record.
        limit_bytes: how much of a part is shown; None for all.
        registry: that of the schemas of keys and values; None for none.
    """
    record, header = read.record, read.header
    has_producer = header.producer_id != NO_PRODUCER_ID
    row: Row = {
        "partition": read.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": "LogAppendTime" if header.log_append_time else "CreateTime",
        "size": _size(record.key) + _size(record.value) + _headers_size(record.headers),
        "compression": compression_name(header),
        "producer_id": header.producer_id if has_producer else None,
        "producer_epoch": header.producer_epoch if has_producer else None,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "transaction": read.transaction,
        "record_type": None,
        "record_name": None,
        "group": None,
        "value_version": None,
        "error": None,
        **_part("key", record.key, limit_bytes),
        **_part("value", record.value, limit_bytes),
        "key_schema": None,
        "value_schema": None,
        "key_raw": None,
        "value_raw": None,
        "headers": [
            {"name": name, **_part("value", value, limit_bytes)} for name, value in record.headers
        ],
    }
    if header.is_control:
        decode_marker(row, record)
    elif is_internal(topic) and (limit_bytes is None or _size(record.value) <= _FIELDS_BYTES):
        decode_record(row, record, topic)
        for name in ("key", "value"):
            if row[f"{name}_format"] == "fields":
                row[f"{name}_cut"] = False
    elif registry is not None:
        for name, part in (("key", record.key), ("value", record.value)):
            decoded_part = registry.decode(part)
            if decoded_part is not None:
                _decode(row, name, decoded_part, limit_bytes)
    return row


def _decode(row: Row, name: str, found: Decoded, limit_bytes: int | None) -> None:
    """Put a part that names a schema into its row, where its bytes are in hexadecimal."""
    row[f"{name}_schema"] = found.row()
    if found.error is not None:
        return
    is_cut = limit_bytes is not None and len(found.text) > limit_bytes
    row[f"{name}_raw"] = row[name]
    row[name] = found.text[:limit_bytes] if is_cut else found.text
    row[f"{name}_format"] = "text" if is_cut or not found.is_structured else "json"
    row[f"{name}_cut"] = is_cut


def _size(part: bytes | None) -> int:
    return len(part) if part is not None else 0


def _headers_size(headers: tuple[tuple[str, bytes | None], ...]) -> int:
    return sum(
        len(name.encode("utf-8", "surrogateescape")) + _size(value) for name, value in headers
    )


def _part(name: str, data: bytes | None, limit_bytes: int | None) -> Row:
    """Return the keys of a part of a record."""
    if data is None:
        return {name: None, f"{name}_format": None, f"{name}_size": 0, f"{name}_cut": False}
    is_cut = limit_bytes is not None and len(data) > limit_bytes
    shown, form = decoded(data[:limit_bytes] if is_cut else data, is_cut=is_cut)
    return {name: shown, f"{name}_format": form, f"{name}_size": len(data), f"{name}_cut": is_cut}


def decoded(data: bytes, *, is_cut: bool = False) -> tuple[str, str]:
    """Return bytes as a text, and its format: json, text or hex.

    Args:
        data: the bytes.
        is_cut: whether they are the beginning of more; then they may end within a character.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if not is_cut or error.start <= len(data) - _CHARACTER_BYTES:
            return data.hex(), "hex"
        text = data[: error.start].decode()
    if not is_plain(text):
        return data.hex(), "hex"
    return text, "json" if not is_cut and _is_json(text) else "text"


def _is_json(text: str) -> bool:
    """Return whether a text is an object or an array of JSON; a number or a word stays a text."""
    if not text.lstrip().startswith(_MARKS):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
