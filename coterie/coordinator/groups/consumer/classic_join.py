"""JoinGroup of a classic member into a consumer group [consumer-groups/classic-join].

The answer comes at once, without a leader: the coordinator has assigned already. A cooperative
member that has to give partitions up first is answered with its old generation.
"""

from coterie.coordinator.groups.classic.join_of_empty import join_empty
from coterie.coordinator.groups.classic.members import rebalance_timeout_of
from coterie.coordinator.groups.classic.responses import join_error
from coterie.coordinator.groups.consumer.classic_members import PROTOCOL_TYPE
from coterie.coordinator.groups.consumer.conversion import partitions_by_id
from coterie.coordinator.groups.consumer.downgrade import (
    begin_classic,
    begin_downgrade,
    cancel_timers,
    downgrade,
    is_downgraded_without,
    takes_long,
)
from coterie.coordinator.groups.consumer.heartbeat import new_member_id
from coterie.coordinator.groups.consumer.member import ConsumerMember
from coterie.coordinator.groups.consumer.members import (
    note_joined,
    reconcile_member,
    start_session,
    time_revocation,
)
from coterie.coordinator.groups.consumer.regexes import ask_for_resolution, resolved
from coterie.coordinator.groups.consumer.static_member import replace_member
from coterie.coordinator.groups.consumer.step import Step
from coterie.coordinator.groups.consumer.subscription import (
    SubscriptionUpdate,
    bump_for,
    update_subscription,
)
from coterie.coordinator.groups.consumer.target import update_target
from coterie.coordinator.groups.consumer.timers import TimerKind
from coterie.coordinator.groups.fencing import note_fenced
from coterie.coordinator.groups.recorded.target import begin_computation
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.kernel.append_errors import LARGE_OPERATION_ERROR
from coterie.coordinator.kernel.effects import Effects
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages.consumer_group_records import ClassicMemberMetadata, ClassicProtocol
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    decode_subscription,
)
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

# From this version on a first join only receives a member id [joining/member-id].
_MEMBER_ID_REQUIRED_SINCE = 4
_DISABLED = "disabled"


def join_consumer_group(step: Step, request: JoinGroupRequest) -> Effects[JoinGroupResponse]:
    """Handle a JoinGroup that passed the checks of the service."""
    group = step.group
    if group.is_empty:
        tombstones = [(key, None) for key in group.keys(())]
        return join_empty(step.partition, group, tombstones, step.now_ms, request, step.context)
    try:
        return _join(step, request)
    except Refusal as refusal:
        step.undo()
        error, member_id = refusal.error, request.member_id
        if error == ErrorCode.FENCED_INSTANCE_ID:
            note_fenced(step, member_id, request.group_instance_id, "JoinGroup")
        step.effects.response = join_error(error, refusal.text or "")
        return step.effects


def _join(step: Step, request: JoinGroupRequest) -> Effects[JoinGroupResponse]:
    """Let a classic member join a group that has members.

    Raises:
        Refusal: it may not join. The text is the member id of the response.
    """
    group = step.group
    _check_admission(step, request)
    member, member_id = _find_member(step, request)
    subscription = _subscription(request)
    is_new, resolved_before = member is None, resolved(group)
    predecessor: ConsumerMember | None = None
    if member is not None and member.member_id != member_id:
        predecessor, member = member, replace_member(step, member, member_id)
    epoch = group.epoch
    change = update_subscription(step, member_id, _update(request, subscription))
    bump_for(step, member_id, change, joins=is_new)
    member = group.members[member_id]
    becomes_classic = predecessor is not None and is_downgraded_without(step, ())
    downgrades = becomes_classic and not takes_long(group)
    if not downgrades:
        update_target(step, group.members[member_id])
    is_current = group.target_epoch >= group.epoch
    if is_current or not downgrades:
        owned = partitions_by_id(subscription.owned_partitions, group.topics)
        owned_now = {topic_id: frozenset(indexes) for topic_id, indexes in owned.items()}
        reconcile_member(step, member, owned_now, changed=change.any)
    # One that has to join once more is not at the epoch of the group [consumer-groups/downgrade].
    generation = member.epoch
    if downgrades:
        downgrade(step, (), epoch)
    if not step.fits():
        raise Refusal(LARGE_OPERATION_ERROR)
    if predecessor is not None:
        cancel_timers(step, predecessor)
    if downgrades:
        begin_classic(step, rebalances=not is_current)
    else:
        begin_computation(step, TimerKind.TARGET)
        if becomes_classic:
            begin_downgrade(step)
        ask_for_resolution(step, resolved_before, is_new=False)
        _joined(step, member, request)
        if is_new:
            note_joined(step, member)
    step.effects.response = JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=generation,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
        leader="",
        member_id=member_id,
        members=[],
    )
    return step.effects


def _check_admission(step: Step, request: JoinGroupRequest) -> None:
    """Check whether a classic member may join.

    Raises:
        Refusal: it may not.
    """
    group, config = step.group, step.partition.config
    if config.consumer.migration_policy == _DISABLED:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if len(group.members) >= config.consumer.max_size and request.member_id not in group.members:
        raise Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED)
    names = [each.name for each in request.protocols]
    supported = not group.classic_count or any(
        group.protocols.get(name) == group.classic_count for name in names
    )
    if request.protocol_type != PROTOCOL_TYPE or not names or not supported:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if (
        step.context.version >= _MEMBER_ID_REQUIRED_SINCE
        and not request.member_id
        and request.group_instance_id is None
    ):
        # Nothing is kept of the id [consumer-groups/classic-join].
        raise Refusal(ErrorCode.MEMBER_ID_REQUIRED, new_member_id(step.partition.new_uuid()))


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """Return what the first protocol of a joiner says.

    Raises:
        Refusal: it cannot be read.
    """
    try:
        return decode_subscription(request.protocols[0].metadata)
    except MalformedFrame as error:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR) from error


def _find_member(step: Step, request: JoinGroupRequest) -> tuple[ConsumerMember | None, str]:
    """Return the member of a JoinGroup, None for a new one, and the id that it has from now on.

    Raises:
        Refusal: its instance id is unknown, or another member has it.
    """
    group, instance, member_id = step.group, request.group_instance_id, request.member_id
    if instance is None:
        member_id = member_id or new_member_id(step.partition.new_uuid())
        return group.members.get(member_id), member_id
    holder = group.static_members.get(instance)
    if not member_id:
        member = None if holder is None else group.members[holder]
        return member, new_member_id(step.partition.new_uuid())
    if holder is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    if holder != member_id:
        raise Refusal(ErrorCode.FENCED_INSTANCE_ID)
    return group.members[holder], member_id


def _update(
    request: JoinGroupRequest, subscription: ConsumerProtocolSubscription
) -> SubscriptionUpdate:
    return SubscriptionUpdate(
        instance_id=request.group_instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=rebalance_timeout_of(request),
        names=subscription.topics,
        regex="",
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=each.name, metadata=each.metadata)
                for each in request.protocols
            ],
        ),
    )


def _joined(step: Step, member: ConsumerMember, request: JoinGroupRequest) -> None:
    """Start the session of a member that has joined, and the time in which it has to sync."""
    assert member.classic is not None, f"{member} has joined with another protocol"
    if member.awaits_join:
        member.awaits_join = False
        step.cancel(TimerKind.REJOIN, member.member_id)
    time_revocation(step, member)
    start_session(step, member, request.session_timeout_ms)
    member.awaits_sync = True
    step.arm(TimerKind.RESYNC, member.member_id, step.now_ms + rebalance_timeout_of(request))
