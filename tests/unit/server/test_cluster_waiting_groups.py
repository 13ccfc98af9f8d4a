"""Groups while too few replicas of their log are in sync: answers come late, nothing is undone."""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coterie.server.cluster.image import CoordinatorType
from tests.unit.server.cluster import ManualCluster
from tests.unit.server.cluster_requests import (
    commit,
    committed,
    committing,
    coordinator,
    create,
    form,
    heartbeat,
    join,
    others,
)
from tests.unit.server.manual import Client

OK = ErrorCode.NONE
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


class Outage:
    """A cluster whose coordinator of the group "g" is alone.

    Attributes:
        cluster: the cluster.
        node_id: the coordinator.
        client: a client of it.
        member_id: the member of the group "g", which was formed before.
    """

    def __init__(self) -> None:
        self.cluster = ManualCluster({"min.insync.replicas": "2"})
        create(self.cluster.client(1))
        self.node_id = coordinator(self.cluster)
        self.client = self.connect()
        self.member_id = form(self.client)
        assert commit(self.client, 5, member_id=self.member_id) == [OK]
        self.gone = others(self.cluster, self.node_id)
        for each in self.gone:
            self.cluster.cluster.kill(each)

    def connect(self) -> Client:
        return self.cluster.client(self.node_id)

    def late(self, request: Any, version: int) -> Any:
        """Send a request that is answered after five seconds; return the answer."""
        client = self.connect()
        client.send(request, version)
        self.cluster.loop.advance(4_900)
        assert client.answers() == []
        self.cluster.loop.advance(200)
        ((_, answer),) = client.answers()
        return answer

    def recover(self) -> None:
        self.cluster.complete(self.cluster.cluster.start_broker(self.gone[0]))
        self.cluster.loop.turn()


def syncing(member_id: str, generation: int) -> SyncGroupRequest:
    assignments = [SyncGroupRequestAssignment(member_id=member_id, assignment=b"new")]
    return SyncGroupRequest(
        group_id="g", generation_id=generation, member_id=member_id, assignments=assignments
    )


def same_partition(group: str) -> str:
    """Return the id of another group in the partition of a group."""
    image = ManualCluster().leadership.image
    place = image.coordinator_partition(CoordinatorType.GROUP, group)
    ids = (f"g{each}" for each in range(100))
    return next(
        each for each in ids if image.coordinator_partition(CoordinatorType.GROUP, each) == place
    )


def test_commit_is_refused_late_and_counts_afterwards() -> None:
    outage = Outage()
    answer = outage.late(committing(6, member_id=outage.member_id), 7)
    assert answer.topics[0].partitions[0].error_code == NOT_AVAILABLE
    assert committed(outage.client, "g") == [(OK, 5)]
    assert heartbeat(outage.client, outage.member_id) == OK
    outage.recover()
    assert committed(outage.client, "g") == [(OK, 6)]
    assert commit(outage.client, 7, member_id=outage.member_id) == [OK]


def test_many_late_operations_are_answered_in_several_calls() -> None:
    outage = Outage()
    for number in range(250):
        outage.client.send(committing(number, member_id=outage.member_id), 7)
    outage.cluster.loop.advance(5_100)
    errors = [each.topics[0].partitions[0].error_code for _, each in outage.client.answers()]
    assert errors == [NOT_AVAILABLE] * 250
    outage.recover()
    assert committed(outage.client, "g") == [(OK, 249)]


def test_offsets_from_before_are_read_meanwhile() -> None:
    outage = Outage()
    new = same_partition("g")
    waiting = outage.connect()
    waiting.send(committing(6, member_id=outage.member_id), 7)
    waiting.send(committing(3, group=new), 7)
    outage.cluster.loop.turn()
    assert committed(outage.client, "g", new) == [(OK, 5), (OK, -1)]
    outage.recover()
    answers = [each.topics[0].partitions[0].error_code for _, each in waiting.answers()]
    assert answers == [OK, OK]
    assert committed(outage.client, "g", new) == [(OK, 6), (OK, 3)]


