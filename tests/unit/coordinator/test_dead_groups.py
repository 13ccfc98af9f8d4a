"""Answers of a Dead group, and of an Empty group that has an instance.

No client can observe either: a group is Dead when its partition is given up, and then the partition
refuses the request first. Kafka's unit tests have these cases too (scenarios S7, S71, S72, S86 and
S92 of scenarios.tsv), as a second line of defence.

Rules: [coordinator/unload], [static-membership/replacement].
"""

import itertools
from typing import Any

import pytest

from coterie.coordinator.groups.classic.group import classic
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.service import GroupCoordinator
from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_delete import OffsetDeleteRequest
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from coterie.protocol.messages.sync_group import SyncGroupRequest
from tests.unit.coordinator.harness import answered

NOW_MS = 1_000_000
CLIENT = ClientContext(client_host="/127.0.0.1", client_id="c1")
CONTEXT = RequestContext(CLIENT, 5, "address")


def join(member_id: str = "", instance: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


@pytest.fixture
def coordinator() -> GroupCoordinator:
    """Return a coordinator with a group "g" that a static and a dynamic member are joining."""
    numbers = itertools.count(1)
    coordinator = GroupCoordinator(
        GroupConfig(offsets_topic_num_partitions=1), lambda: str(next(numbers)), NOW_MS
    )
    assert coordinator.begin_load(0, 0)
    coordinator.finish_load(0, NOW_MS)
    effects = coordinator.join_group(NOW_MS, join(instance="i1"), RequestContext(CLIENT, 5, "one"))
    coordinator.appended([(0, len(effects.appends))], NOW_MS)
    coordinator.join_group(NOW_MS, join(), RequestContext(CLIENT, 3, "two"))
    return coordinator


@pytest.fixture
def dead(coordinator: GroupCoordinator) -> GroupCoordinator:
    group = classic(coordinator.group("g"))
    assert group is not None
    group.transition(GroupState.DEAD, NOW_MS)
    return coordinator


@pytest.mark.parametrize(
    "request_",
    [
        join(),
        join(instance="i1"),
        join(instance="new"),
        join("c1-2"),
        join("i1-1", "i1"),
        join("unknown"),
    ],
    ids=lambda request: f"{request.member_id or 'blank'}-{request.group_instance_id}",
)
def test_dead_group_refuses_joins(dead: GroupCoordinator, request_: JoinGroupRequest) -> None:
    response = answered(dead.join_group(NOW_MS, request_, CONTEXT))
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert response.member_id == request_.member_id


@pytest.mark.parametrize("member_id", ["c1-2", "unknown"])
def test_dead_group_refuses_syncs_and_heartbeats(dead: GroupCoordinator, member_id: str) -> None:
    sync = SyncGroupRequest(
        group_id="g",
        generation_id=0,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[],
    )
    beat = HeartbeatRequest(group_id="g", generation_id=0, member_id=member_id)
    refused = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert answered(dead.sync_group(NOW_MS, sync, CONTEXT)).error_code == refused
    assert answered(dead.heartbeat(NOW_MS, beat)).error_code == refused


def test_dead_group_refuses_leaves(dead: GroupCoordinator) -> None:
    request = LeaveGroupRequest(group_id="g", members=[LeaveGroupRequestMember(member_id="c1-2")])
    response = answered(dead.leave_group(NOW_MS, request, CONTEXT))
    assert (response.error_code, response.members) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])


@pytest.mark.parametrize("generation_id", [-1, 0])
def test_dead_group_refuses_commits(dead: GroupCoordinator, generation_id: int) -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=None
    )
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=generation_id,
        member_id="",
        topics=[OffsetCommitRequestTopic(name="sales", partitions=[partition])],
    )
    response = answered(dead.offset_commit(NOW_MS, request, CONTEXT))
    code = response.topics[0].partitions[0].error_code
    assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_dead_group_has_no_offsets_and_cannot_be_administered(dead: GroupCoordinator) -> None:
    fetch = OffsetFetchRequest(
        group_id="g", topics=[OffsetFetchRequestTopic(name="sales", partition_indexes=[0])]
    )
    (topic,) = answered(dead.offset_fetch(NOW_MS, fetch, CONTEXT)).topics
    assert (topic.partitions[0].committed_offset, topic.partitions[0].error_code) == (-1, 0)
    delete = OffsetDeleteRequest(group_id="g", topics=[])
    assert answered(dead.offset_delete(NOW_MS, delete, CONTEXT)).error_code == (
        ErrorCode.GROUP_ID_NOT_FOUND
    )
    describe = DescribeGroupsRequest(groups=["g"])
    (described,) = answered(dead.describe_groups(NOW_MS, describe, CONTEXT)).groups
    assert (described.group_state, described.error_code) == ("Dead", ErrorCode.NONE)
    groups = DeleteGroupsRequest(groups_names=["g"])
    (result,) = answered(dead.delete_groups(NOW_MS, groups, CONTEXT)).results
    assert result.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_timers_of_a_dead_group_do_nothing(dead: GroupCoordinator) -> None:
    later_ms = NOW_MS + 400_000
    effects = dead.advance(later_ms)
    assert not effects.replies
    assert not effects.appends


def test_replacement_in_an_empty_group_is_an_internal_error(coordinator: GroupCoordinator) -> None:
    group: Any = coordinator.group("g")
    group.state = GroupState.EMPTY
    response = answered(coordinator.join_group(NOW_MS, join(instance="i1"), CONTEXT))
    assert (response.error_code, response.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")
