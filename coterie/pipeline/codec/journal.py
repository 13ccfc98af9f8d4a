"""The view `journal`: the coordinator's facts, one row each, decoded by `protocol`.

Columns have the names of the facts' fields. Times (`at_ms`, `began_ms`, `last_heard_ms`) become
timestamps named `_ts`; durations stay milliseconds, and an unknown time of -1 becomes null
[journal/format].
"""

from typing import Any

import pyarrow as pa

from coterie.pipeline.codec import damage as reasons
from coterie.pipeline.codec.piece import DecodedView, Piece, damaged_record, record_damage
from coterie.pipeline.records import timestamp_us
from coterie.pipeline.records.groups import member_fields
from coterie.pipeline.schemas import JOURNAL
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.journal_records import FACT_NAMES as NAMES
from coterie.protocol.messages.journal_records import (
    UNKNOWN_MS,
    Fact,
    GenerationCompleted,
    GenerationMember,
    UnknownFact,
    decode_fact,
)
from coterie.protocol.messages.offset_facts import OffsetsExpired
from coterie.protocol.messages.partition_facts import PartitionLoaded, PartitionUnloaded
from coterie.protocol.messages.share_facts import DeliveriesFailed

_TIMES = {"at_ts": "at_ms", "began_ts": "began_ms", "last_heard_ts": "last_heard_ms"}
# Fields in which -1 stands for nothing: a time that is not known, and the broker if it is alone.
_OPTIONAL = frozenset(
    ("converged_ms", "initial_delay_ms", "joined_after_ms", "node_id", "state_ms", "wait_ms")
)
# Columns that are not fields of the same name.
_COMPUTED = frozenset(
    (
        *_TIMES, "log_partition", "log_offset", "record_ts", "record_type", "event", "group_id",
        "members", "expired", "offsets_partition", "topic", "partition", "deliveries",
    )
)  # fmt: skip
_FIELDS = tuple(field.name for field in JOURNAL if field.name not in _COMPUTED)


def decode_journal(piece: Piece) -> DecodedView:
    """Return the facts of a piece of a journal."""
    rows, damages = [], []
    for index in range(len(piece.records)):
        key, value = piece.key_and_value(piece.records, index)
        try:
            group_id, fact = decode_fact(key, value)
        except MalformedFrame as error:
            damages.append(damaged_record(piece, piece.records, index, error))
            continue
        if isinstance(fact, UnknownFact):
            detail = f"fact of type {fact.record_type}, version {fact.version}"
            damages.append(record_damage(piece, piece.records, index, reasons.UNKNOWN_TYPE, detail))
            continue
        row = piece.place(piece.records, index) | fact_fields(group_id, fact)
        rows.append(row | {"record_type": int(piece.key_types[index])})
    return DecodedView(pa.RecordBatch.from_pylist(rows, JOURNAL), damages)


def fact_fields(group_id: str, fact: Fact) -> dict[str, Any]:
    """Return the columns that come from a fact."""
    row: dict[str, Any] = {name: getattr(fact, name, None) for name in _FIELDS}
    for name in _OPTIONAL & row.keys():
        if row[name] == UNKNOWN_MS:
            row[name] = None
    for column, name in _TIMES.items():
        at_ms = getattr(fact, name, None)
        row[column] = None if at_ms is None else timestamp_us(at_ms)
    row["event"] = NAMES[type(fact)]
    row["group_id"] = group_id or None
    if isinstance(fact, GenerationCompleted):
        row["members"] = [_member(member, fact.protocol_type) for member in fact.members]
    elif isinstance(fact, OffsetsExpired):
        row["expired"] = [
            {
                "topic": topic.topic,
                "partition": offset.partition,
                "committed_offset": offset.committed_offset,
            }
            for topic in fact.topics
            for offset in topic.partitions
        ]
    elif isinstance(fact, PartitionLoaded | PartitionUnloaded):
        row["offsets_partition"] = fact.partition
    elif isinstance(fact, DeliveriesFailed):
        row["topic"], row["partition"] = fact.topic, fact.partition
        row["deliveries"] = [
            {name: getattr(each, name) for name in each.fields_} for each in fact.deliveries
        ]
    return row


def _member(member: GenerationMember, protocol_type: str) -> dict[str, Any]:
    return member_fields(member, protocol_type) | {
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "joined_after_ms": (
            None if member.joined_after_ms == UNKNOWN_MS else member.joined_after_ms
        ),
    }
