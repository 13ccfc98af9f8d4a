"""Answers and batches as values that compare: ids that a broker makes up are names."""

import re
import struct
import time
from collections.abc import Iterator
from typing import Any

from coterie.protocol.record_batch_layout import HEADER_FIELDS, LOG_OVERHEAD_BYTES
from coterie.protocol.schema import fields_of
from coterie.protocol.wire import Struct
from tests.compared.transactions.side import Side

# Records have times before the run; what is later is the time of a broker.
RUN_MS = time.time_ns() // 1_000_000
RECORD_MS = RUN_MS - 7_200_000
_NOW_SINCE_MS = RUN_MS - 600_000
_LEFT_OUT = ("throttle_time_ms", "session_id", "node_endpoints", "host", "port")
_PRODUCER_IDS = ("producer_id", "previous_producer_id", "next_producer_id")
# What the elements of lists are about.
_SUBJECTS = (
    *("transactional_id", "group_id", "topic", "name", "topic_id"),
    *("partition_index", "partition", "index", "producer_id", "member_id"),
)
_HEADER = struct.Struct(">" + "".join(character for _, character in HEADER_FIELDS))
_HEADER_NAMES = [name for name, _ in HEADER_FIELDS]
_LONG_NUMBER = re.compile(r"\b\d{13}\b")


def plain(value: Any, side: Side) -> Any:
    """Return an answer, or a part of it, as dictionaries, lists and plain values."""
    if isinstance(value, Struct):
        found = {}
        for field in fields_of(type(value)):
            if field.name not in _LEFT_OUT:
                found[field.name] = _field(field.name, getattr(value, field.name), side)
        if found.get("aborted_transactions"):
            _drop_later_transactions(found)
        return found
    if isinstance(value, list):
        elements = [plain(each, side) for each in value]
        is_sorted = bool(value) and isinstance(value[0], Struct)
        return sorted(elements, key=_subject) if is_sorted else elements
    return value


def _drop_later_transactions(partition: dict[str, Any]) -> None:
    """Drop the aborted transactions behind the returned records [data-plane/aborted-transactions].

    Kafka may list them, and they harm no client.
    """
    records = partition["records"]
    end = records[-1]["base_offset"] + records[-1]["last_offset_delta"] if records else -1
    listed = partition["aborted_transactions"]
    partition["aborted_transactions"] = [each for each in listed if each[1] <= end]


def _subject(element: dict[str, Any]) -> list[str]:
    """Return what an element is about: Kafka's order is often that of a hash."""
    return [str(element.get(name)).rjust(10) for name in _SUBJECTS]


def _field(name: str, value: Any, side: Side) -> Any:
    if value is None:
        return None
    if name in _PRODUCER_IDS:
        return side.producer_name(value)
    if name == "topic_id":
        return side.topic_names.get(value, "other")
    if name in ("member_id", "leader"):
        return side.member_names.get(value, value)
    if name == "aborted_transactions":
        return [(side.producer_name(each.producer_id), each.first_offset) for each in value]
    if name == "subscribed_topic_names":
        # They are a set in Kafka, whose order differs from run to run.
        return sorted(value)
    if isinstance(value, bytes) and name != "records":
        return len(value)
    if name in ("partitions", "partition_ids") and value and isinstance(value[0], int):
        return sorted(value)
    if name == "records":
        return [plain_batch(each, side) for each in batches(value)]
    if name == "error_message":
        return _LONG_NUMBER.sub("now", value)
    if isinstance(value, int) and value > _NOW_SINCE_MS and name != "transaction_timeout_ms":
        return "now"
    return plain(value, side)


def batches(data: bytes) -> Iterator[bytes]:
    """Split records into batches."""
    position = 0
    while position + LOG_OVERHEAD_BYTES <= len(data):
        length = int.from_bytes(data[position + 8 : position + LOG_OVERHEAD_BYTES])
        yield data[position : position + LOG_OVERHEAD_BYTES + length]
        position += LOG_OVERHEAD_BYTES + length


def plain_batch(data: bytes, side: Side) -> dict[str, Any]:
    """Return the fields of a batch, and the bytes behind its header."""
    if len(data) < _HEADER.size:
        return {"cut": data.hex()}
    fields: dict[str, Any] = dict(zip(_HEADER_NAMES, _HEADER.unpack_from(data), strict=True))
    fields["producer_id"] = side.producer_name(fields["producer_id"])
    for name in ("base_timestamp_ms", "max_timestamp_ms"):
        if fields[name] > _NOW_SINCE_MS:
            fields[name] = "now"
    # The checksum covers what differs; that it is right is checked elsewhere.
    del fields["crc"]
    fields["records"] = data[_HEADER.size :].hex()
    if len(data) < LOG_OVERHEAD_BYTES + fields["length"]:
        fields["cut"] = True
    return fields
