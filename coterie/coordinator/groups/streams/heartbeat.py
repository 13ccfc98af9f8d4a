"""StreamsGroupHeartbeat: one request joins, reports, reconciles and leaves.

The order of what an accepted heartbeat does [streams-groups/heartbeat-order]: the description of
the member, the topology and its tasks, the epoch of the group, the target, the reconciliation of
the member, its session, the answer. All records are one batch.
"""

from coterie.coordinator.groups.classic.group import classic
from coterie.coordinator.groups.classic.group_record import group_tombstone
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
    no_group,
    other_type,
)
from coterie.coordinator.groups.recorded.target import begin_computation
from coterie.coordinator.groups.sessions import start_session
from coterie.coordinator.groups.streams.endpoints import partitions_by_endpoint
from coterie.coordinator.groups.streams.epochs import bump_if_needed, look_at_topics
from coterie.coordinator.groups.streams.group import STREAMS, StreamsGroup, describes_nothing
from coterie.coordinator.groups.streams.lookup import find_member
from coterie.coordinator.groups.streams.member import StreamsMember
from coterie.coordinator.groups.streams.members import (
    leave,
    reconcile_member,
    time_revocation,
)
from coterie.coordinator.groups.streams.statuses import statuses_of
from coterie.coordinator.groups.streams.step import Step
from coterie.coordinator.groups.streams.target import begin_delay, update_target
from coterie.coordinator.groups.streams.tasks import NO_TASKS, reported_tasks, response_tasks
from coterie.coordinator.groups.streams.timers import TimerKind
from coterie.coordinator.groups.streams.topology import (
    check_tasks,
    configured_topology,
    take_topology,
)
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.coordinator.streams_topology.model import ConfiguredTopology
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from coterie.protocol.messages.streams_group_records import (
    StreamsEndpoint,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsKeyValue,
)

# The effects of a heartbeat.
Beat = Effects[StreamsGroupHeartbeatResponse]


def heartbeat(
    partition: PartitionState,
    now_ms: int,
    request: StreamsGroupHeartbeatRequest,
    context: RequestContext,
) -> Beat:
    """Handle a StreamsGroupHeartbeat whose fields were checked."""
    return handle_heartbeat(_VERBS, partition, now_ms, request, context)


def _step(
    partition: PartitionState,
    now_ms: int,
    request: StreamsGroupHeartbeatRequest,
    context: RequestContext,
) -> Step:
    """Return a step of the group, which may be a new one [streams-groups/member-epochs].

    Raises:
        Refusal: there is no such group, it is of another type, or it has no room.
    """
    group_id = request.group_id
    found = partition.groups.get(group_id)
    joins = request.member_epoch == JOIN_EPOCH
    if isinstance(found, StreamsGroup):
        if joins:
            # As in Kafka, also for a member that is in the group already.
            check_room(found, partition.config.streams.max_size)
        return Step(partition, found, now_ms, context)
    before = classic(found)
    converts = joins and before is not None and before.is_empty
    if found is not None and not converts:
        raise other_type(group_id, StreamsGroup)
    if found is None:
        if not joins:
            raise no_group(group_id, "Streams group")
        check_room_for_group(partition)
    step = first_step(Step, StreamsGroup, partition, group_id, now_ms, context)
    if converts:
        step.replaces = before
        step.write(group_tombstone(group_id))
    return step


