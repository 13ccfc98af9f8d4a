"""Logs to decode, and the plain decoder with which the bulk decoder is compared."""

import os
import struct
from typing import Any

import pyarrow as pa

from coterie.pipeline.ranges import LogRange, RangeStep, read_range
from coterie.pipeline.records import timestamp_us
from coterie.pipeline.records.commits import commit_fields
from coterie.pipeline.records.epochs import KINDS, epoch_fields
from coterie.pipeline.records.groups import group_fields
from coterie.pipeline.schemas import VIEWS
from coterie.protocol.messages.log_records import OffsetCommitKey, OffsetCommitValue, encode_key
from coterie.protocol.records import check_crc, decode_records, iterate_batches

NOW_MS = 1_760_000_000_000


def commit_key(group: str = "orders", topic: str = "paid", partition: int = 0) -> bytes:
    return encode_key(OffsetCommitKey(group=group, topic=topic, partition=partition))


def commit_value(version: int = 4, **fields: Any) -> bytes:
    """Return a commit's value in any version."""
    defaults: dict[str, Any] = {"offset": 7, "metadata": "", "commit_timestamp": NOW_MS}
    if version < 3:
        fields.pop("leader_epoch", None)
    if version != 1:
        fields.pop("expire_timestamp", None)
    if version < 4:
        fields.pop("topic_id", None)
    value = OffsetCommitValue(**defaults | fields)
    return version.to_bytes(2) + OffsetCommitValue.encoder(version)(value)


def write_segments(directory: str, *segments: tuple[int, list[bytes]], index: bool = True) -> None:
    """Write segment files, with an index entry for every batch but the first."""
    os.makedirs(directory, exist_ok=True)
    for base, batches in segments:
        stem = os.path.join(directory, f"{base:020d}")
        entries = b""
        position = 0
        for batch in batches:
            if position and index and len(batch) > 26:
                first, delta = struct.unpack_from(">q15xi", batch)
                entries += struct.pack(">ii", first + delta - base, position)
            position += len(batch)
        with open(stem + ".log", "wb") as file:
            file.write(b"".join(batches))
        with open(stem + ".index", "wb") as file:
            file.write(entries + bytes(64))


def steps(directory: str, view: str, first: int = 0, **options: Any) -> list[RangeStep]:
    end = options.pop("end_offset", (1 << 63) - 1)
    return list(read_range(LogRange(directory, 3, first, end), view, **options))


def rows(directory: str, view: str, first: int = 0, **options: Any) -> list[dict[str, Any]]:
    """Decode a directory with the bulk decoder."""
    found = []
    for step in steps(directory, view, first, **options):
        step.rows.validate(full=True)
        assert step.rows.schema == VIEWS[view]
        found += step.rows.to_pylist()
    return found


def reasons(directory: str, view: str = "quarantine", **options: Any) -> list[str]:
    return [each.reason for step in steps(directory, view, **options) for each in step.damages]


def plain_rows(log: bytes, view: str, segment_base: int = 0) -> list[dict[str, Any]]:
    """Decode an undamaged log with `protocol` alone, one record at a time."""
    found: list[dict[str, Any]] = []
    for position, header in iterate_batches(log):
        assert check_crc(log, header, position)
        for record in decode_records(log, header, position):
            place = {
                "log_partition": 3,
                "log_offset": record.offset,
                "record_ts": timestamp_us(record.timestamp_ms),
            }
            key = record.key or b""
            typed = not header.is_control and len(key) > 1
            key_type = int.from_bytes(key[:2], signed=True) if typed else None
            producer = None if header.producer_id < 0 else header.producer_id
            if view == "raw":
                found.append(
                    place
                    | {
                        "batch_base_offset": header.base_offset,
                        "leader_epoch": None if header.leader_epoch < 0 else header.leader_epoch,
                        "producer_id": producer,
                        "attributes": header.attributes,
                        "key_type": key_type,
                        "key": record.key,
                        "value": record.value,
                        "segment_base": segment_base,
                    }
                )
            elif view == "commits" and key_type in (0, 1):
                row = place | commit_fields(key, record.value)
                found.append(
                    row | {"producer_id": producer, "is_transactional": header.is_transactional}
                )
            elif view == "groups" and key_type == 2:
                found.append(place | group_fields(key, record.value))
            elif view == "consumer_epochs" and key_type in KINDS:
                found.append(place | epoch_fields(key, record.value))
    result: list[dict[str, Any]] = pa.Table.from_pylist(found, VIEWS[view]).to_pylist()
    return result
