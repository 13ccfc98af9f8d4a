"""ShareGroupHeartbeat: one request joins, subscribes, is assigned and leaves.

The order of what an accepted heartbeat does [share-groups/heartbeat-order]: the subscription, the
epoch of the group, the target, the member's part of it, its session, partitions to initialize, the
answer. All records are one batch.
"""

from coterie.assignors.model import utf16
from coterie.coordinator.groups.epochs import JOIN_EPOCH, Bump, may_have_other_topics
from coterie.coordinator.groups.member_facts import joined_fact
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.heartbeat import (
    HeartbeatVerbs,
    first_step,
    handle_heartbeat,
)
from coterie.coordinator.groups.recorded.lookup import (
    check_room,
    check_room_for_group,
    find_group,
    no_group,
)
from coterie.coordinator.groups.recorded.target import begin_computation
from coterie.coordinator.groups.sessions import start_session
from coterie.coordinator.groups.share.epochs import bump_if_needed
from coterie.coordinator.groups.share.group import SHARE, ShareGroup
from coterie.coordinator.groups.share.initialization import ask_for_state, begin_initialization
from coterie.coordinator.groups.share.lookup import find_member
from coterie.coordinator.groups.share.member import Partitions, ShareMember
from coterie.coordinator.groups.share.members import leave
from coterie.coordinator.groups.share.step import Step
from coterie.coordinator.groups.share.target import take_target, update_target
from coterie.coordinator.groups.share.timers import TimerKind
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareHeartbeatAssignment,
    ShareHeartbeatTopicPartitions,
)
from coterie.protocol.messages.share_group_records import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
)


def heartbeat(
    partition: PartitionState,
    now_ms: int,
    request: ShareGroupHeartbeatRequest,
    context: RequestContext,
) -> Effects[ShareGroupHeartbeatResponse]:
    """Handle a ShareGroupHeartbeat whose fields were checked."""
    return handle_heartbeat(_VERBS, partition, now_ms, request, context)


def _step(
    partition: PartitionState,
    now_ms: int,
    request: ShareGroupHeartbeatRequest,
    context: RequestContext,
) -> Step:
    """Return a step of the group, which may be a new one.

    Raises:
        Refusal: there is no such group, or it is of another type.
    """
    group_id = request.group_id
    found = find_group(partition, group_id, ShareGroup)
    if found is not None:
        return Step(partition, found, now_ms, context)
    if request.member_epoch != JOIN_EPOCH:
        raise no_group(group_id, "Share group")
    check_room_for_group(partition)
    return first_step(Step, ShareGroup, partition, group_id, now_ms, context)


def _beat(step: Step, request: ShareGroupHeartbeatRequest) -> Effects[ShareGroupHeartbeatResponse]:
    """Handle a heartbeat that does not leave.

    Raises:
        Refusal: the group has no room, or the member does not know its epoch.
    """
    group, member_id = step.group, request.member_id
    if member_id not in group.members:
        check_room(group, step.partition.config.share.max_size)
    known = find_member(group, member_id, request.member_epoch)
    before: Partitions | None = None if known is None else known.assigned
    topics_changed = may_have_other_topics(group)
    cause = _subscribe(step, known, request)
    member = group.members[member_id]
    bump_if_needed(step, member, cause, changed=topics_changed)
    update_target(step)
    take_target(step, member)
    begun = begin_initialization(step)
    step.require_fit()
    ask_for_state(step, begun)
    begin_computation(step, TimerKind.TARGET)
    if step.effects.operation is None:
        group.note_rest()
    settings = step.partition.share_settings(group.group_id)
    start_session(step, member, TimerKind.SESSION, settings.session_timeout_ms)
    if known is None:
        step.note(joined_fact(group, member, [SHARE], step.context.client, step.now_ms))
    has_assignment = (
        request.member_epoch == JOIN_EPOCH
        or request.subscribed_topic_names is not None
        or member.assigned != before
    )
    response = ShareGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        assignment=_assignment(member.assigned) if has_assignment else None,
    )
    member.client, member.settings = step.context.client, settings
    member.answer = None if has_assignment or step.effects.operation is not None else response
    step.effects.response = response
    return step.effects


def _subscribe(
    step: Step, member: ShareMember | None, request: ShareGroupHeartbeatRequest
) -> Bump | None:
    """Write what the heartbeat changes of its member; return why that raises the epoch, or None."""
    client, names = step.context.client, request.subscribed_topic_names
    before = None if member is None else member.subscription
    old_names = [] if before is None else before.subscribed_topic_names
    old_rack = None if before is None else before.rack_id
    value = ShareGroupMemberMetadataValue(
        rack_id=old_rack if request.rack_id is None else request.rack_id,
        client_id=client.client_id,
        client_host=client.client_host,
        subscribed_topic_names=old_names if names is None else sorted(set(names), key=utf16),
    )
    if value != before:
        key = ShareGroupMemberMetadataKey(group_id=step.group.group_id, member_id=request.member_id)
        step.set(key, value)
    if set(old_names) == set(value.subscribed_topic_names):
        return None
    return Bump.JOIN if member is None else Bump.SUBSCRIPTION


def _assignment(assigned: Partitions) -> ShareHeartbeatAssignment:
    return ShareHeartbeatAssignment(
        topic_partitions=[
            ShareHeartbeatTopicPartitions(topic_id=topic_id, partitions=list(indexes))
            for topic_id, indexes in sorted(assigned.items())
        ]
    )


_VERBS = HeartbeatVerbs(ShareGroup, leave, _step, _beat)
