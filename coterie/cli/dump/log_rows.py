"""Batches and records as rows: the dictionaries that `coterie dump log --json` prints.

The keys are listed in documentation/reference/json_keys.tsv. Bytes are hexadecimal, topic ids as
Kafka prints them. Records of `__consumer_offsets` are decoded, all types that Kafka writes, and so
is the consumer protocol inside them; so are those of `__transaction_state`. What can't be decoded
stays hexadecimal, and the row contains the reason.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from coterie.cli.dump.log_files import PartitionFiles
from coterie.cli.dump.log_walk import Batch, Damage
from coterie.cli.output import Row
from coterie.client.record_fields import (
    compression_name,
    decode_coordinator_record,
    decode_marker,
    decode_text,
)
from coterie.protocol.messages.log_records import GROUP_RECORDS
from coterie.protocol.messages.transaction_records import TRANSACTION_RECORDS
from coterie.protocol.record_batch_layout import HAS_DELETE_HORIZON
from coterie.protocol.records import decode_records

if TYPE_CHECKING:
    from coterie.client.registry.decoding import Registry

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
        "compression": compression_name(header),
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
    partition: PartitionFiles,
    batch: Batch,
    values: str,
    groups: frozenset[bytes] | None,
    registry: "Registry | None" = None,
) -> Iterator[Row]:
    """Return the rows of the records of a batch.

    Args:
        partition: the partition of the batch.
        batch: a whole batch whose checksum is right; it may be compressed.
        values: how keys and values are decoded: `offsets`, `transactions`, `text` or `raw`.
        groups: the group ids, in UTF-8, whose records are wanted; None for all records.
        registry: that of the schemas that texts may name; None for none.

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
                decode_marker(row, record)
            elif values == "offsets":
                decode_coordinator_record(row, record, GROUP_RECORDS)
            elif values == "transactions":
                decode_coordinator_record(row, record, TRANSACTION_RECORDS)
            else:
                decode_text(row, record)
                if registry is not None:
                    registry.decode_row(row, {"key": record.key, "value": record.value})
        yield row


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
