"""Steps of several verbs with one member: reconcile it, start its timers, remove it."""

from coterie.coordinator.groups.epochs import Bump, instigator_of
from coterie.coordinator.groups.member_facts import removed_fact
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded import revocation
from coterie.coordinator.groups.recorded.lookup import existing_group, existing_member
from coterie.coordinator.groups.recorded.target import note_convergence
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.groups.sessions import end_session
from coterie.coordinator.groups.streams.epochs import bump_for_removal
from coterie.coordinator.groups.streams.group import STREAMS, StreamsGroup
from coterie.coordinator.groups.streams.member import StreamsMember
from coterie.coordinator.groups.streams.reconciliation import Reconciled, UnknownState, reconcile
from coterie.coordinator.groups.streams.states import GroupState, MemberState
from coterie.coordinator.groups.streams.step import Step
from coterie.coordinator.groups.streams.tasks import TaskRoles, current_value
from coterie.coordinator.groups.streams.timers import TimerKind
from coterie.coordinator.kernel.append_errors import LARGE_OPERATION_ERROR
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_facts import MemberReconciled
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from coterie.protocol.messages.streams_group_records import StreamsGroupCurrentMemberAssignmentKey

# -- reconciliation --------------------------------------------------------------------------------


def reconcile_member(
    step: Step, member: StreamsMember, tasks: TaskRoles | None, former_process: str
) -> None:
    """Take a member one step towards its target, and write where it is then.

    Args:
        step: the step.
        member: the member.
        tasks: the tasks that it reports; None if it reports none.
        former_process: its process before this heartbeat. What it holds counts for that process
            until the records of the heartbeat are written [streams-groups/reconciliation].

    Raises:
        Refusal: it is in a state of other software and has to begin without tasks.
    """
    group = step.group
    has_moved = member.process_id != former_process
    if has_moved:
        group.count_in(former_process, member, member.process_id)
    try:
        reconciled = reconcile(group, member, tasks)
    except UnknownState:
        raise Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The streams group member is in a unknown state. The member must abandon all its tasks "
            "and rejoin.",
        ) from None
    finally:
        if has_moved:
            group.count_in(member.process_id, member, former_process)
    if reconciled is None:
        return
    was_settled = member.is_settled(group.target_epoch)
    step.facts.append(_reconciled(step, member, reconciled))
    step.set(
        StreamsGroupCurrentMemberAssignmentKey(group_id=group.group_id, member_id=member.member_id),
        current_value(*reconciled),
    )
    assert member.epoch == reconciled.epoch, f"{member} is at another epoch than its record"
    member.changed_ms = step.now_ms
    if not was_settled and group.derived_state() is GroupState.STABLE:
        note_convergence(step)


def _reconciled(step: Step, member: StreamsMember, now: Reconciled) -> MemberReconciled:
    """Return the fact that a member is about to come closer to its target."""
    before, after = (
        {
            (role, each, index)
            for role, tasks in enumerate(held.without_epochs())
            for each, indexes in tasks.items()
            for index in indexes
        }
        for held in (member.assigned, now.assigned)
    )
    return MemberReconciled(
        at_ms=step.now_ms,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        epoch=now.epoch,
        previous_epoch=now.previous_epoch,
        state=now.state.name,
        previous_state=member.state.name,
        added=len(after - before),
        revoked=len(before - after),
        state_ms=step.now_ms - member.changed_ms if member.changed_ms else -1,
        group_type=STREAMS,
    )


def time_revocation(step: Step, member: StreamsMember) -> None:
    """Arm or cancel the timer in which a member has to give tasks up."""
    is_asked = member.state is MemberState.UNREVOKED_TASKS
    if is_asked or member.revocation is not None:
        revocation.time_revocation(step, member, TimerKind.REVOCATION, is_asked=is_asked)


# -- session and removal ---------------------------------------------------------------------------


def leave(
    partition: PartitionState,
    now_ms: int,
    request: StreamsGroupHeartbeatRequest,
    context: RequestContext,
) -> Effects[StreamsGroupHeartbeatResponse]:
    """Remove a member that leaves; it may ask others to shut down [streams-groups/member-epochs].

    Raises:
        Refusal: there is no such group or member, or the group is of another type.
    """
    group = existing_group(partition, request.group_id, StreamsGroup)
    member = existing_member(group, request.member_id)
    step = Step(partition, group, now_ms, context)
    if not remove_member(step, member, Bump.LEAVE):
        raise Refusal(LARGE_OPERATION_ERROR)
    if request.shutdown_application and group.members and group.shutdown_by is None:
        group.shutdown_by = request.member_id
    step.effects.response = StreamsGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch, status=[]
    )
    return step.effects


def remove_member(step: Step, member: StreamsMember, cause: Bump) -> bool:
    """Write that a member is gone; return whether the records fit a batch.

    No target is computed: the next heartbeat does it.
    """
    group, member_id = step.group, member.member_id
    identity = instigator_of(member)
    step.remove(group.member_tombstones(member_id))
    bump_for_removal(step, cause, identity)
    if not step.fits():
        return False
    end_session(step, member, TimerKind.SESSION)
    revocation.cancel_revocation(step, member, TimerKind.REVOCATION)
    if not group.members:
        group.shutdown_by = None
    step.note(removed_fact(group, member, identity, cause, step.now_ms))
    return True
