"""Classic members of a consumer group: Heartbeat and SyncGroup [consumer-groups/classic-members].

Nobody leads and no request is delayed: each is answered as soon as its records are durable. A
member that has to reconcile is asked to join again, and has its rebalance timeout to do so.
"""

from coterie.coordinator.groups.classic.heartbeat import RESPONSES as HEARTBEAT_RESPONSES
from coterie.coordinator.groups.classic.responses import sync_error
from coterie.coordinator.groups.consumer.downgrade import assignment_bytes
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.member import ConsumerMember
from coterie.coordinator.groups.consumer.members import start_session
from coterie.coordinator.groups.consumer.states import MemberState
from coterie.coordinator.groups.consumer.step import Step
from coterie.coordinator.groups.consumer.timers import TimerKind
from coterie.coordinator.groups.fencing import note_fenced
from coterie.coordinator.kernel.effects import Effects
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

# What classic members of a consumer group say of themselves.
PROTOCOL_TYPE = "consumer"


def classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerMember | ErrorCode:
    """Return the classic member of a request, or why there is none."""
    if instance_id is not None:
        holder = group.static_members.get(instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if holder != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    member = group.members.get(member_id)
    if member is None or member.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    assert group.classic_count > 0, f"{group} counts its members wrong"
    return member


def heartbeat(step: Step, request: HeartbeatRequest) -> Effects[HeartbeatResponse]:
    """Start a session anew, and ask the member to join again if it has something to do."""
    group = step.group
    member = classic_member(group, request.member_id, request.group_instance_id)
    if isinstance(member, ErrorCode):
        return HEARTBEAT_RESPONSES[member]
    if request.generation_id != member.epoch:
        return HEARTBEAT_RESPONSES[ErrorCode.ILLEGAL_GENERATION]
    _start_own_session(step, member)
    error = ErrorCode.NONE
    if _has_to_rejoin(group, member):
        error = ErrorCode.REBALANCE_IN_PROGRESS
        _await_join(step, member)
    step.effects.response = HeartbeatResponse(error_code=error)
    return step.effects


def sync(step: Step, request: SyncGroupRequest) -> Effects[SyncGroupResponse]:
    """Answer with the assignment of a member; assignments that are sent along do not count."""
    group, effects = step.group, step.effects
    member = classic_member(group, request.member_id, request.group_instance_id)
    if isinstance(member, ErrorCode):
        if member == ErrorCode.FENCED_INSTANCE_ID:
            instance_id = request.group_instance_id
            note_fenced(step, request.member_id, instance_id, "SyncGroup")
        effects.response = sync_error(member)
        return effects
    if request.generation_id != member.epoch:
        return Effects(sync_error(ErrorCode.ILLEGAL_GENERATION))
    classic = member.classic
    assert classic is not None, f"{member} does not use the classic protocol"
    if not classic.supported_protocols:
        # Its record does not say how it has joined [consumer-groups/records].
        return Effects(sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
    first = classic.supported_protocols[0]
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (
        None,
        first.name,
    ):
        return Effects(sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    if group.target_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _await_join(step, member)
        effects.response = sync_error(ErrorCode.REBALANCE_IN_PROGRESS)
        return effects
    if member.awaits_sync:
        member.awaits_sync = False
        step.cancel(TimerKind.RESYNC, member.member_id)
    _start_own_session(step, member)
    effects.response = SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=assignment_bytes(member.assigned, first.metadata, group.topics),
    )
    return effects


def _has_to_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether there is something to give up, to take over, or a newer target."""
    if member.epoch < group.target_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if member.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    member_id = member.member_id
    return all(
        group.owner(topic_id, index) in (None, member_id)
        for topic_id, indexes in group.target(member_id).items()
        for index in indexes
    )


def _await_join(step: Step, member: ConsumerMember) -> None:
    """Give a member its rebalance timeout to join again, unless it has it already."""
    assert member.classic is not None, f"{member} does not join by JoinGroup"
    if not member.awaits_join:
        member.awaits_join = True
        deadline_ms = step.now_ms + member.rebalance_timeout_ms
        step.arm(TimerKind.REJOIN, member.member_id, deadline_ms)


def _start_own_session(step: Step, member: ConsumerMember) -> None:
    """Start the session of a classic member, which has a timeout of its own."""
    assert member.classic is not None, f"{member} does not use the classic protocol"
    start_session(step, member, member.classic.session_timeout_ms)
