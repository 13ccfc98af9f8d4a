"""SyncGroup: members wait until the leader's assignment is logged, then each receives its part."""

from coterie.coordinator.groups.batch_size import generation_fits_batch
from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.classic.group_record import group_record
from coterie.coordinator.groups.classic.members import (
    Removal,
    remove_member,
    start_session,
)
from coterie.coordinator.groups.classic.rebalance import (
    Cause,
    Instigator,
    fail_syncs,
    prepare_rebalance,
)
from coterie.coordinator.groups.classic.responses import assignment_response, sync_error
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.classic.step import Step
from coterie.coordinator.groups.classic.timers import TimerKind
from coterie.coordinator.groups.fencing import note_fenced
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.kernel.append_errors import LARGE_OPERATION_ERROR
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.journal_records import GenerationCompleted, GenerationMember
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class AssignmentWrite:
    """The write of a leader's assignment: once durable it makes the group Stable."""

    __slots__ = ("assignments", "generation_id", "group")

    def __init__(self, group: Group, generation_id: int, assignments: dict[str, bytes]) -> None:
        self.group = group
        self.generation_id = generation_id
        self.assignments = assignments


# -- the request -----------------------------------------------------------------------------------


def sync(
    partition: PartitionState, now_ms: int, request: SyncGroupRequest, context: RequestContext
) -> Effects[SyncGroupResponse]:
    """Handle a SyncGroup that passed the checks of the service."""
    group = partition.groups.get(request.group_id)
    if group is None:
        return Effects(sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
    if not isinstance(group, Group):
        return partition.handle(group, now_ms, request, context)
    step = Step(partition, group, now_ms, Effects(), context)
    error = _check(group, request)
    if error:
        return _refuse(step, request, error)
    member = group.members[request.member_id]
    if group.pending_syncs:
        group.pending_syncs.discard(member.member_id)
        if not group.pending_syncs:
            step.cancel(TimerKind.SYNC)
    if group.state is GroupState.STABLE:
        step.effects.response = assignment_response(group, member)
        return step.effects
    assert group.state is GroupState.COMPLETING_REBALANCE, f"{group} cannot sync"
    assert not group.awaiting_joins, f"{group} has delayed joins after its join phase"
    assert context.to is not None, "a delayed sync has an address"
    member.delayed_sync = context.to
    # A leader that syncs again waits for the record of its first assignment: a second record could
    # differ from what the members receive [syncing/delayed-sync].
    if group.leader == member.member_id and group.assigned_generation != group.generation_id:
        _log_assignment(step, request)
    return step.effects


def _check(group: Group, request: SyncGroupRequest) -> ErrorCode:
    """Return the error of a SyncGroup, in Kafka's order of checks [syncing/order-of-checks]."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if group.state is GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.identity_error(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type) or _differ(
        request.protocol_name, group.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differ(requested: str | None, present: str | None) -> bool:
    # A null on either side is not a difference [syncing/order-of-checks].
    return requested is not None and present is not None and requested != present


def _refuse(step: Step, request: SyncGroupRequest, error: ErrorCode) -> Effects[SyncGroupResponse]:
    step.effects.response = sync_error(error)
    if error is ErrorCode.FENCED_INSTANCE_ID:
        note_fenced(step, request.member_id, request.group_instance_id, "SyncGroup")
    return step.effects


def _log_assignment(step: Step, request: SyncGroupRequest) -> None:
    """Append the generation with the leader's assignment [syncing/leader-assignment].

    If it does not fit a batch, all delayed syncs fail and the group starts a rebalance
    [syncing/failed-assignment].
    """
    group = step.group
    assert group.leader == request.member_id, f"{request.member_id} does not lead {group}"
    assert group.assigned_generation != group.generation_id, f"{group} is assigned twice"
    sent = {each.member_id: each.assignment for each in request.assignments}
    assignments = {member_id: sent.get(member_id, b"") for member_id in group.members}
    record = group_record(group, assignments)
    if not generation_fits_batch(record):
        fail_syncs(step, LARGE_OPERATION_ERROR)
        prepare_rebalance(step, Cause.LARGE_ASSIGNMENT)
        return
    group.assigned_generation = group.generation_id
    step.write(record).completion = AssignmentWrite(group, group.generation_id, assignments)


# -- after the write -------------------------------------------------------------------------------


def assignment_stored(step: Step, write: AssignmentWrite) -> None:
    """Answer the delayed syncs and make the group Stable [syncing/durable-assignment].

    Nothing happens if the group has started another rebalance since.
    """
    group, now_ms = step.group, step.now_ms
    if (
        group.state is not GroupState.COMPLETING_REBALANCE
        or group.generation_id != write.generation_id
    ):
        return
    assert len(write.assignments) == len(group.members), f"each member of {group} is assigned"
    joined_ms = group.state_timestamp_ms or now_ms
    group.transition(GroupState.STABLE, now_ms)
    for member in group.members.values():
        member.assignment = write.assignments[member.member_id]
        to = member.take_delayed_sync()
        if to is not None:
            step.reply(to, assignment_response(group, member))
            start_session(step, member, member.session_timeout_ms)
    step.note(_generation_completed(group, joined_ms, now_ms))


def assignment_late(step: Step, write: AssignmentWrite, error: ErrorCode) -> None:
    """Fail the delayed syncs and rebalance again [cluster/waiting-groups].

    Nothing happens if the group has started another rebalance since.
    """
    group = step.group
    assert write.generation_id <= group.generation_id, f"{group} is behind what it has written"
    if group.state is GroupState.COMPLETING_REBALANCE and (
        group.generation_id == write.generation_id
    ):
        fail_syncs(step, error)
        prepare_rebalance(step, Cause.LATE_ASSIGNMENT)


def _generation_completed(group: Group, joined_ms: int, now_ms: int) -> GenerationCompleted:
    """Return the fact that a rebalance is over, with all subscriptions and assignments.

    The journal keeps them because compaction removes them from the group log.
    """
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
                # A static member that has not rejoined joined an earlier rebalance.
                max(member.joined_ms - began_ms, -1),
                member.metadata(name),
                member.assignment,
            )
            for member in group.members.values()
        ],
    )


# -- the timer -------------------------------------------------------------------------------------


def sync_timer_fired(step: Step) -> None:
    """Remove the members that have not synced and start a rebalance [syncing/sync-timer].

    The timer is replaced or cancelled when the next generation begins, so it never meets another
    generation than its own.
    """
    group = step.group
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return
    late = [member for member in group.members.values() if member.member_id in group.pending_syncs]
    if not late:
        return
    for member in late:
        remove_member(step, member, Removal.SYNC_TIMEOUT)
    assert not group.pending_syncs, f"{group} waits for syncs after their time"
    prepare_rebalance(step, Cause.SYNC_TIMEOUT, Instigator(late[0]))
