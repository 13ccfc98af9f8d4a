"""JoinGroup of an empty group of another type: a classic group takes its place and its offsets."""

from collections.abc import Sequence

from coterie.coordinator.groups.classic.join import join
from coterie.coordinator.groups.classic.responses import join_error
from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.kernel.append import Record
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse


def join_empty(
    partition: PartitionState,
    group: GroupLike,
    tombstones: Sequence[Record],
    now_ms: int,
    request: JoinGroupRequest,
    context: RequestContext,
) -> Effects[JoinGroupResponse]:
    """Put a classic group in the place of one without members, with its offsets.

    A member id that the group does not know leaves it as it is. Kafka forgets the group then
    without a record [consumer-groups/join-of-an-empty-group].

    Args:
        partition: the partition of the group.
        group: the group.
        tombstones: of its records.
        now_ms: the time.
        request: the JoinGroup, which has passed the checks of the service.
        context: the client, and the reply address of a delayed join.
    """
    if request.member_id:
        return Effects(join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
    effects: Effects[JoinGroupResponse] = Effects()
    partition.leave_out(group, effects)
    joined = join(partition, now_ms, request, context)
    joined.absorb_all_but_replies(effects)
    assert joined.operation is not None, "a group that a join creates is logged"
    joined.operation.records[:0] = tombstones
    return joined
