"""JoinGroup: admission, then by member id and state [joining/order-of-checks].

A dynamic joiner with a blank member id and version 4 or later only receives an id (KIP-394). The
join of everyone else is delayed until the join phase completes, unless a member rejoins unchanged
into a group that has completed it; such a member is answered from memory.
"""

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.classic.group_record import new_group_record
from coterie.coordinator.groups.classic.member import Member
from coterie.coordinator.groups.classic.members import (
    Removal,
    protocols_of,
    rebalance_timeout_of,
    recorded_reason,
    remove_member,
    start_session,
)
from coterie.coordinator.groups.classic.rebalance import Cause, Instigator, prepare_or_complete
from coterie.coordinator.groups.classic.responses import join_error, join_response, join_roster
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.classic.static_member import replace_static_member
from coterie.coordinator.groups.classic.step import Step
from coterie.coordinator.groups.classic.subscription_change import subscription_change
from coterie.coordinator.groups.classic.timers import TimerKind
from coterie.coordinator.groups.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from coterie.coordinator.groups.fencing import note_fenced
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from coterie.protocol.messages.journal_records import MemberJoined

# The most pending members of a group: each takes an entry and a timer for up to a session timeout
# [joining/pending-member].
MAX_PENDING_JOINS = 10_000

_REBALANCING = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)

# From this version on a first join only receives a member id [joining/member-id].
_MEMBER_ID_REQUIRED_SINCE = 4


def join(
    partition: PartitionState, now_ms: int, request: JoinGroupRequest, context: RequestContext
) -> Effects[JoinGroupResponse]:
    """Handle a JoinGroup that passed the checks of the service.

    Args:
        partition: the partition of the group.
        now_ms: the time.
        request: with a group id that is not empty and a session timeout within the bounds.
        context: the client, and the reply address of a delayed join.
    """
    effects: Effects[JoinGroupResponse] = Effects()
    group = partition.groups.get(request.group_id)
    created = group is None
    if group is None:
        if request.member_id:
            effects.response = join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            return effects
        if not partition.has_room_for_group():
            effects.response = join_error(ErrorCode.POLICY_VIOLATION, "")
            return effects
        group = Group(request.group_id, now_ms)
        partition.add_group(group)
    elif not isinstance(group, Group):
        return partition.handle(group, now_ms, request, context)
    step = Step(partition, group, now_ms, effects, context)
    if not _has_room(group, request.member_id, partition.config.group_max_size):
        _refuse_for_size(step, request.member_id)
    elif request.member_id:
        _join_known(step, request)
    else:
        _join_new(step, request)
    if created and effects.operation is None:
        # Also if the request was refused [joining/unknown-group].
        step.write(new_group_record(group))
    is_delayed = group.awaiting_joins or effects.replies
    assert effects.response is not None or is_delayed, f"a join of {group} is not answered"
    return effects


# -- admission -------------------------------------------------------------------------------------


def _has_room(group: Group, member_id: str, limit: int) -> bool:
    """Return whether the size gate is open for a member id, which may be blank [joining/size-gate].

    Instance ids do not count, as in Kafka.
    """
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        return True
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        return (
            member is not None and member.delayed_join is not None
        ) or group.awaiting_joins < limit
    return member is not None or len(group.members) < limit


def _refuse_for_size(step: Step, member_id: str) -> None:
    """Refuse a joiner and remove it from the group [joining/size-gate]."""
    group = step.group
    if member_id in group.pending_joins:
        assert member_id not in group.members, f"{member_id} is pending and a member of {group}"
        group.pending_joins.discard(member_id)
        step.cancel(TimerKind.PENDING, member_id)
    member = group.members.get(member_id)
    if member is not None:
        remove_member(step, member, Removal.GROUP_FULL)
    step.effects.response = join_error(ErrorCode.GROUP_MAX_SIZE_REACHED, "")


def _admission_error(group: Group, request: JoinGroupRequest) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    names = [protocol.name for protocol in request.protocols]
    if not group.accepts(request.protocol_type, names):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


# -- by member id ----------------------------------------------------------------------------------


