"""The markers that end transactions: their records, their batches, and who asks for them.

A marker is the only record of a control batch [record-batch/control-batches]. The transaction
coordinator asks for the markers of a transaction with `TransactionMarkers`.
"""

import struct
from typing import NamedTuple

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.record_batch import BatchHeader, Record
from coterie.protocol.record_batch_layout import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER_BYTES,
    NO_SEQUENCE,
    TRANSACTIONAL,
)
from coterie.protocol.record_reader import decode_records
from coterie.protocol.record_writer import encode_batch

# Version and type; version and the epoch of the coordinator.
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_VERSION = 0
_ABORT, _COMMIT = 0, 1

# The record of a marker as every broker writes it: its length, attributes, both deltas and the
# length of the key as varints of one byte each, the key, the length of the value, the value, and
# the number of headers.
_RECORD = struct.Struct(">5s2hchic")
_RECORD_START, _VALUE_LENGTH, _NO_HEADERS = bytes((32, 0, 0, 0, 8)), b"\x0c", b"\0"


class Marker(NamedTuple):
    """The end of a transaction, and the epoch of the coordinator that decided it (KIP-98)."""

    commit: bool
    coordinator_epoch: int


class TransactionMarkers(NamedTuple):
    """The markers of one transaction that the transaction coordinator asks for.

    Attributes:
        log_partition: the partition of `__transaction_state` that has the transaction.
        transactional_id: the transaction's id.
        producer_id, producer_epoch: of the markers.
        coordinator_epoch: the leader epoch of that partition.
        commit: whether the transaction is committed; otherwise it is aborted.
        transaction_version: the level of the protocol of transactions [transactions/levels].
        partitions: the names and numbers of the partitions that get a marker.
    """

    log_partition: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int
    partitions: tuple[tuple[str, int], ...]


def marker_pair(marker: Marker) -> tuple[bytes, bytes]:
    """Return key and value of the record of a marker."""
    key = _KEY.pack(_VERSION, _COMMIT if marker.commit else _ABORT)
    return key, _VALUE.pack(_VERSION, marker.coordinator_epoch)


def encode_marker(
    base_offset: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    *,
    commit: bool,
    coordinator_epoch: int = 0,
    leader_epoch: int = 0,
) -> bytes:
    """Return the control batch that ends a transaction.

    Args:
        base_offset: the offset of the marker; a log gives it another one at the append.
        timestamp_ms: epoch milliseconds.
        producer_id, producer_epoch: of the producer whose transaction ends.
        commit: whether the transaction is committed; otherwise it is aborted.
        coordinator_epoch: of the transaction coordinator.
        leader_epoch: see [record-batch/header]; given by the log, too.
    """
    return encode_batch(
        [marker_pair(Marker(commit, coordinator_epoch))],
        base_offset,
        timestamp_ms,
        leader_epoch=leader_epoch,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
    )


def marker_of(buffer: bytes, header: BatchHeader, position: int) -> Marker | None:
    """Return the marker in a control batch of a buffer.

    None for control records of other kinds, and for a batch that compaction has emptied.

    Raises:
        MalformedFrame: the record is incomplete.
    """
    if (
        header.length_bytes == HEADER_BYTES + _RECORD.size
        and not header.attributes & COMPRESSION_MASK
    ):
        start, version, kind, value_length, _, coordinator_epoch, headers = _RECORD.unpack_from(
            buffer, position + HEADER_BYTES
        )
        if (start, value_length, headers) == (_RECORD_START, _VALUE_LENGTH, _NO_HEADERS) and (
            version == _VERSION and kind in (_ABORT, _COMMIT)
        ):
            # The constructor of the class takes each field as an argument, at twice the cost.
            return tuple.__new__(Marker, (kind == _COMMIT, coordinator_epoch))
    records = decode_records(buffer, header, position)
    return read_marker(records[0]) if records else None


def read_marker(record: Record) -> Marker | None:
    """Return the marker in a control batch's record; None for control records of other kinds.

    Raises:
        MalformedFrame: the record is incomplete.
    """
    if record.key is None or len(record.key) < _KEY.size:
        raise MalformedFrame(f"the control record at offset {record.offset} has no key")
    _, kind = _KEY.unpack_from(record.key)
    if kind not in (_ABORT, _COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise MalformedFrame(f"the marker at offset {record.offset} is cut off")
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return Marker(kind == _COMMIT, coordinator_epoch)