def _beat(step: Step, request: StreamsGroupHeartbeatRequest) -> Beat:
    """Handle a heartbeat that does not leave.

    Raises:
        Refusal: the member does not know its epoch, or its topology or its tasks are not valid.
    """
    group, member_id = step.group, request.member_id
    tasks = reported_tasks(request.active_tasks, request.standby_tasks, request.warmup_tasks)
    known = find_member(group, member_id, request.member_epoch, tasks)
    before = NO_TASKS if known is None else known.assigned
    is_first = not group.members
    topics_changed = may_have_other_topics(group)
    former_process = None if known is None else known.process_id
    cause = _describe(step, known, request)
    member = group.members[member_id]
    if former_process is None:
        former_process = member.process_id
    has_topology = group.topology is not None
    take_topology(step, request.topology)
    found = group.metadata_hash
    if not topics_changed:
        group.checked_version = group.topics.version
    if topics_changed or not has_topology or group.configured is None:
        found = look_at_topics(step)
    configured = configured_topology(group)
    check_tasks(configured, tasks)
    bump_if_needed(step, member, cause, found, configured)
    delayed = update_target(step, configured, is_first=is_first)
    reconcile_member(step, member, tasks, former_process)
    step.require_fit()
    begin_computation(step, TimerKind.TARGET)
    if is_first:
        begin_delay(step)
    time_revocation(step, member)
    settings = step.partition.streams_settings(group.group_id)
    start_session(step, member, TimerKind.SESSION, settings.session_timeout_ms)
    if known is None:
        step.note(joined_fact(group, member, [STREAMS], step.context.client, step.now_ms))
    shutdown_by = group.shutdown_by
    if request.shutdown_application and shutdown_by is None:
        shutdown_by = member_id
        if not step.creates:
            group.shutdown_by = member_id
    response = StreamsGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        status=statuses_of(group, member, configured, delayed, shutdown_by),
    )
    has_tasks = request.member_epoch == JOIN_EPOCH or member.assigned != before
    if has_tasks:
        response.active_tasks = response_tasks(member.assigned.active)
        response.standby_tasks = response_tasks(member.assigned.standby)
        response.warmup_tasks = response_tasks(member.assigned.warmup)
    _set_endpoints(step, request, response, member, configured, has_tasks=has_tasks)
    member.client, member.settings = step.context.client, settings
    # This response can be repeated only if it has no tasks, endpoints or warnings.
    once = has_tasks or response.status or response.partitions_by_user_endpoint is not None
    member.answer = response if member.is_settled(group.target_epoch) and not once else None
    step.effects.response = response
    return step.effects


def _describe(
    step: Step, member: StreamsMember | None, request: StreamsGroupHeartbeatRequest
) -> Bump | None:
    """Write what the heartbeat changes of its member; return why that raises the epoch, or None."""
    client = step.context.client
    old = None if member is None else member.description
    timeout_ms, topology = request.rebalance_timeout_ms, request.topology
    endpoint, tags = request.user_endpoint, request.client_tags
    if old is not None and describes_nothing(request):
        known = old.instance_id, old.client_id, old.client_host
        if known == (None, client.client_id, client.client_host):
            return None
    old_timeout_ms = -1 if old is None else old.rebalance_timeout_ms
    old_epoch = -1 if old is None else old.topology_epoch
    value = StreamsGroupMemberMetadataValue(
        instance_id=None,
        rack_id=(None if old is None else old.rack_id) if request.rack_id is None
        else request.rack_id,
        client_id=client.client_id,
        client_host=client.client_host,
        rebalance_timeout_ms=old_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=old_epoch if topology is None else topology.epoch,
        process_id=("" if old is None else old.process_id) if request.process_id is None
        else request.process_id,
        user_endpoint=(None if old is None else old.user_endpoint) if endpoint is None
        else StreamsEndpoint(host=endpoint.host, port=endpoint.port),
        client_tags=([] if old is None else old.client_tags) if tags is None
        else _tags({each.key: each.value for each in tags}),
    )  # fmt: skip
    if value == old:
        return None
    key = StreamsGroupMemberMetadataKey(group_id=step.group.group_id, member_id=request.member_id)
    step.set(key, value)
    return Bump.JOIN if member is None else Bump.SUBSCRIPTION


def _tags(tags: dict[str, str]) -> list[StreamsKeyValue]:
    return [StreamsKeyValue(key=key, value=value) for key, value in sorted(tags.items())]


def _set_endpoints(
    step: Step,
    request: StreamsGroupHeartbeatRequest,
    response: StreamsGroupHeartbeatResponse,
    member: StreamsMember,
    configured: ConfiguredTopology,
    *,
    has_tasks: bool,
) -> None:
    """Return the endpoints to a member with another epoch of them [streams-groups/endpoints].

    As in Kafka the rise is lost with the answer that creates a group or converts one. The answer
    that creates it has the epoch 0.
    """
    group = step.group
    epoch = group.endpoint_epoch + (has_tasks and member.endpoint is not None)
    if epoch != request.endpoint_information_epoch:
        response.partitions_by_user_endpoint = partitions_by_endpoint(
            group, configured, member.member_id
        )
    if not step.creates or step.replaces is not None:
        response.endpoint_information_epoch = epoch
    if not step.creates:
        group.endpoint_epoch = epoch


_VERBS = HeartbeatVerbs(StreamsGroup, leave, _step, _beat)
