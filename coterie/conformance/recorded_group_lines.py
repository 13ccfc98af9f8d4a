"""Lines about a group that its records make, of any type: `state`, `timer`."""

from typing import Any

from coterie.conversation.syntax import format_list, format_time, quote
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.timers import TimerKind as ConsumerTimer
from coterie.coordinator.groups.recorded.group import RecordedGroup
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.groups.share.timers import TimerKind as ShareTimer
from coterie.coordinator.groups.streams.group import StreamsGroup
from coterie.coordinator.groups.streams.timers import TimerKind as StreamsTimer
from coterie.coordinator.kernel.purgatory import Purgatory

_SESSIONS = (ConsumerTimer.SESSION, ShareTimer.SESSION, StreamsTimer.SESSION)
# The timers of members, by the type of their group.
_MEMBER_TIMERS: dict[type[RecordedGroup[Any]], tuple[str, ...]] = {
    ConsumerGroup: (
        ConsumerTimer.SESSION,
        ConsumerTimer.REVOCATION,
        ConsumerTimer.REJOIN,
        ConsumerTimer.RESYNC,
    ),
    ShareGroup: (ShareTimer.SESSION,),
    StreamsGroup: (StreamsTimer.SESSION, StreamsTimer.REVOCATION),
}


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
    lines = []
    delay_ms = purgatory.deadline_ms((StreamsTimer.DELAY, group.group_id, ""))
    if delay_ms is not None:
        lines.append(f"timer {StreamsTimer.DELAY} {format_time(delay_ms - start_ms)}")
    for member_id, member in group.members.items():
        for kind in _MEMBER_TIMERS[type(group)]:
            deadline_ms = purgatory.deadline_ms((kind, group.group_id, member_id))
            if deadline_ms is None:
                continue
            if kind in _SESSIONS:
                deadline_ms = member.deadline_ms
            lines.append(f"timer {kind} {member_id} {format_time(deadline_ms - start_ms)}")
    return lines
