"""A static member that restarts with a blank member id (KIP-345, KIP-814).

It receives a new member id in its place [static-membership/replacement]. If the group is Stable and
would keep its protocol, that costs no rebalance: the group is logged again with the new id, and the
member is answered when the record is durable [static-membership/stable-replacement].
"""

from typing import NamedTuple

from coterie.coordinator.groups.batch_size import generation_fits_batch
from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.classic.group_record import group_record
from coterie.coordinator.groups.classic.members import (
    protocols_of,
    rebalance_timeout_of,
    recorded_reason,
    start_session,
)
from coterie.coordinator.groups.classic.rebalance import Cause, Instigator, prepare_or_complete
from coterie.coordinator.groups.classic.responses import (
    join_error,
    join_response,
    join_roster,
    sync_error,
)
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.classic.step import Step
from coterie.coordinator.groups.classic.timers import TimerKind
from coterie.coordinator.groups.fencing import note_fenced
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


def replace_static_member(step: Step, request: JoinGroupRequest, member_id: str) -> None:
    """Give the member of an instance a new id.

    Args:
        step: a step of a group that has the instance of the request.
        request: the JoinGroup, with a blank member id.
        member_id: the new id.
    """
    group, context = step.group, step.context
    instance = request.group_instance_id
    assert instance is not None, "a dynamic member has no place to return to"
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        # An Empty group has no instances, so this is an internal error, as in Kafka
        # [static-membership/replacement].
        step.effects.response = join_error(ErrorCode.UNKNOWN_SERVER_ERROR, "")
        return
    write = _take_place(step, instance, member_id)
    assert write.old_member_id not in group.members, f"two members of {group} are {instance}"
    assert group.static_members[instance] == member_id, f"{member_id} is not {instance}"
    member = group.members[member_id]
    assert member.delayed_join is None, f"the replaced process is answered first in {group}"
    assert context.to is not None, "a delayed join has an address"
    group.update(
        member, protocols_of(request), rebalance_timeout_of(request), request.session_timeout_ms
    )
    group.delay_join(member, context.to, step.now_ms)
    # Only the name of the protocol counts [static-membership/stable-replacement].
    record = None
    if group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name:
        record = group_record(group)
        if not generation_fits_batch(record):
            # The leader of another generation may assign in less bytes.
            record = None
    replaced = StaticMemberReplaced(
        at_ms=step.now_ms,
        group_instance_id=instance,
        member_id=member_id,
        old_member_id=write.old_member_id,
        client_id=context.client.client_id,
        client_host=context.client.client_host,
        generation_id=group.generation_id,
        state=group.state.value,
        rebalances=record is None,
        reason=recorded_reason(request.reason),
        client_software_name=context.client.software_name or None,
        client_software_version=context.client.software_version or None,
        principal=context.client.login,
    )
    step.note(replaced)
    assert record is None or step.effects.response is None, "a join that is logged is delayed"
    if record is not None:
        step.write(record).completion = write
        return
    prepare_or_complete(step, Cause.STATIC_REPLACEMENT, Instigator(member, request.reason))


def _take_place(step: Step, instance: str, member_id: str) -> ReplacementWrite:
    """Fence the process that has the instance, give its place to the new id, start the session."""
    group = step.group
    old_id = group.static_members[instance]
    member = group.members[old_id]
    previous_leader = group.leader or ""
    fenced_requests = _fence_delayed_requests(step, old_id)
    if member.armed_ms:
        step.cancel(TimerKind.SESSION, old_id)
        member.armed_ms = 0
    group.replace_static(instance, old_id, member_id)
    write = ReplacementWrite(
        group=group,
        generation_id=group.generation_id,
        member_id=member_id,
        old_member_id=old_id,
        previous_leader=previous_leader,
        can_skip_assignment=step.context.version >= _SKIP_ASSIGNMENT_SINCE,
    )
    start_session(step, member, member.session_timeout_ms)
    for api in fenced_requests:
        note_fenced(step, old_id, instance, api)
    return write


def _fence_delayed_requests(step: Step, member_id: str) -> list[str]:
    """Answer the delayed requests of the replaced process; return their APIs.

    [static-membership/replacement]
    """
    fenced = []
    member = step.group.members[member_id]
    join_to = step.group.take_delayed_join(member)
    if join_to is not None:
        step.reply(join_to, join_error(ErrorCode.FENCED_INSTANCE_ID, member_id))
        fenced.append("JoinGroup")
    sync_to = member.take_delayed_sync()
    if sync_to is not None:
        step.reply(sync_to, sync_error(ErrorCode.FENCED_INSTANCE_ID))
        fenced.append("SyncGroup")
    return fenced


def replacement_stored(step: Step, write: ReplacementWrite) -> None:
    """Answer the delayed join of a replaced member with the present generation.

    From version 9 on a leader leads again and is asked to skip the assignment. Before, the response
    names the previous leader, so that a restarted leader acts as a follower
    [static-membership/replaced-leader].

    If the group has started a rebalance since, the join is a part of it and stays delayed
    [static-membership/stable-replacement].
    """
    group = step.group
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
    assert write.group is group, f"{write} is of another group than {group}"
    to = group.take_delayed_join(member)
    if to is None:
        # It was answered when the record took too long.
        return
    step.reply(to, response)
    start_session(step, member, member.session_timeout_ms)


def replacement_late(step: Step, write: ReplacementWrite, error: ErrorCode) -> None:
    """Answer the delayed join of a member whose record takes too long; it keeps its place.

    [cluster/waiting-groups]
    """
    group = step.group
    assert write.group is group, f"{write} is of another group than {group}"
    member = group.members.get(write.member_id)
    if member is None or group.state is not GroupState.STABLE:
        return
    to = group.take_delayed_join(member)
    assert to is not None, f"{write.member_id} waits once"
    response = join_response(group, member, [])
    response.error_code, response.member_id = error, ""
    step.reply(to, response)
    start_session(step, member, member.session_timeout_ms)