def _join_new(step: Step, request: JoinGroupRequest) -> None:
    """Handle a blank member id."""
    group, effects = step.group, step.effects
    error = _admission_error(group, request)
    if error:
        effects.response = join_error(error, "")
        return
    instance = request.group_instance_id
    if instance is not None:
        member_id = f"{instance}-{step.partition.new_uuid()}"
        if instance in group.static_members:
            replace_static_member(step, request, member_id)
        else:
            _add(step, request, member_id)
        return
    member_id = f"{step.context.client.client_id}-{step.partition.new_uuid()}"
    if step.context.version < _MEMBER_ID_REQUIRED_SINCE:
        _add(step, request, member_id)
        return
    if len(group.pending_joins) >= MAX_PENDING_JOINS:
        effects.response = join_error(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        return
    assert member_id not in group.members, f"{member_id} is given twice in {group}"
    assert member_id not in group.pending_joins, f"{member_id} is given twice in {group}"
    group.pending_joins.add(member_id)
    step.arm(TimerKind.PENDING, member_id, step.now_ms + request.session_timeout_ms)
    effects.response = join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id)


def _join_known(step: Step, request: JoinGroupRequest) -> None:
    """Handle a given member id: of a pending member, a member, or neither."""
    group, effects = step.group, step.effects
    member_id, instance = request.member_id, request.group_instance_id
    error = _admission_error(group, request)
    if not error and member_id in group.pending_joins:
        if instance is not None:
            # Static members never receive a pending id [joining/pending-member].
            effects.response = join_error(ErrorCode.UNKNOWN_SERVER_ERROR, "")
        else:
            step.cancel(TimerKind.PENDING, member_id)
            _add(step, request, member_id)
        return
    if not error:
        error = group.identity_error(member_id, instance)
    if error:
        if error is ErrorCode.FENCED_INSTANCE_ID:
            note_fenced(step, member_id, instance, "JoinGroup")
        effects.response = join_error(error, member_id)
        return
    _rejoin(step, request, group.members[member_id])


def _rejoin(step: Step, request: JoinGroupRequest, member: Member) -> None:
    """Handle the JoinGroup of a member by the state of its group [joining/rejoin]."""
    group = step.group
    state = group.state
    protocols = protocols_of(request)
    changed = protocols != member.protocols
    is_leader = group.leader == member.member_id
    assert state is not GroupState.EMPTY, f"{group} has members"
    assert state is not GroupState.DEAD, f"{group} was given up"
    assert step.context.to is not None, "a delayed join has an address"
    if state is GroupState.COMPLETING_REBALANCE and not changed:
        # Its first response may have been lost [joining/rejoin].
        roster = join_roster(group) if is_leader else []
        step.effects.response = join_response(group, member, roster)
        return
    if state is GroupState.STABLE and not changed and not is_leader:
        step.effects.response = join_response(group, member, [])
        return
    change = None
    if changed and state is not GroupState.PREPARING_REBALANCE:
        # Part of the fact that a rebalance began. A rejoin during a rebalance starts no other one.
        change = subscription_change(group.protocol_type, member.protocols, protocols)
    group.update(member, protocols, rebalance_timeout_of(request), request.session_timeout_ms)
    group.delay_join(member, step.context.to, step.now_ms)
    cause = Cause.SUBSCRIPTION if changed else Cause.LEADER_REJOIN
    prepare_or_complete(step, cause, Instigator(member, request.reason, change))


def _add(step: Step, request: JoinGroupRequest, member_id: str) -> None:
    """Add a new member and delay its join [joining/new-member]."""
    group, now_ms, context = step.group, step.now_ms, step.context
    assert group.state is not GroupState.DEAD, f"{group} was given up"
    assert context.to is not None, "a delayed join has an address"
    member = Member(
        member_id,
        request.group_instance_id,
        context.client.client_id,
        context.client.client_host,
        rebalance_timeout_of(request),
        request.session_timeout_ms,
        protocols_of(request),
    )
    member.is_new = True
    member.delayed_join = context.to
    member.joined_ms = now_ms
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
        group.new_member_added = True
    group.add(member, request.protocol_type)
    joined = MemberJoined(
        at_ms=now_ms,
        member_id=member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        state=str(group.state),
        generation_id=group.generation_id,
        member_count=len(group.members),
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=[name for name, _ in member.protocols],
        reason=recorded_reason(request.reason),
        client_software_name=context.client.software_name or None,
        client_software_version=context.client.software_version or None,
        principal=context.client.login,
    )
    step.note(joined)
    start_session(step, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
    prepare_or_complete(step, Cause.JOIN, Instigator(member, request.reason))
    assert group.state in _REBALANCING, f"a member was added to {group} without a rebalance"
