"""What is in a record: its key and value decoded into a row of a command or of the console.

Records of the topics that brokers write are decoded into fields, all types that Kafka writes, and
so is the consumer protocol inside them; those of other topics are text if they are. What can't be
decoded stays hexadecimal, and the row contains the reason.

A row has these keys before: key and value in hexadecimal, or None; key_format and value_format,
"hex" or None; and record_type, record_name, group, value_version and error, all None.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from coterie.client.message_json import jsonable
from coterie.coordinator.transactions.states import TransactionState
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages import connect_protocol, consumer_protocol
from coterie.protocol.messages.journal_records import UnknownFact, decode_fact
from coterie.protocol.messages.log_records import GROUP_RECORDS, group_of
from coterie.protocol.messages.record_types import RecordTypes, UnknownKey, UnknownValueVersion
from coterie.protocol.messages.share_state_records import SHARE_STATE_RECORDS
from coterie.protocol.messages.transaction_records import TRANSACTION_RECORDS, TransactionLogValue
from coterie.protocol.primitives import PREFIX_BYTES
from coterie.protocol.records import BatchHeader, Compression, Record, read_marker
from coterie.protocol.topic_names import (
    JOURNAL_TOPIC,
    OFFSETS_TOPIC,
    SHARE_GROUPS_TOPIC,
    TRANSACTIONS_TOPIC,
)
from coterie.protocol.wire import Message

Row = dict[str, Any]

# What the records of the topics that brokers write are.
RECORD_TYPES = {
    OFFSETS_TOPIC: GROUP_RECORDS,
    TRANSACTIONS_TOPIC: TRANSACTION_RECORDS,
    SHARE_GROUPS_TOPIC: SHARE_STATE_RECORDS,
}

# By protocol type: what decodes the metadata and the assignment of a member.
_EMBEDDED: dict[str, tuple[Callable[[bytes], Message], Callable[[bytes], Message]]] = {
    "consumer": (consumer_protocol.decode_subscription, consumer_protocol.decode_assignment),
    connect_protocol.PROTOCOL_TYPE: (
        connect_protocol.decode_metadata,
        connect_protocol.decode_assignment,
    ),
}


def as_text(data: bytes) -> str | None:
    """Return bytes as text, or None if they are not UTF-8 or contain control characters."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if is_plain(text) else None


def is_plain(text: str) -> bool:
    """Return whether a text has no control characters."""
    return not any(c < " " and c not in "\t\n\r" for c in text)


def is_internal(topic: str) -> bool:
    """Return whether the records of a topic are decoded into fields."""
    return topic in RECORD_TYPES or topic == JOURNAL_TOPIC


def compression_name(header: BatchHeader) -> str:
    """Return the codec of a batch as Kafka calls it."""
    codec = header.compression
    return Compression(codec).name.lower() if codec <= Compression.ZSTD else f"unknown ({codec})"


def _version(data: bytes) -> int:
    return int.from_bytes(data[:PREFIX_BYTES], "big", signed=True)


def decode_record(row: Row, record: Record, topic: str) -> None:
    """Decode a record of a topic, which is not a control record, into its row."""
    types = RECORD_TYPES.get(topic)
    if types is not None:
        decode_coordinator_record(row, record, types)
    elif topic == JOURNAL_TOPIC:
        _decode_fact(row, record)
    else:
        decode_text(row, record)


def decode_marker(row: Row, record: Record) -> None:
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


def decode_coordinator_record(row: Row, record: Record, types: RecordTypes) -> None:
    """Decode a record of a topic of `RECORD_TYPES` into its row."""
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


def _decode_fact(row: Row, record: Record) -> None:
    """Decode a record of the journal into its row."""
    try:
        group_id, fact = decode_fact(record.key, record.value)
    except MalformedFrame as error:
        row["error"] = f"malformed: {error}"
        return
    assert record.key is not None, "decode_fact has decoded the key"
    assert record.value is not None, "decode_fact has decoded the value"
    row["record_type"] = _version(record.key)
    row["value_version"] = _version(record.value)
    row["group"] = group_id
    row["key"], row["key_format"] = {"group": group_id}, "fields"
    if not isinstance(fact, UnknownFact):
        row["record_name"] = type(fact).__name__
        row["value"], row["value_format"] = jsonable(fact, readable_ids=True), "fields"


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


def decode_text(row: Row, record: Record) -> None:
    """Decode the key and the value of an ordinary topic's record if they are text."""
    for name, data in (("key", record.key), ("value", record.value)):
        if data is not None and (text := as_text(data)) is not None:
            row[name] = text
            row[f"{name}_format"] = "text"
