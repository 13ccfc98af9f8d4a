"""Batches and records as rows: the dictionaries that `coterie dump log --json` prints.

The keys are listed in docs/command-line.md. Bytes are hexadecimal, topic ids as Kafka prints them.
Records of `__consumer_offsets` are decoded whatever Kafka wrote them, and the opaque bytes of
consumers in them too; what can't be decoded stays hexadecimal and says why.
"""

from collections.abc import Iterator
from typing import Any

from coterie.cli.log_files import PartitionFiles, id_text
from coterie.cli.log_walk import Batch, Damage
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.consumer_protocol import decode_assignment, decode_subscription
from coterie.protocol.messages.group_record_types import decode_group_key, decode_group_value
from coterie.protocol.messages.log_records import UnknownKey, UnknownValueVersion
from coterie.protocol.record_batch import HAS_DELETE_HORIZON
from coterie.protocol.records import BatchHeader, Compression, Record, decode_records, read_marker
from coterie.protocol.schema import FieldType, fields_of
from coterie.protocol.wire import Message, Struct

Row = dict[str, Any]

_CONSUMER = "consumer"
_MARKER_VERSION_BYTES = 2
_GROUP_LENGTH_BYTES = 2


def batch_row(partition: PartitionFiles, batch: Batch) -> Row:
    """A batch's header."""
    header = batch.header
    horizon = header.magic >= 2 and header.attributes & HAS_DELETE_HORIZON
    return {
        "kind": "batch",
        **_place(partition, batch.path, batch.position),
        "size": header.length_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "leader_epoch": header.leader_epoch,
        "magic": header.magic,
        "crc": f"{header.crc:08x}",
        "compression": compression_name(header),
        "timestamp_type": "LogAppendTime" if header.log_append_time else "CreateTime",
        "max_timestamp": header.max_timestamp_ms,
        "delete_horizon": header.base_timestamp_ms if horizon else None,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
    }


def damage_row(partition: PartitionFiles, damage: Damage) -> Row:
    """Bytes that are no batch."""
    return {
        "kind": "torn_tail" if damage.torn else "damage",
        **_place(partition, damage.path, damage.position),
        "size": damage.size,
        "reason": damage.reason,
    }


def record_rows(
    partition: PartitionFiles, batch: Batch, values: str, groups: frozenset[bytes] | None
) -> Iterator[Row]:
    """The records of a batch.

    Args:
        partition: where it stands.
        batch: whole and undamaged; compressed ones are opened.
        values: `offsets`, `text` or `raw`.
        groups: only the records of these group ids, as UTF-8; None for all records.

    Raises:
        MalformedFrame: the checksum fits, but these are no records.
    """
    header = batch.header
    for record in decode_records(batch.data, header):
        if groups is not None and (header.is_control or _group_in(record.key) not in groups):
            continue
        row = {
            "kind": "record",
            **_place(partition, batch.path, batch.position),
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "producer_id": header.producer_id,
            "transactional": header.is_transactional,
            "record_type": None,
            "record_name": None,
            "group": None,
            "key": None if record.key is None else record.key.hex(),
            "key_format": None if record.key is None else "hex",
            "value": None if record.value is None else record.value.hex(),
            "value_format": None if record.value is None else "hex",
            "value_version": None,
            "headers": [[name, _hex(value)] for name, value in record.headers],
            "error": None,
        }
        if values != "raw":
            if header.is_control:
                _decode_marker(row, record)
            elif values == "offsets":
                _decode_group_record(row, record)
            else:
                _decode_text(row, record)
        yield row


def compression_name(header: BatchHeader) -> str:
    """The codec of a batch, as Kafka calls it."""
    codec = header.compression
    return Compression(codec).name.lower() if codec <= Compression.ZSTD else f"unknown ({codec})"