def test_what_is_refused_is_answered_at_once() -> None:
    outage = Outage()
    request = committing(6, member_id="unknown")
    answer = outage.client.call(request, 7)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_new_member_gets_its_id_at_once() -> None:
    outage = Outage()
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    joining = JoinGroupRequest(
        group_id=same_partition("g"), session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
        member_id="", protocol_type="consumer", protocols=protocols,
    )  # fmt: skip
    answer = outage.client.call(joining, 9)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id


def test_assignment_is_refused_and_the_group_rebalances() -> None:
    outage = Outage()
    member_id = outage.member_id
    assert join(outage.client, member_id).generation_id == 2
    assert outage.late(syncing(member_id, 2), 2).error_code == NOT_AVAILABLE
    assert heartbeat(outage.client, member_id, generation=2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert join(outage.client, member_id).generation_id == 3
    outage.recover()
    answer = outage.client.call(syncing(member_id, 3), 2)
    assert (answer.error_code, answer.assignment) == (OK, b"new")


def test_assignment_counts_if_a_replica_is_back_in_time() -> None:
    outage = Outage()
    member_id = outage.member_id
    assert join(outage.client, member_id).generation_id == 2
    waiting = outage.connect()
    waiting.send(syncing(member_id, 2), 2)
    outage.cluster.loop.advance(3_000)
    outage.recover()
    assert [each.error_code for _, each in waiting.answers()] == [OK]
    assert heartbeat(outage.client, member_id, generation=2) == OK
    outage.cluster.loop.advance(3_000)
    assert heartbeat(outage.client, member_id, generation=2) == OK


def test_member_has_left_although_it_is_refused() -> None:
    outage = Outage()
    members = [LeaveGroupRequestMember(member_id=outage.member_id)]
    answer = outage.late(LeaveGroupRequest(group_id="g", members=members), 4)
    assert (answer.error_code, answer.members) == (NOT_AVAILABLE, [])
    assert heartbeat(outage.client, outage.member_id) == ErrorCode.UNKNOWN_MEMBER_ID


def test_group_is_deleted_although_it_is_refused() -> None:
    outage = Outage()
    members = [LeaveGroupRequestMember(member_id=outage.member_id)]
    outage.late(LeaveGroupRequest(group_id="g", members=members), 4)
    answer = outage.late(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert [each.error_code for each in answer.results] == [NOT_AVAILABLE]
    assert committed(outage.client, "g") == [(OK, 5)]
    outage.recover()
    assert committed(outage.client, "g") == [(OK, -1)]


def test_consumer_joins_although_it_is_refused() -> None:
    outage = Outage()
    group = same_partition("g")
    joining = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="m", member_epoch=0, rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"], topic_partitions=[],
    )  # fmt: skip
    answer = outage.late(joining, 1)
    assert (answer.error_code, answer.error_message, answer.member_epoch) == (
        NOT_AVAILABLE,
        None,
        0,
    )
    outage.recover()
    assert outage.client.call(joining, 1).error_code == OK


@pytest.mark.parametrize("version", [5, 9])
def test_static_member_takes_its_place_although_it_is_refused(version: int) -> None:
    outage = Outage()
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    joining = JoinGroupRequest(
        group_id=same_partition("g"), session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
        member_id="", group_instance_id="i", protocol_type="consumer", protocols=protocols,
    )  # fmt: skip
    outage.recover()
    client = outage.connect()
    client.send(joining, version)
    outage.cluster.loop.advance(1)
    ((_, first),) = client.answers()
    assert first.error_code == OK
    assignments = [SyncGroupRequestAssignment(member_id=first.member_id, assignment=b"all")]
    request = SyncGroupRequest(
        group_id=joining.group_id, generation_id=1, member_id=first.member_id,
        group_instance_id="i", assignments=assignments,
    )  # fmt: skip
    assert client.call(request, 3).error_code == OK
    outage.cluster.cluster.kill(outage.gone[0])
    answer = outage.late(joining, version)
    assert (answer.error_code, answer.member_id) == (NOT_AVAILABLE, "")
    assert (answer.generation_id, answer.members) == (1, [])
    assert heartbeat(client, first.member_id, joining.group_id) == ErrorCode.UNKNOWN_MEMBER_ID
    outage.recover()
    assert heartbeat(client, answer.leader, joining.group_id) == OK
