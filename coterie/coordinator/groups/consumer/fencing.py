"""What the journal says of a heartbeat whose sender is not the member that it says it is.

Another process has the instance id, or the coordinator knows another epoch of the member
[journal/members].
"""

from typing import Any

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.recorded.lookup import note_fenced
from coterie.coordinator.kernel.effects import Effects
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

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
    holder = None if request.instance_id is None else group.static_members[request.instance_id]
    note_fenced(effects, now_ms, group, request, error, holder)