def jsonable(value: Any, kind: FieldType | None = None) -> Any:
    """A decoded message as JSON has it: structures by field name, bytes as hexadecimal."""
    if isinstance(value, Struct):
        return {
            field.name: jsonable(getattr(value, field.name), field.type)
            for field in fields_of(type(value))
        }
    if isinstance(value, list):
        return [jsonable(item) for item in value]
    if isinstance(value, bytes):
        is_id = kind is not None and kind.wire is not None and kind.wire.kind == "uuid"
        return id_text(value) if is_id else value.hex()
    return value


def _place(partition: PartitionFiles, path: str, position: int) -> Row:
    return {
        "topic": partition.topic or None,
        "partition": partition.partition if partition.partition >= 0 else None,
        "file": path,
        "position": position,
    }


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def _group_in(key: bytes | None) -> bytes | None:
    """The group's id in a key of `__consumer_offsets`: the first field in every type."""
    if key is None or len(key) < 2 * _GROUP_LENGTH_BYTES:
        return None
    start = 2 * _GROUP_LENGTH_BYTES
    return key[start : start + int.from_bytes(key[_GROUP_LENGTH_BYTES:start], "big")]


def _decode_marker(row: Row, record: Record) -> None:
    try:
        marker = read_marker(record)
    except MalformedFrame as error:
        row["error"] = str(error)
        return
    if marker is None:
        row["record_name"] = "ControlRecord"
        return
    row["record_name"] = "CommitMarker" if marker.commit else "AbortMarker"
    row["key"] = row["key_format"] = None
    row["value"] = {"coordinator_epoch": marker.coordinator_epoch}
    row["value_format"] = "fields"
    assert record.value is not None, "read_marker has looked into it"
    row["value_version"] = int.from_bytes(record.value[:_MARKER_VERSION_BYTES], "big")


def _decode_group_record(row: Row, record: Record) -> None:
    """A record of `__consumer_offsets`, into its row."""
    if record.key is None:
        row["error"] = "a record without a key"
        return
    try:
        decoded = decode_group_key(record.key)
        row["record_type"] = int.from_bytes(record.key[:2], "big", signed=True)
        if isinstance(decoded, UnknownKey):
            return
        row["record_name"] = decoded.record_type.name
        row["group"] = decoded.group_id
        row["key"] = jsonable(decoded.key)
        row["key_format"] = "fields"
        if record.value is None:
            return
        version, value = decode_group_value(decoded.record_type, record.value)
    except UnknownValueVersion as error:
        assert record.value is not None, "it has a version"
        row["value_version"] = int.from_bytes(record.value[:2], "big", signed=True)
        row["error"] = str(error)
    except MalformedFrame as error:
        row["error"] = f"malformed: {error}"
    else:
        row["value"] = _with_consumer_protocol(value, jsonable(value))
        row["value_format"] = "fields"
        row["value_version"] = version


def _with_consumer_protocol(value: Message, fields: Row) -> Row:
    """The fields of a value, with what consumers put into opaque bytes decoded, where it can be."""
    if fields.get("protocol_type") == _CONSUMER:
        for member, shown in zip(value.members, fields["members"], strict=True):  # type: ignore[attr-defined]
            shown["subscription"] = _opened(member.subscription, decode_subscription)
            shown["assignment"] = _opened(member.assignment, decode_assignment)
    classic = fields.get("classic_member_metadata")
    if classic:
        protocols = value.classic_member_metadata.supported_protocols  # type: ignore[attr-defined]
        for protocol, shown in zip(protocols, classic["supported_protocols"], strict=True):
            shown["metadata"] = _opened(protocol.metadata, decode_subscription)
    return fields


def _opened(data: bytes, decode: Any) -> Any:
    if not data:
        return ""
    try:
        return jsonable(decode(data))
    except MalformedFrame:
        return data.hex()


def _decode_text(row: Row, record: Record) -> None:
    """Key, value and headers of an ordinary topic: text where they are text."""
    for name, data in (("key", record.key), ("value", record.value)):
        if data is not None and (text := as_text(data)) is not None:
            row[name] = text
            row[f"{name}_format"] = "text"


def as_text(data: bytes) -> str | None:
    """Bytes as text, if they are UTF-8 without control characters other than white space."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if any(c < " " and c not in "\t\n\r" for c in text) else text
