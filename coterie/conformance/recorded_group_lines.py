"""Lines about a group that its records make, of any type: `state`, `timer`."""

from typing import Any

from coterie.conversation.syntax import format_list, format_time, quote
from coterie.coordinator.groups.recorded.group import RecordedGroup
from coterie.coordinator.groups.recorded.group_type import RecordedType
from coterie.coordinator.groups.served_types import SERVED_TYPES
from coterie.coordinator.groups.streams.timers import TimerKind as StreamsTimer
from coterie.coordinator.kernel.purgatory import Purgatory


def recorded_state_text(group: RecordedGroup[Any]) -> str:
    """Return one line about a group as the core holds it."""
    epochs = f"epoch={group.epoch} assignment_epoch={group.target_epoch}"
    members = format_list([f"{each} {group.members[each].epoch}" for each in group.ordered_ids()])
    return f"state {quote(group.group_id)} {group.state_name} {epochs} members={members}"


def recorded_timer_texts(
    group: RecordedGroup[Any], purgatory: Purgatory, start_ms: int
) -> list[str]:
    """Return the armed timers of a group and its members, each with the time at which it acts.

    A session timer shows the member's deadline, which heartbeats move. The entry in the timer wheel
    may be earlier.
    """
    group_type = SERVED_TYPES.of(group)
    assert isinstance(group_type, RecordedType), group_type
    lines = []
    delay_ms = purgatory.deadline_ms((StreamsTimer.DELAY, group.group_id, ""))
    if delay_ms is not None:
        lines.append(f"timer {StreamsTimer.DELAY} {format_time(delay_ms - start_ms)}")
    for member_id, member in group.members.items():
        for kind in group_type.causes:
            deadline_ms = purgatory.deadline_ms((kind, group.group_id, member_id))
            if deadline_ms is None:
                continue
            if kind == group_type.session_timer:
                deadline_ms = member.deadline_ms
            lines.append(f"timer {kind} {member_id} {format_time(deadline_ms - start_ms)}")
    return lines
