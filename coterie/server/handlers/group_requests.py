"""The requests about groups that the group coordinator answers alone.

OffsetCommit, OffsetFetch and OffsetDelete have modules of their own, because the server checks
their topics, and ListGroups has one, because its response is made in slices. DescribeGroups and
DeleteGroups of many groups are handled in slices, too (many_groups.py).
"""

from collections.abc import Callable, Generator
from typing import Any

from coterie.coordinator.groups.consumer.describe import described_in_steps
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.recorded.refusal import heartbeat_error
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from coterie.protocol.refusals import refusal
from coterie.protocol.wire import Message
from coterie.server.coordinators.runtime import context_of
from coterie.server.handlers.many_groups import (
    GROUPS_TOGETHER,
    MEMBERS_TOGETHER,
    OWNED_TOGETHER,
    PartedRequest,
    parts_of,
)
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.network.sliced_response import run_in_slices
from coterie.server.services import Services


def join_group(
    broker: Services, request: JoinGroupRequest, connection: Exchange
) -> JoinGroupResponse | None:
    """Join a group; the response is delayed until the join phase ends, and mutes the connection."""
    delayed = DelayedResponse(connection)
    context = context_of(connection, delayed)
    effects = broker.coordinator.join_group(connection.now_ms, request, context)
    return broker.groups.answer(effects, delayed, mutes_connection=True)


def sync_group(
    broker: Services, request: SyncGroupRequest, connection: Exchange
) -> SyncGroupResponse | None:
    """Store or await an assignment; a delayed response mutes the connection."""
    delayed = DelayedResponse(connection)
    context = context_of(connection, delayed)
    effects = broker.coordinator.sync_group(connection.now_ms, request, context)
    return broker.groups.answer(effects, delayed, mutes_connection=True)


def heartbeat(
    broker: Services, request: HeartbeatRequest, connection: Exchange
) -> HeartbeatResponse | None:
    """Extend a session.

    Heartbeats are the most frequent requests and never delayed, so they skip `submit`.
    """
    effects = broker.coordinator.heartbeat(connection.now_ms, request)
    if effects.moves_deadline:
        broker.groups.apply(effects)
    return effects.response


