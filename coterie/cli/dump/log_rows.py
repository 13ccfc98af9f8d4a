"""Batches and records as rows: the dictionaries that `coterie dump log --json` prints.

The keys are listed in docs/command-line.md. Bytes are hexadecimal, topic ids as Kafka prints them.
Records of `__consumer_offsets` are decoded, all types that Kafka writes, and so is the consumer
protocol inside them; so are those of `__transaction_state`. What can't be decoded stays
hexadecimal, and the row contains the reason.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from coterie.cli.dump.log_files import PartitionFiles
from coterie.cli.dump.log_walk import Batch, Damage
from coterie.cli.dump.message_fields import jsonable
from coterie.cli.output import Row
from coterie.coordinator.transactions.states import TransactionState
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages import connect_protocol, consumer_protocol
from coterie.protocol.messages.log_records import GROUP_RECORDS, group_of
from coterie.protocol.messages.record_types import RecordTypes, UnknownKey, UnknownValueVersion
from coterie.protocol.messages.transaction_records import TRANSACTION_RECORDS, TransactionLogValue
from coterie.protocol.record_batch_layout import HAS_DELETE_HORIZON
from coterie.protocol.records import BatchHeader, Compression, Record, decode_records, read_marker
from coterie.protocol.wire import Message

# By protocol type: what decodes the metadata and the assignment of a member.
_EMBEDDED: dict[str, tuple[Callable[[bytes], Message], Callable[[bytes], Message]]] = {
    "consumer": (consumer_protocol.decode_subscription, consumer_protocol.decode_assignment),
    connect_protocol.PROTOCOL_TYPE: (
        connect_protocol.decode_metadata,
        connect_protocol.decode_assignment,
    ),
}
# Keys and values of __consumer_offsets begin with a type or version. In a key the length of the
# group id follows, then the group id; both are the same in every type of record.
_VERSION_BYTES = 2
_GROUP_LENGTH_BYTES = 2


def batch_row(partition: PartitionFiles, batch: Batch) -> Row:
    """Return the row of a batch, made from its header."""
    header = batch.header
    has_delete_horizon = header.magic >= 2 and header.attributes & HAS_DELETE_HORIZON
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
        "compression": _compression_name(header),
        "timestamp_type": "LogAppendTime" if header.log_append_time else "CreateTime",
        "max_timestamp": header.max_timestamp_ms,
        "delete_horizon": header.base_timestamp_ms if has_delete_horizon else None,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
    }


def damage_row(partition: PartitionFiles, damage: Damage) -> Row:
    """Return the row of bytes that are not a valid batch."""
    return {
        "kind": "torn_tail" if damage.torn else "damage",
        **_place(partition, damage.path, damage.position),
        "size": damage.size,
        "reason": damage.reason,
    }


def record_rows(
    partition: PartitionFiles, batch: Batch, values: str, groups: frozenset[bytes] | None
) -> Iterator[Row]:
    """Return the rows of the records of a batch.

    Args:
        partition: the partition of the batch.
        batch: a whole batch whose checksum is right; it may be compressed.
        values: how keys and values are decoded: `offsets`, `transactions`, `text` or `raw`.
        groups: the group ids, in UTF-8, whose records are wanted; None for all records.

    Raises:
        MalformedFrame: the checksum is right, but the records can't be decoded.
    """
    header = batch.header
    for record in decode_records(batch.data, header):
        if groups is not None and (header.is_control or _group_id(record.key) not in groups):
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
            "headers": [
                [name, None if value is None else value.hex()] for name, value in record.headers
            ],
            "error": None,
        }
        if values != "raw":
            if header.is_control:
                _decode_marker(row, record)
            elif values == "offsets":
                _decode_coordinator_record(row, record, GROUP_RECORDS)
            elif values == "transactions":
                _decode_coordinator_record(row, record, TRANSACTION_RECORDS)
            else:
                _decode_text(row, record)
        yield row


def as_text(data: bytes) -> str | None:
    """Return bytes as text, or None if they are not UTF-8 or contain control characters."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if any(c < " " and c not in "\t\n\r" for c in text) else text


