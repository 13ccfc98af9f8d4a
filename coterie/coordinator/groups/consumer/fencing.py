"""What the journal says of a heartbeat whose sender is not the member that it says it is.

Another process has the instance id, or the coordinator knows another epoch of the member
[journal/members].
"""

from typing import Any

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.kernel.effects import Effects
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.journal_records import MemberFenced

# The errors of heartbeats that fence.
_FENCING = frozenset(
    {
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)


def note_fenced_heartbeat(
    effects: Effects[Any],
    now_ms: int,
    group: object,
    request: ConsumerGroupHeartbeatRequest,
    error: ErrorCode,
) -> None:
    """Note that a heartbeat was refused, if that fences its sender.

    Args:
        effects: receive the fact.
        now_ms: the time.
        group: the group of the request; None or another type if it was refused for that.
        request: the heartbeat.
        error: the error of the answer.
    """
    if error not in _FENCING or type(group) is not ConsumerGroup:
        return
    holder = request.member_id
    if request.instance_id is not None:
        holder = group.static_members[request.instance_id]
    assert holder in group.members, f"{holder} of {group} has an instance id and is no member"
    effects.note(
        group.group_id,
        MemberFenced(
            at_ms=now_ms,
            member_id=request.member_id,
            group_instance_id=request.instance_id,
            holder=holder,
            generation_id=group.epoch,
            request="ConsumerGroupHeartbeat",
            error_code=error,
            said_epoch=request.member_epoch,
            known_epoch=group.members[holder].epoch,
        ),
    )
