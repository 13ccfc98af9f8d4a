"""A static member that restarts with a blank member id (KIP-345, KIP-814).

It receives a new member id in its place [static-membership/replacement]. If the group is Stable and
would keep its protocol, that costs no rebalance: the group is logged again with the new id, and the
member is answered when the record is durable [static-membership/stable-replacement].
"""

from typing import NamedTuple

from coterie.coordinator.batch_size import generation_fits_batch
from coterie.coordinator.effects import Effects, Reply, RequestContext, TimerKind
from coterie.coordinator.group import Group, GroupState
from coterie.coordinator.group_record import group_record
from coterie.coordinator.members import (
    member_fenced,
    protocols_of,
    rebalance_timeout_of,
    recorded_reason,
    start_session,
)
from coterie.coordinator.partition_state import PartitionState
from coterie.coordinator.rebalance import (
    Cause,
    Instigator,
    join_response,
    join_roster,
    prepare_or_complete,
)
from coterie.coordinator.responses import join_error, sync_error
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.join_group import JoinGroupRequest
from coterie.protocol.messages.journal_records import StaticMemberReplaced

# From this version on a leader can be asked to skip the assignment (KIP-814).
_SKIP_ASSIGNMENT_SINCE = 9


class ReplacementWrite(NamedTuple):
    """The write of a replaced member's new id: once durable its delayed join is answered."""

    group: Group
    generation_id: int
    member_id: str
    old_member_id: str
    previous_leader: str
    can_skip_assignment: bool


def replace_static_member(
    partition: PartitionState,
    group: Group,
    now_ms: int,
    request: JoinGroupRequest,
    context: RequestContext,
    member_id: str,
    effects: Effects,
) -> None:
    """Give the member of an instance a new id.

    Args:
        partition: the partition of the group.
        group: a group that has the instance of the request.
        now_ms: the time.
        request: the JoinGroup, with a blank member id.
        context: the client.
        member_id: the new id.
        effects: receives what follows.
    """
    instance = request.group_instance_id
    assert instance is not None, "a dynamic member has no place to return to"
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        # An Empty group has no instances, so this is an internal error, as in Kafka
        # [static-membership/replacement-without-members].
        effects.response = join_error(ErrorCode.UNKNOWN_SERVER_ERROR, "")
        return
    write = _take_place(group, instance, now_ms, context, member_id, effects)
    member = group.members[member_id]
    group.update(
        member, protocols_of(request), rebalance_timeout_of(request), request.session_timeout_ms
    )
    group.delay_join(member, context.to, now_ms)
    # Only the name of the protocol counts [static-membership/changed-subscription].
    record = None
    if group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name:
        record = group_record(group)
        if not generation_fits_batch(record):
            # The leader of another generation may assign in less bytes.
            record = None
    replaced = StaticMemberReplaced(
        at_ms=now_ms,
        group_instance_id=instance,
        member_id=member_id,
        old_member_id=write.old_member_id,
        client_id=context.client_id,
        client_host=context.client_host,
        generation_id=group.generation_id,
        state=group.state.value,
        rebalances=record is None,
        reason=recorded_reason(request.reason),
    )
    effects.note(group.group_id, replaced)
    if record is not None:
        effects.records.append(record)
        effects.completion = write
        return
    instigator = Instigator(member, request.reason)
    prepare_or_complete(partition, group, now_ms, effects, Cause.STATIC_REPLACEMENT, instigator)


def _take_place(
    group: Group,
    instance: str,
    now_ms: int,
    context: RequestContext,
    member_id: str,
    effects: Effects,
) -> ReplacementWrite:
    """Fence the process that has the instance, give its place to the new id, start the session."""
    old_id = group.static_members[instance]
    member = group.members[old_id]
    previous_leader = group.leader or ""
    fenced_requests = _fence_delayed_requests(group, old_id, effects)
    if member.armed_ms:
        effects.cancel(TimerKind.SESSION, group.group_id, old_id)
        member.armed_ms = 0
    group.replace_static(instance, old_id, member_id)
    write = ReplacementWrite(
        group=group,
        generation_id=group.generation_id,
        member_id=member_id,
        old_member_id=old_id,
        previous_leader=previous_leader,
        can_skip_assignment=context.version >= _SKIP_ASSIGNMENT_SINCE,
    )
    start_session(group, member, member.session_timeout_ms, now_ms, effects)
    for api in fenced_requests:
        effects.note(group.group_id, member_fenced(group, old_id, instance, api, now_ms))
    return write


def _fence_delayed_requests(group: Group, member_id: str, effects: Effects) -> list[str]:
    """Answer the delayed requests of the replaced process; return their APIs.

    [static-membership/fenced-requests]
    """
    fenced = []
    member = group.members[member_id]
    join_to = group.take_delayed_join(member)
    if join_to is not None:
        effects.replies.append(Reply(join_to, join_error(ErrorCode.FENCED_INSTANCE_ID, member_id)))
        fenced.append("JoinGroup")
    sync_to = member.take_delayed_sync()
    if sync_to is not None:
        effects.replies.append(Reply(sync_to, sync_error(ErrorCode.FENCED_INSTANCE_ID)))
        fenced.append("SyncGroup")
    return fenced


def replacement_stored(
    group: Group, write: ReplacementWrite, now_ms: int, effects: Effects
) -> None:
    """Answer the delayed join of a replaced member with the present generation.

    From version 9 on a leader leads again and is asked to skip the assignment. Before, the response
    names the previous leader, so that a restarted leader acts as a follower
    [static-membership/replaced-leader] [static-membership/replaced-leader-before-v9].

    If the group has started a rebalance since, the join is a part of it and stays delayed
    [static-membership/replacement-overtaken].
    """
    member = group.members.get(write.member_id)
    if member is None or group.generation_id != write.generation_id:
        return
    if group.state is not GroupState.STABLE:
        return
    skips = write.can_skip_assignment and group.leader == write.member_id
    response = join_response(group, member, join_roster(group) if skips else [])
    response.skip_assignment = skips
    if not write.can_skip_assignment:
        response.leader = write.previous_leader
    to = group.take_delayed_join(member)
    assert to is not None, f"{write.member_id} was answered before its record was durable"
    effects.replies.append(Reply(to, response))
    start_session(group, member, member.session_timeout_ms, now_ms, effects)
