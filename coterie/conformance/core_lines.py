"""Lines that only the core can show: transitions with their time, `log+` records, `timer` lines.

The driver for a running broker leaves them out.
"""

import re
from typing import Any

from coterie.conformance.consumer_group_lines import (
    CONSUMER_KINDS,
    consumer_value_text,
    keyed_text,
)
from coterie.conformance.harness import Pair, ProducerPair
from coterie.conformance.share_group_lines import SHARE_KINDS, share_value_text
from coterie.conformance.streams_group_lines import STREAMS_KINDS, streams_value_text
from coterie.conversation.names import Names
from coterie.conversation.payloads import assignment_text
from coterie.conversation.syntax import format_list, format_time, quote
from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.classic.timers import TimerKind
from coterie.coordinator.kernel.event import Event
from coterie.coordinator.kernel.purgatory import Purgatory
from coterie.protocol.messages.log_records import (
    NO_EXPIRY,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
)
from coterie.protocol.messages.record_types import UnknownKey
from coterie.protocol.primitives import read_prefix

_CORE_LINE = re.compile(r"\d+(:\d\d)+\.\d{3} |log\+ |log +\d|timer |state ")

# The records of groups of each type with heartbeats: their words, and what writes their values.
_WITH_HEARTBEATS = (
    (CONSUMER_KINDS, consumer_value_text),
    (SHARE_KINDS, share_value_text),
    (STREAMS_KINDS, streams_value_text),
)


def is_core_line(line: str) -> bool:
    """Return whether no client can observe what the line shows."""
    return _CORE_LINE.match(line) is not None


def pair_text(pair: Pair, start_ms: int, names: Names) -> str:
    """Return the text of a log record, with its producer if it belongs to a transaction."""
    if type(pair) is not ProducerPair:
        return record_text(*pair, start_ms, names)
    producer = f"producer {pair.form.producer_id} epoch {pair.form.producer_epoch}"
    marker = pair.marker
    if marker is None:
        return f"{record_text(*pair, start_ms, names)} of {producer}"
    return f"{'commit' if marker.commit else 'abort'} of {producer}"


def record_text(key_bytes: bytes, value_bytes: bytes | None, start_ms: int, names: Names) -> str:
    """Return the text of one log record.

    Args:
        key_bytes: the key.
        value_bytes: the value; None for a tombstone.
        start_ms: the start of virtual time.
        names: the names of the transcript.
    """
    key = decode_key(key_bytes)
    if isinstance(key, OffsetCommitKey):
        text = f"offset {quote(key.group)} {key.topic}-{key.partition}"
        offset = decode_value(key, value_bytes)
        return f"{text} {'tombstone' if offset is None else _offset_text(offset, start_ms)}"
    if isinstance(key, UnknownKey):
        return f"record of type {read_prefix(key_bytes, 'the type of a record')}"
    for kinds, value_text in _WITH_HEARTBEATS:
        if type(key) in kinds:
            value = decode_value(key, value_bytes)
            written = None if value is None else value_text(value, start_ms, names)
            return keyed_text(kinds[type(key)], key, written)
    assert isinstance(key, GroupMetadataKey), key
    group = decode_value(key, value_bytes)
    text = f"group {quote(key.group)}"
    return f"{text} {'tombstone' if group is None else _group_text(group)}"


def _offset_text(value: OffsetCommitValue, start_ms: int) -> str:
    text = str(value.offset)
    if value.leader_epoch != -1:
        text += f" epoch {value.leader_epoch}"
    if value.metadata:
        text += f' "{value.metadata}"' if len(value.metadata) <= 40 else " with long metadata"
    if value.expire_timestamp != NO_EXPIRY:
        text += f" expires {format_time(value.expire_timestamp - start_ms)}"
    return text


def _group_text(value: GroupMetadataValue) -> str:
    parts = [f"generation={value.generation}"]
    if value.protocol_type:
        protocol = "null" if value.protocol is None else value.protocol
        parts.append(f"protocol={value.protocol_type}/{protocol}")
    if value.leader is not None:
        parts.append(f"leader={value.leader}")
    members = [f"{each.member_id}: {assignment_text(each.assignment)}" for each in value.members]
    parts.append(f"members={format_list(members)}")
    return " ".join(parts)


