"""ConsumerGroupHeartbeat: one request joins, reports, reconciles and leaves.

The order of what an accepted heartbeat does [consumer-groups/heartbeat-order]: the subscription,
the epoch of the group, the target, the reconciliation of the member, its session, the answer. All
records are one batch.
"""

from coterie.coordinator.groups.classic.group import classic
from coterie.coordinator.groups.classic.group_record import group_tombstone
from coterie.coordinator.groups.config import ConsumerSettings
from coterie.coordinator.groups.consumer.downgrade import cancel_timers
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.identity import find_member
from coterie.coordinator.groups.consumer.leave import leave
from coterie.coordinator.groups.consumer.member import ConsumerMember, Owned
from coterie.coordinator.groups.consumer.members import (
    note_joined,
    reconcile_member,
    start_session,
    time_revocation,
)
from coterie.coordinator.groups.consumer.reconciliation import OwnedNow
from coterie.coordinator.groups.consumer.regexes import ask_for_resolution, resolved
from coterie.coordinator.groups.consumer.states import MemberState
from coterie.coordinator.groups.consumer.static_member import replace_member
from coterie.coordinator.groups.consumer.step import Step, records_of
from coterie.coordinator.groups.consumer.subscription import (
    NO_UPDATE,
    SubscriptionUpdate,
    bump_for,
    check_regex,
    update_subscription,
)
from coterie.coordinator.groups.consumer.target import update_target
from coterie.coordinator.groups.consumer.timers import TimerKind
from coterie.coordinator.groups.consumer.upgrade import start_classic_sessions, upgrade
from coterie.coordinator.groups.epochs import JOIN_EPOCH
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.heartbeat import (
    HeartbeatVerbs,
    first_step,
    handle_heartbeat,
)
from coterie.coordinator.groups.recorded.lookup import (
    check_room,
    check_room_for_group,
    no_group,
    other_type,
)
from coterie.coordinator.groups.recorded.target import begin_computation
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.fields import uuid_text
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    HeartbeatTopicPartitions,
)

# The length of a UUID in Java's text form.
_UUID_LENGTH = 36

# The effects of a heartbeat.
Beat = Effects[ConsumerGroupHeartbeatResponse]


def heartbeat(
    partition: PartitionState,
    now_ms: int,
    request: ConsumerGroupHeartbeatRequest,
    context: RequestContext,
) -> Beat:
    """Handle a ConsumerGroupHeartbeat whose fields were checked."""
    return handle_heartbeat(_VERBS, partition, now_ms, request, context)


def _step(
    partition: PartitionState,
    now_ms: int,
    request: ConsumerGroupHeartbeatRequest,
    context: RequestContext,
) -> Step:
    """Return a step of the group, which may be a new one [consumer-groups/joined-group].

    Raises:
        Refusal: there is no such group, or it is of another type.
    """
    group_id = request.group_id
    found = partition.groups.get(group_id)
    joins = request.member_epoch == JOIN_EPOCH
    conversion = records_of(partition).conversions.pop(group_id, None) if joins else None
    if isinstance(found, ConsumerGroup):
        return Step(partition, found, now_ms, context)
    if found is None:
        if not joins:
            raise no_group(group_id, "Consumer group")
        check_room_for_group(partition)
        return _new_step(partition, group_id, now_ms, context)
    before = classic(found)
    if before is None or not joins:
        raise other_type(group_id, ConsumerGroup)
    step = _new_step(partition, group_id, now_ms, context)
    step.replaces = before
    if before.is_empty:
        step.write(group_tombstone(group_id))
    else:
        upgrade(step, before, conversion)
    return step


def _new_step(
    partition: PartitionState, group_id: str, now_ms: int, context: RequestContext
) -> Step:
    assert group_id not in records_of(partition).groups, f"{group_id} is in the log"
    return first_step(Step, ConsumerGroup, partition, group_id, now_ms, context)


