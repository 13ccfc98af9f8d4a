"""The views by name. Each decoder takes a piece of a log and returns Arrow rows and damage."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from coterie.pipeline.codec import columns
from coterie.pipeline.codec import damage as reasons
from coterie.pipeline.codec.commits import KEY_TYPES as COMMIT_KEY_TYPES
from coterie.pipeline.codec.commits import decode_commits
from coterie.pipeline.codec.damage import Damage
from coterie.pipeline.codec.journal import decode_journal
from coterie.pipeline.codec.numbers import Bools
from coterie.pipeline.codec.piece import (
    NO_KEY_TYPE,
    DecodedView,
    Piece,
    Source,
    damaged_record,
    decode_each,
    record_damage,
)
from coterie.pipeline.codec.records import is_control
from coterie.pipeline.records.epochs import KINDS, epoch_fields
from coterie.pipeline.records.groups import KEY_TYPE as GROUP_KEY_TYPE
from coterie.pipeline.records.groups import group_fields
from coterie.pipeline.records.shares import share_state_fields
from coterie.pipeline.schemas import (
    BATCHES,
    CONSUMER_EPOCHS,
    GROUPS,
    MARKERS,
    QUARANTINE,
    RAW,
    SHARE_STATES,
)
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.log_records import GROUP_RECORDS
from coterie.protocol.messages.share_state_records import SHARE_STATE_RECORDS
from coterie.protocol.record_batch_layout import (
    COMPRESSION_MASK,
    CONTROL,
    HAS_DELETE_HORIZON,
    TRANSACTIONAL,
)
from coterie.protocol.records import Record, read_marker
from coterie.protocol.topic_names import JOURNAL_TOPIC, OFFSETS_TOPIC, SHARE_GROUPS_TOPIC

# The record types that some release of Kafka writes [group-log/record-types].
_KNOWN_KEY_TYPES = list(GROUP_RECORDS.by_number)
_SHARE_KEY_TYPES = list(SHARE_STATE_RECORDS.by_number)
# Nearly all records have this type, so only the others are looked up.
_COMMIT_KEY_TYPE = COMMIT_KEY_TYPES[-1]


def decode_groups(piece: Piece) -> DecodedView:
    """Return the group metadata of a piece.

    Only the end of a rebalance is logged [group-log/logged-changes], so these records are rare
    beside commits, and `protocol` decodes them one by one.
    """
    return decode_each(piece, piece.key_types == GROUP_KEY_TYPE, group_fields, GROUPS)


def decode_epochs(piece: Piece) -> DecodedView:
    """Return the records of groups with epochs in a piece: KIP-848 groups and share groups."""
    return decode_each(piece, np.isin(piece.key_types, list(KINDS)), epoch_fields, CONSUMER_EPOCHS)


def decode_share_states(piece: Piece) -> DecodedView:
    """Return the share partitions' states in a piece of `__share_group_state`."""
    chosen = np.isin(piece.key_types, _SHARE_KEY_TYPES)
    decoded = decode_each(piece, chosen, share_state_fields, SHARE_STATES)
    return DecodedView(decoded.rows, decoded.damages + _unknown_types(piece, ~chosen))


def decode_raw(piece: Piece) -> DecodedView:
    """Return every record with its key and value as bytes, transaction markers included."""
    records, batches = piece.records, piece.batches
    batch = records.batch
    epoch, producer_id = batches.leader_epoch[batch], batches.producer_id[batch]
    rows = pa.RecordBatch.from_arrays(
        [
            piece.log_partitions(len(records)),
            columns.numbers(records.offset, pa.int64()),
            columns.numbers(batches.base_offset[batch], pa.int64()),
            columns.timestamps(records.timestamp_ms),
            columns.numbers(epoch, pa.int32(), epoch < 0),
            columns.numbers(producer_id, pa.int64(), producer_id < 0),
            columns.numbers(batches.attributes[batch], pa.int16()),
            columns.numbers(piece.key_types, pa.int16(), piece.key_types == NO_KEY_TYPE),
            columns.texts(piece.buffer, records.key_start, records.key_size, pa.binary()),
            columns.texts(piece.buffer, records.value_start, records.value_size, pa.binary()),
            pa.array(np.full(len(records), piece.source.segment_base, np.int64)),
        ],
        schema=RAW,
    )
    return DecodedView(rows, [])


