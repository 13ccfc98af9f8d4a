"""A consumer of one request after another, for commands that read the group of a running broker."""

from typing import Any

from coterie.client.cluster import Cluster
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from coterie.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from coterie.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
)
from coterie.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

GROUP = "g"
SESSION_MS = 30_000


def _call(cluster: Cluster, request: Any, response_type: Any) -> Any:
    """Send a request to the group's coordinator and return its response."""
    group_id = request.group_id
    return cluster.call_coordinators(
        [group_id],
        lambda _: request,
        response_type,
        lambda response: {group_id: (response.error_code, response)},
    )[group_id]


def join(
    cluster: Cluster, instance: str | None = None, group_id: str = GROUP, **topics: list[int]
) -> str:
    """Join the group as its only member and take these partitions; return the member id."""
    subscription = ConsumerProtocolSubscription(topics=sorted(topics))
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id="",
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[
            JoinGroupRequestProtocol(name="range", metadata=encode_subscription(subscription))
        ],
    )
    joined = _call(cluster, request, JoinGroupResponse)
    if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        request.member_id = joined.member_id
        joined = _call(cluster, request, JoinGroupResponse)
    assert joined.error_code == ErrorCode.NONE
    member_id: str = joined.member_id
    assigned = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic=t, partitions=p) for t, p in topics.items()]
    )
    synced = _call(
        cluster,
        SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=member_id, assignment=encode_assignment(assigned)
                )
            ],
        ),
        SyncGroupResponse,
    )
    assert synced.error_code == ErrorCode.NONE
    return member_id


def leave(
    cluster: Cluster, member_id: str, reason: str | None = None, group_id: str = GROUP
) -> None:
    """Leave the group."""
    member = LeaveGroupRequestMember(member_id=member_id, reason=reason)
    request = LeaveGroupRequest(group_id=group_id, member_id=member_id, members=[member])
    assert not _call(cluster, request, LeaveGroupResponse).error_code