def _beat(step: Step, request: ConsumerGroupHeartbeatRequest) -> Beat:
    """Handle a heartbeat that does not leave.

    Raises:
        Refusal: the group has no room, or the member does not know its epoch or its topics.
    """
    group, config = step.group, step.partition.config
    member_id, epoch, instance_id = request.member_id, request.member_epoch, request.instance_id
    owned = _owned_now(request)
    if member_id not in group.members:
        check_room(group, config.consumer.max_size)
    member_id = member_id or new_member_id(step.partition.new_uuid())
    member = find_member(group, member_id, instance_id, epoch, owned)
    if request.subscribed_topic_regex:
        check_regex(step, member_id, request.subscribed_topic_regex)
    resolved_before = resolved(group)
    predecessor: ConsumerMember | None = None
    if member is not None and (member.member_id != member_id or _is_replaced(member, request)):
        predecessor, member = member, replace_member(step, member, member_id)
    before, is_new = (None, True) if member is None else (member.assigned, False)
    change = update_subscription(step, member_id, _update(request))
    bump_for(step, member_id, change, joins=is_new)
    update_target(step, group.members[member_id])
    member = group.members[member_id]
    assert member.classic is None, f"{member} sends heartbeats of the consumer protocol"
    reconcile_member(step, member, owned, changed=change.any)
    step.require_fit()
    if predecessor is not None:
        cancel_timers(step, predecessor)
    begin_computation(step, TimerKind.TARGET)
    ask_for_resolution(step, resolved_before, is_new=change.new_regex)
    time_revocation(step, member)
    settings = step.partition.consumer_settings(group.group_id)
    start_session(step, member, settings.session_timeout_ms)
    if step.creates:
        start_classic_sessions(step)
    if is_new:
        note_joined(step, member)
    kept = before is member.assigned or before == member.assigned
    has_assignment = epoch == JOIN_EPOCH or not kept or _is_full(request)
    response = ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        assignment=_assignment(member.assigned) if has_assignment else None,
    )
    _keep_answer(step, member, settings, response)
    assert not response.error_code, "an accepted heartbeat has no error"
    step.effects.response = response
    return step.effects


def _is_replaced(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether a static member that was away returns under the id that it had."""
    return (
        request.member_epoch == JOIN_EPOCH
        and request.instance_id is not None
        and member.instance_id == request.instance_id
    )


def _update(request: ConsumerGroupHeartbeatRequest) -> SubscriptionUpdate:
    """Return what a heartbeat says of its member."""
    timeout_ms = request.rebalance_timeout_ms
    if (
        request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rack_id is None
        and request.instance_id is None
        and timeout_ms == -1
    ):
        return NO_UPDATE
    return SubscriptionUpdate(
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=None if timeout_ms == -1 else timeout_ms,
        names=request.subscribed_topic_names,
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
    )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether a heartbeat says everything, so that it is answered with everything."""
    return (
        request.rebalance_timeout_ms != -1
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        and request.topic_partitions is not None
    )


def _owned_now(request: ConsumerGroupHeartbeatRequest) -> OwnedNow | None:
    if request.topic_partitions is None:
        return None
    owned: dict[bytes, frozenset[int]] = {}
    for topic in request.topic_partitions:
        owned[topic.topic_id] = owned.get(topic.topic_id, frozenset()).union(topic.partitions)
    return owned


def _assignment(assigned: Owned) -> HeartbeatAssignment:
    return HeartbeatAssignment(
        topic_partitions=[
            HeartbeatTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(assigned.items())
        ]
    )


def _keep_answer(
    step: Step,
    member: ConsumerMember,
    settings: ConsumerSettings,
    response: ConsumerGroupHeartbeatResponse,
) -> None:
    """Keep the answer to a heartbeat that changes nothing, if the next one does not.

    Args:
        step: the step of this heartbeat.
        member: the member.
        settings: those of the group.
        response: the answer to this one, which is the same without an assignment.
    """
    group = step.group
    assert group.members.get(member.member_id) is member, f"{member} is not in {group}"
    assert response.member_epoch == member.epoch, f"{member} is answered with another epoch"
    member.client = step.context.client
    member.settings = settings
    at_rest = member.state is MemberState.STABLE and member.epoch == group.target_epoch
    if not at_rest or group.epoch != group.target_epoch or group.by_regex:
        member.answer = None
        return
    if response.assignment is not None:
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
        )
    member.answer = response


def new_member_id(uuid: str) -> str:
    """Return a member id as Kafka makes it: a UUID in the letters of base64.

    Transcripts count their ids, and these stay what they are.
    """
    return uuid_text(bytes.fromhex(uuid.replace("-", ""))) if len(uuid) == _UUID_LENGTH else uuid


_VERBS = HeartbeatVerbs(ConsumerGroup, leave, _step, _beat)