def decode_batches(piece: Piece) -> DecodedView:
    """Return the headers of the batches."""
    batches = piece.batches
    attributes = batches.attributes
    producer_id, epoch = batches.producer_id, batches.producer_epoch
    sequence, leader_epoch = batches.base_sequence, batches.leader_epoch
    count = batches.record_count
    rows = pa.RecordBatch.from_arrays(
        [
            piece.log_partitions(len(batches)),
            columns.numbers(batches.base_offset, pa.int64()),
            columns.numbers(batches.last_offset, pa.int64()),
            pa.array(np.full(len(batches), piece.source.segment_base, np.int64)),
            columns.numbers(batches.position + piece.file_position, pa.int64()),
            columns.numbers(batches.length_bytes, pa.int32()),
            columns.numbers(leader_epoch, pa.int32(), leader_epoch < 0),
            columns.numbers(batches.magic, pa.int8()),
            columns.numbers(attributes & COMPRESSION_MASK, pa.int8()),
            columns.numbers(attributes, pa.int16()),
            columns.flags(attributes & TRANSACTIONAL != 0),
            columns.flags(attributes & CONTROL != 0),
            columns.flags(attributes & HAS_DELETE_HORIZON != 0),
            columns.timestamps(batches.base_timestamp_ms),
            columns.timestamps(batches.max_timestamp_ms),
            columns.numbers(producer_id, pa.int64(), producer_id < 0),
            columns.numbers(epoch, pa.int16(), epoch < 0),
            columns.numbers(sequence, pa.int32(), sequence < 0),
            # A compressed entry of magic 0 or 1 does not say how many messages it holds.
            columns.numbers(count, pa.int32(), count < 0),
        ],
        schema=BATCHES,
    )
    return DecodedView(rows, [])


def decode_markers(piece: Piece) -> DecodedView:
    """Return the markers that end transactions."""
    rows: list[dict[str, Any]] = []
    damages = []
    records, batches = piece.records, piece.batches
    control = is_control(batches)[records.batch]
    for index in np.flatnonzero(control).tolist():
        key, value = piece.key_and_value(records, index)
        try:
            marker = read_marker(Record(int(records.offset[index]), 0, key, value))
        except MalformedFrame as error:
            damages.append(damaged_record(piece, records, index, error))
            continue
        if marker is not None:
            batch = records.batch[index]
            rows.append(
                piece.place(records, index)
                | {
                    "producer_id": int(batches.producer_id[batch]),
                    "producer_epoch": int(batches.producer_epoch[batch]),
                    "is_commit": marker.commit,
                    "coordinator_epoch": marker.coordinator_epoch,
                }
            )
    return DecodedView(pa.RecordBatch.from_pylist(rows, MARKERS), damages)


def decode_damage(piece: Piece) -> DecodedView:
    """Return no rows, but everything that no view of the group log can decode."""
    damages = []
    for decode in (decode_commits, decode_groups, decode_epochs, decode_markers):
        damages += decode(piece).damages
    strange = piece.key_types != _COMMIT_KEY_TYPE
    strange[strange] = ~np.isin(piece.key_types[strange], _KNOWN_KEY_TYPES)
    damages += _unknown_types(piece, strange)
    return DecodedView(pa.RecordBatch.from_pylist([], QUARANTINE), damages)


def _unknown_types(piece: Piece, strange: Bools) -> list[Damage]:
    """Return records that no view decodes as damage; markers of transactions have no type."""
    damages = []
    if piece.batches:
        strange = strange & ~is_control(piece.batches)[piece.records.batch]
    for index in np.flatnonzero(strange).tolist():
        kind = int(piece.key_types[index])
        detail = "no record type" if kind == NO_KEY_TYPE else f"record type {kind}"
        damages.append(record_damage(piece, piece.records, index, reasons.UNKNOWN_TYPE, detail))
    return damages


def decode_log_records(piece: Piece) -> DecodedView:
    """Return every record of the group log as bytes, and all damage."""
    return DecodedView(decode_raw(piece).rows, decode_damage(piece).damages)


def decode_journal_records(piece: Piece) -> DecodedView:
    """Return every record of the journal as bytes, and all damage."""
    return DecodedView(decode_raw(piece).rows, decode_journal(piece).damages)


def decode_share_state_records(piece: Piece) -> DecodedView:
    """Return every record of `__share_group_state` as bytes, and all damage."""
    return DecodedView(decode_raw(piece).rows, decode_share_states(piece).damages)


DECODERS: dict[str, Callable[[Piece], DecodedView]] = {
    "raw": decode_raw,
    "commits": decode_commits,
    "groups": decode_groups,
    "consumer_epochs": decode_epochs,
    "share_states": decode_share_states,
    "journal": decode_journal,
    "batches": decode_batches,
    "markers": decode_markers,
    "quarantine": decode_damage,
    "log_records": decode_log_records,
    "journal_records": decode_journal_records,
    "share_state_records": decode_share_state_records,
}
# The view that finds all damage of a topic. The values of other topics are opaque.
CHECKED_BY = {
    OFFSETS_TOPIC: "quarantine",
    JOURNAL_TOPIC: "journal",
    SHARE_GROUPS_TOPIC: "share_states",
}
# Views that need only the headers, so no block is decompressed for them.
HEADERS_ONLY = frozenset(("batches",))


def quarantined(source: Source, damages: list[Damage]) -> pa.RecordBatch:
    """Return damage, with positions in the file, as rows of `quarantine`."""
    rows = [
        {
            "log_partition": source.log_partition,
            "file": source.file,
            "position": found.position,
            "length_bytes": found.length_bytes,
            "log_offset": found.log_offset,
            "reason": found.reason,
            "detail": found.detail,
            "bytes": found.data,
        }
        for found in damages
    ]
    return pa.RecordBatch.from_pylist(rows, QUARANTINE)