def tells_nothing(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether a heartbeat only says who is alive, as those of members at rest do."""
    return (
        request.member_epoch > 0
        and request.topic_partitions is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
    )


def consumer_group_heartbeat(
    broker: Services,
    request: ConsumerGroupHeartbeatRequest,
    connection: Exchange,
    handled: Callable[[], None] = lambda: None,
) -> ConsumerGroupHeartbeatResponse | None:
    """Join a consumer group, keep in it, reconcile, or leave it.

    Most heartbeats change nothing, and skip `submit`. One that upgrades a large classic group waits
    until its members are converted, in slices.

    Args:
        broker: the broker.
        request: the heartbeat.
        connection: its connection.
        handled: called after the coordinator has handled a heartbeat that may change something.
    """
    if not broker.features.serves_consumer_groups:
        not_served: ConsumerGroupHeartbeatResponse = heartbeat_error(
            request, ErrorCode.UNSUPPORTED_VERSION
        )
        return not_served
    now_ms, client = connection.now_ms, connection.client
    response: ConsumerGroupHeartbeatResponse | None = broker.coordinator.unchanged_heartbeat(
        now_ms, request, client
    )
    if response is not None:
        return response
    verb = broker.coordinator.consumer_group_heartbeat
    steps = broker.coordinator.conversion_steps(request) if not request.member_epoch else None
    if steps is None:
        response = broker.groups.submit(verb, request, connection)
        handled()
        return response
    delayed = DelayedResponse(connection)
    context = RequestContext(client, connection.version, delayed)
    connection.delay_and_mute(delayed)

    def converted(_: None) -> None:
        broker.groups.submit_delayed(verb, request, context, delayed)
        handled()

    run_in_slices(broker, connection, steps, converted)
    return None


def leave_group(
    broker: Services, request: LeaveGroupRequest, connection: Exchange
) -> LeaveGroupResponse | None:
    """Remove members from their group."""
    return broker.groups.submit(broker.coordinator.leave_group, request, connection)


def describe_groups(
    broker: Services, request: DescribeGroupsRequest, connection: Exchange
) -> DescribeGroupsResponse | None:
    """Describe groups, each once [administration/describe]."""
    # Kafka describes a group as often as the request names it. A small request that names a group
    # of a thousand members a thousand times would need a response of a gigabyte.
    groups = request.groups = list(dict.fromkeys(request.groups))
    if len(groups) > GROUPS_TOGETHER:
        with_operations = request.include_authorized_operations
        parted = PartedRequest(
            broker,
            connection,
            broker.coordinator.describe_groups,
            lambda parts: DescribeGroupsResponse(
                groups=[one for each in parts for one in each.groups]
            ),
        )
        parted.submit(
            [
                DescribeGroupsRequest(groups=part, include_authorized_operations=with_operations)
                for part in parts_of(groups)
            ]
        )
        return None
    return broker.groups.submit(broker.coordinator.describe_groups, request, connection)


def consumer_group_describe(
    broker: Services, request: ConsumerGroupDescribeRequest, connection: Exchange
) -> ConsumerGroupDescribeResponse | None:
    """Describe consumer groups, each once [administration/describe]."""
    groups = request.group_ids = list(dict.fromkeys(request.group_ids))
    if not broker.features.serves_consumer_groups:
        not_served: ConsumerGroupDescribeResponse = refusal(
            request, ErrorCode.UNSUPPORTED_VERSION, connection.version
        )
        return not_served
    if len(groups) > GROUPS_TOGETHER or _have_many_members(broker, groups):
        with_operations = request.include_authorized_operations
        parted = _DescribedInParts(
            broker, connection, broker.coordinator.see_consumer_groups, _all_groups
        )
        parted.submit(
            [
                ConsumerGroupDescribeRequest(
                    group_ids=part, include_authorized_operations=with_operations
                )
                # Those without an id come first, as in Kafka.
                for part in parts_of(sorted(groups, key=bool))
            ]
        )
        return None
    return broker.groups.submit(broker.coordinator.consumer_group_describe, request, connection)


def _have_many_members(broker: Services, group_ids: list[str]) -> bool:
    """Return whether some consumer groups together take long to describe."""
    found = [
        group
        for group in map(broker.coordinator.group, group_ids)
        if isinstance(group, ConsumerGroup)
    ]
    return (
        sum(len(group.members) for group in found) > MEMBERS_TOGETHER
        or sum(group.owned_count for group in found) > OWNED_TOGETHER
    )


def _all_groups(parts: list[Any]) -> list[Any]:
    return [one for each in parts for one in each.groups]


class _DescribedInParts(PartedRequest):
    """Large consumer groups: what is seen of each at once is described in slices."""

    def join(self, responses: list[Any]) -> Generator[None, None, ConsumerGroupDescribeResponse]:
        """See `PartedRequest`."""
        seen = yield from super().join(responses)
        whole = ConsumerGroupDescribeResponse(groups=[])
        for each in seen:
            described = yield from described_in_steps(each)
            whole.groups.append(described)
        return whole


def delete_groups(
    broker: Services, request: DeleteGroupsRequest, connection: Exchange
) -> DeleteGroupsResponse | None:
    """Delete empty groups and their offsets.

    A group that is listed twice counts once [administration/delete].
    """
    names = request.groups_names = list(dict.fromkeys(request.groups_names))
    if len(names) > GROUPS_TOGETHER:
        parted = PartedRequest(
            broker,
            connection,
            broker.coordinator.delete_groups,
            lambda parts: DeleteGroupsResponse(
                results=[one for each in parts for one in each.results]
            ),
        )
        parted.submit([DeleteGroupsRequest(groups_names=part) for part in parts_of(names)])
        return None
    return broker.groups.submit(broker.coordinator.delete_groups, request, connection)


GROUP_HANDLERS: dict[ApiKey, Callable[[Any, Any, Any], Message | None]] = {
    ApiKey.JOIN_GROUP: join_group,
    ApiKey.SYNC_GROUP: sync_group,
    ApiKey.HEARTBEAT: heartbeat,
    ApiKey.LEAVE_GROUP: leave_group,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_group_describe,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.DELETE_GROUPS: delete_groups,
}
