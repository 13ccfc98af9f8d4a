"""SyncGroup: followers wait, the leader's assignment is logged, then everybody is told (spec
section 5).
"""

from typing import NamedTuple

from coterie.coordinator.answers import sync_error
from coterie.coordinator.effects import Effects, Reply, RequestContext, TimerKind
from coterie.coordinator.group import Group, GroupState, Member
from coterie.coordinator.group_record import group_record
from coterie.coordinator.members import (
    Removal,
    identity_error,
    member_fenced,
    remove_member,
    start_session,
)
from coterie.coordinator.partition_state import PartitionState
from coterie.coordinator.rebalance import Cause, Instigator, fail_syncs, prepare_rebalance
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.journal_records import GenerationCompleted, GenerationMember
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class AssignmentWrite(NamedTuple):
    """The leader's SyncGroup: durable, it makes the group Stable; failed, it costs a rebalance
    (spec section 5).
    """

    group: Group
    generation_id: int
    assignments: dict[str, bytes]


def sync(
    partition: PartitionState, now_ms: int, request: SyncGroupRequest, context: RequestContext
) -> Effects:
    """Handle a SyncGroup that passed the service's checks."""
    group = partition.groups.get(request.group_id)
    error = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _sync_error_of(group, request)
    if error:
        refused = Effects(sync_error(error))
        if error is ErrorCode.FENCED_INSTANCE_ID and group is not None:
            instance = request.group_instance_id
            fenced = member_fenced(group, request.member_id, instance, "SyncGroup", now_ms)
            refused.note(group.group_id, fenced)
        return refused
    assert group is not None
    effects = Effects()
    member = group.members[request.member_id]
    if group.pending_syncs:
        group.pending_syncs.discard(member.member_id)
        if not group.pending_syncs:
            effects.cancel(TimerKind.SYNC, group.group_id)
    if group.state is GroupState.STABLE:
        effects.answer = _assignment_answer(group, member)
        return effects
    member.delayed_sync = context.to
    # A leader that asks again while its assignment is on its way to the log waits for that one: a
    # second record could say something else than what the members are about to be told.
    if group.leader == member.member_id and group.assigned_generation != group.generation_id:
        _store_assignment(group, request, effects)
    return effects


def _sync_error_of(group: Group, request: SyncGroupRequest) -> ErrorCode:
    """The checks in Kafka's order: dead, identity, generation, protocol, state."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if group.state is GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = identity_error(group, request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differs(given: str | None, held: str | None) -> bool:
    """A null on either side is no mismatch (quirk 11)."""
    return given is not None and held is not None and given != held


def _assignment_answer(group: Group, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def _store_assignment(group: Group, request: SyncGroupRequest, effects: Effects) -> None:
    """Log the generation with what the leader gave each; who is not mentioned gets nothing."""
    given = {each.member_id: each.assignment for each in request.assignments}
    assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
    effects.records.append(group_record(group, assignments))
    group.assigned_generation = group.generation_id
    effects.completion = AssignmentWrite(group, group.generation_id, assignments)


def assignment_stored(group: Group, done: AssignmentWrite, now_ms: int, effects: Effects) -> None:
    """The assignment is durable: tell everybody who waits. Nothing, if the group has moved on
    meanwhile.
    """
    if (
        group.state is not GroupState.COMPLETING_REBALANCE
        or group.generation_id != done.generation_id
    ):
        return
    joined_ms = group.state_timestamp_ms or now_ms
    group.transition(GroupState.STABLE, now_ms)
    for member in group.members.values():
        member.assignment = done.assignments.get(member.member_id, b"")
        if member.delayed_sync is not None:
            effects.replies.append(Reply(member.delayed_sync, _assignment_answer(group, member)))
            member.delayed_sync = None
            start_session(group, member, member.session_timeout_ms, now_ms, effects)
    effects.note(group.group_id, _completed(group, joined_ms, now_ms))


def _completed(group: Group, joined_ms: int, now_ms: int) -> GenerationCompleted:
    """Who has what from now on: compaction takes it out of the group's own log one day."""
    began_ms, name = group.rebalance_began_ms, group.protocol_name
    assert name is not None, "a generation has a protocol"
    return GenerationCompleted(
        at_ms=now_ms,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type or "",
        protocol_name=name,
        leader=group.leader or "",
        began_ms=began_ms,
        join_ms=joined_ms - began_ms,
        sync_ms=now_ms - joined_ms,
        members=[
            GenerationMember.of(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.session_timeout_ms,
                member.rebalance_timeout_ms,
                # A static member may have stayed away: it last joined an earlier rebalance.
                max(member.joined_ms - began_ms, -1),
                member.metadata(name),
                member.assignment,
            )
            for member in group.members.values()
        ],
    )


def assignment_failed(
    partition: PartitionState,
    group: Group,
    done: AssignmentWrite,
    error: ErrorCode,
    now_ms: int,
    effects: Effects,
) -> None:
    """The assignment could not be logged: everybody who waits is told, and the group begins anew
    (S80).
    """
    if (
        group.state is not GroupState.COMPLETING_REBALANCE
        or group.generation_id != done.generation_id
    ):
        return
    fail_syncs(group, error, now_ms, effects)
    prepare_rebalance(partition, group, now_ms, effects, Cause.APPEND_FAILURE)


def sync_timer_fired(
    partition: PartitionState, group: Group, now_ms: int, effects: Effects
) -> None:
    """Whoever has not synced by now is removed, static members too, and the group begins anew
    (S82).

    A generation's timer is replaced or cancelled by the next one, so it never meets another
    generation (S84).
    """
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return
    late = [
        group.members[member_id] for member_id in group.members if member_id in group.pending_syncs
    ]
    if not late:
        return
    for member in late:
        remove_member(group, member, now_ms, effects, Removal.SYNC_TIMEOUT)
    prepare_rebalance(partition, group, now_ms, effects, Cause.SYNC_TIMEOUT, Instigator(late[0]))