def _compression_name(header: BatchHeader) -> str:
    """Return the codec of a batch as Kafka calls it."""
    codec = header.compression
    return Compression(codec).name.lower() if codec <= Compression.ZSTD else f"unknown ({codec})"


def _place(partition: PartitionFiles, path: str, position: int) -> Row:
    return {
        "topic": partition.topic or None,
        "partition": partition.partition if partition.partition >= 0 else None,
        "file": path,
        "position": position,
    }


def _group_id(key: bytes | None) -> bytes | None:
    """Return the group id in a key of `__consumer_offsets`."""
    start = _VERSION_BYTES + _GROUP_LENGTH_BYTES
    if key is None or len(key) < start:
        return None
    return key[start : start + int.from_bytes(key[_VERSION_BYTES:start], "big")]


def _version(data: bytes) -> int:
    return int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)


def _decode_marker(row: Row, record: Record) -> None:
    """Decode a control record into its row."""
    try:
        marker = read_marker(record)
    except MalformedFrame as error:
        row["error"] = str(error)
        return
    if marker is None:
        row["record_name"] = "ControlRecord"
        return
    assert record.value is not None, "read_marker has decoded the value"
    row["record_name"] = "CommitMarker" if marker.commit else "AbortMarker"
    row["key"] = row["key_format"] = None
    row["value"] = {"coordinator_epoch": marker.coordinator_epoch}
    row["value_format"] = "fields"
    row["value_version"] = _version(record.value)


def _decode_coordinator_record(row: Row, record: Record, types: RecordTypes) -> None:
    """Decode a record of `__consumer_offsets` or `__transaction_state` into its row."""
    if record.key is None:
        row["error"] = "the record has no key"
        return
    try:
        key = types.decode_key(record.key)
        number = row["record_type"] = _version(record.key)
        if isinstance(key, UnknownKey):
            return
        record_type = types.by_number[number]
        row["record_name"] = record_type.name
        if types is GROUP_RECORDS:
            row["group"] = group_of(key)
        row["key"] = jsonable(key, readable_ids=True)
        row["key_format"] = "fields"
        if record.value is None:
            return
        value = record_type.decode_value(record.value)
    except UnknownValueVersion as error:
        assert record.value is not None, "the version is in the value"
        row["value_version"] = _version(record.value)
        row["error"] = str(error)
    except MalformedFrame as error:
        row["error"] = f"malformed: {error}"
    else:
        row["value"] = _with_embedded(value, jsonable(value, readable_ids=True))
        row["value_format"] = "fields"
        row["value_version"] = _version(record.value)


def _with_embedded(value: Message, fields: Row) -> Row:
    """Replace the opaque bytes of members in the fields of a value by what they decode to.

    The number of a transaction's state becomes its name.
    """
    if isinstance(value, TransactionLogValue):
        with suppress(ValueError):
            state = TransactionState(value.transaction_status)
            fields["transaction_status"] = state.kafka_name
        return fields
    embedded = _EMBEDDED.get(fields.get("protocol_type") or "")
    if embedded is not None:
        decode_metadata, decode_assignment = embedded
        for member, shown in zip(value.members, fields["members"], strict=True):  # type: ignore[attr-defined]
            shown["subscription"] = _decoded_or_hex(member.subscription, decode_metadata)
            shown["assignment"] = _decoded_or_hex(member.assignment, decode_assignment)
    classic = fields.get("classic_member_metadata")
    if classic:
        protocols = value.classic_member_metadata.supported_protocols  # type: ignore[attr-defined]
        for protocol, shown in zip(protocols, classic["supported_protocols"], strict=True):
            shown["metadata"] = _decoded_or_hex(
                protocol.metadata, consumer_protocol.decode_subscription
            )
    return fields


def _decoded_or_hex(data: bytes, decode: Callable[[bytes], Message]) -> Any:
    if not data:
        return ""
    try:
        return jsonable(decode(data), readable_ids=True)
    except MalformedFrame:
        return data.hex()


def _decode_text(row: Row, record: Record) -> None:
    """Decode the key and the value of an ordinary topic's record if they are text."""
    for name, data in (("key", record.key), ("value", record.value)):
        if data is not None and (text := as_text(data)) is not None:
            row[name] = text
            row[f"{name}_format"] = "text"