def event_text(event: Event, start_ms: int) -> str | None:
    """Return the text of an event; None if the responses show it already."""
    text = _EVENTS[event.name](event.fields)
    if text is None:
        return None
    return f"{format_time(event.at_ms - start_ms)} {quote(event.group_id)} {text}"


def _began(fields: dict[str, Any]) -> str:
    by = f" by={fields['member_id']}" if fields["member_id"] else ""
    reason = f' reason="{fields["reason"]}"' if fields["reason"] else ""
    return f'{fields["previous_state"]} -> PreparingRebalance cause="{fields["cause"]}"{by}{reason}'


def _removed(fields: dict[str, Any]) -> str:
    return f"removed {fields['member_id']}: {fields['reason'] or fields['cause']}"


_EVENTS: dict[str, Any] = {
    "member_joined": lambda _: None,
    "member_removed": _removed,
    "member_fenced": lambda _: None,
    "pending_member_expired": lambda fields: f"pending {fields['member_id']} expired",
    "static_member_replaced": lambda fields: (
        f"{fields['group_instance_id']} is {fields['member_id']}, was {fields['old_member_id']}"
    ),
    "rebalance_began": _began,
    "join_phase_extended": lambda fields: (
        f"join phase extended: none of {fields['member_count']} members rejoined"
    ),
    "join_completed": lambda fields: (
        f"PreparingRebalance -> CompletingRebalance generation={fields['generation_id']} "
        f"leader={fields['leader']}"
    ),
    "generation_completed": lambda fields: (
        f"CompletingRebalance -> Stable generation={fields['generation_id']}"
    ),
    "group_emptied": lambda fields: (
        f"PreparingRebalance -> Empty generation={fields['generation_id']}"
    ),
    "offsets_expired": lambda fields: f"expired {fields['offset_count']} offsets",
    "group_expired": lambda _: "expired",
    "group_deleted": lambda _: "deleted",
    "partition_loaded": lambda _: None,
    "partition_unloaded": lambda _: None,
    # Answers and records show what happens to consumer groups.
    "group_epoch_raised": lambda _: None,
    "target_computed": lambda _: None,
    "member_reconciled": lambda _: None,
    "group_converged": lambda _: None,
    "group_type_changed": lambda _: None,
    "regex_resolved": lambda _: None,
    "static_member_left": lambda _: None,
    "deliveries_failed": lambda _: None,
}


def state_text(group_id: str, group: Group | None) -> str:
    """Return one line about a group as the core holds it."""
    if group is None:
        return f"state {quote(group_id)} unknown"
    parts = [f"state {quote(group_id)} {group.state.value} generation={group.generation_id}"]
    if group.protocol_type is not None:
        parts.append(f"protocol={group.protocol_type}/{group.protocol_name or 'null'}")
    if group.leader is not None:
        parts.append(f"leader={group.leader}")
    members = [
        member.member_id if member.delayed_join is None else f"{member.member_id} joining"
        for member in group.members.values()
    ]
    parts.append(f"members={format_list(members)}")
    if group.pending_joins:
        parts.append(f"pending={format_list(sorted(group.pending_joins))}")
    if group.pending_syncs:
        parts.append(f"syncs_awaited={format_list(sorted(group.pending_syncs))}")
    return " ".join(parts)


def timer_texts(
    group_id: str, group: Group | None, purgatory: Purgatory, start_ms: int
) -> list[str]:
    """Return the armed timers of a group, each with the time at which it acts.

    A session timer shows the member's deadline, which heartbeats move. The entry in the timer wheel
    may be earlier.
    """
    if group is None:
        return []
    lines = []
    for kind in (TimerKind.JOIN, TimerKind.SYNC):
        deadline_ms = purgatory.deadline_ms((kind, group_id, ""))
        if deadline_ms is not None:
            lines.append(f"timer {kind.value} {format_time(deadline_ms - start_ms)}")
    for member_id, member in group.members.items():
        if purgatory.deadline_ms((TimerKind.SESSION, group_id, member_id)) is not None:
            lines.append(f"timer session {member_id} {format_time(member.deadline_ms - start_ms)}")
    for member_id in sorted(group.pending_joins):
        deadline_ms = purgatory.deadline_ms((TimerKind.PENDING, group_id, member_id))
        if deadline_ms is not None:
            lines.append(f"timer pending {member_id} {format_time(deadline_ms - start_ms)}")
    return lines
