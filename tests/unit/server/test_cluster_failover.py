"""Several brokers in one process: what happens when one goes, comes or leads no longer."""

from collections.abc import Sequence
from typing import Any

import pytest

from coterie.address import Address
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestPartition,
    AlterPartitionReassignmentsRequestTopic,
)
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.describe_cluster import DescribeClusterRequest
from coterie.protocol.messages.elect_leaders import (
    PREFERRED,
    UNCLEAN,
    ElectLeadersRequest,
    ElectLeadersRequestTopic,
)
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
)
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from coterie.protocol.records import Record, encode_records
from coterie.server.brokers import UnknownNode
from coterie.server.cluster.image import CoordinatorType
from coterie.server.config.listeners import Listener
from tests.unit.server.cluster import ManualCluster
from tests.unit.server.cluster_requests import (
    NOT_COORDINATOR,
    NOT_LEADER,
    commit,
    committed,
    coordinator,
    create,
    described,
    fetch,
    form,
    heartbeat,
    latest_offset,
    others,
    produce,
    produced,
)
from tests.unit.server.manual import COMMIT, Client


def test_killed_broker_is_followed_by_the_next_replica() -> None:
    cluster = ManualCluster()
    create(cluster.client(1), partitions=3)
    before = described(cluster.client(1))
    dead = before[0][0]
    left = cluster.client(others(cluster, dead)[0])
    waiting = cluster.client(dead)
    cluster.cluster.kill(dead)
    assert waiting.transport.closed
    for (leader, epoch, replicas, _, _), now in zip(before, described(left), strict=True):
        isr = [each for each in replicas if each != dead]
        moved = leader == dead
        assert now == (isr[0] if moved else leader, epoch + moved, replicas, isr, [dead])
    brokers = left.call(MetadataRequest(topics=[]), 9).brokers
    assert [each.node_id for each in brokers] == others(cluster, dead)
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, include_fenced_brokers=True
    )
    listed = left.call(request, 2).brokers
    assert [(each.broker_id, each.is_fenced) for each in listed] == [
        (each, each == dead) for each in (1, 2, 3)
    ]


def test_single_replica_goes_offline_and_comes_back() -> None:
    cluster = ManualCluster()
    create(cluster.client(1), factor=1)
    leader, _ = cluster.leads("t")
    assert produced(cluster.client(leader)) == ErrorCode.NONE
    cluster.cluster.kill(leader)
    left = cluster.client(others(cluster, leader)[0])
    assert described(left) == [(-1, 1, [leader], [], [leader])]
    (topic,) = left.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9).topics
    assert topic.partitions[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (produced(left), latest_offset(left)) == (NOT_LEADER, (NOT_LEADER, -1))
    cluster.complete(cluster.cluster.start_broker(leader))
    assert described(left) == [(leader, 2, [leader], [leader], [])]
    assert latest_offset(cluster.client(leader)) == (ErrorCode.NONE, 1)


def test_restarted_broker_is_in_sync_and_leads_nothing() -> None:
    cluster = ManualCluster()
    create(cluster.client(1), partitions=3)
    cluster.cluster.kill(1)
    cluster.complete(cluster.cluster.start_broker(1))
    found = described(cluster.client(1))
    assert all(isr == [1, 2, 3] and not offline for _, _, _, isr, offline in found)
    assert 1 not in [leader for leader, *_ in found]


def test_others_name_a_dead_broker_until_they_detect_it() -> None:
    cluster = ManualCluster()
    create(cluster.client(1), partitions=3)
    client = cluster.client(1)
    before = described(client)
    cluster.cluster.kill(2, detect_ms=9000)
    cluster.loop.advance(8900)
    assert described(client) == before
    cluster.loop.advance(200)
    assert 2 not in [leader for leader, *_ in described(client)]


def test_too_few_replicas_in_sync_refuse_acks_of_all() -> None:
    cluster = ManualCluster({"min.insync.replicas": "2"})
    create(cluster.client(1))
    assert produced(cluster.client(cluster.leads("t")[0]), acks=-1) == ErrorCode.NONE
    cluster.cluster.kill(2)
    assert produced(cluster.client(cluster.leads("t")[0]), acks=-1) == ErrorCode.NONE
    cluster.cluster.kill(3)
    (refused,) = produce(cluster.client(1), acks=-1).responses[0].partition_responses
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (refused.base_offset, refused.log_start_offset) == (-1, 0)
    assert produced(cluster.client(1), acks=1) == ErrorCode.NONE


def test_group_survives_the_death_of_its_coordinator() -> None:
    cluster = ManualCluster()
    create(cluster.client(1))
    dead = coordinator(cluster)
    member_id = form(cluster.client(dead))
    assert commit(cluster.client(dead), 7, member_id=member_id) == [ErrorCode.NONE]
    cluster.cluster.kill(dead)
    cluster.loop.turn()
    client = cluster.client(coordinator(cluster))
    assert heartbeat(client, member_id) == ErrorCode.NONE
    assert committed(client, "g") == [(ErrorCode.NONE, 7)]


def test_stopped_coordinator_answers_joins_with_the_id_of_the_member() -> None:
    cluster = ManualCluster()
    create(cluster.client(1))
    old = coordinator(cluster)
    member_id = form(cluster.client(old))
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    waiting = cluster.client(old)
    joining = JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
        member_id="", protocol_type="consumer", protocols=protocols,
    )  # fmt: skip
    waiting.send(joining, 3)
    cluster.loop.turn()
    assert waiting.answers() == []
    cluster.complete(cluster.cluster.stop_broker(old))
    ((_, answer),) = waiting.answers()
    assert answer.error_code == NOT_COORDINATOR
    assert answer.member_id.startswith("test-")
    assert waiting.transport.closed
    client = cluster.client(coordinator(cluster))
    assert heartbeat(client, member_id) == ErrorCode.NONE


def test_coordinator_moves_and_the_group_stays() -> None:
    cluster = ManualCluster()
    create(cluster.client(1))
    old = coordinator(cluster)
    member_id = form(cluster.client(old))
    clients = {each: cluster.client(each) for each in (1, 2, 3)}
    for number in range(12):
        to = number % 3 + 1
        cluster.cluster.move_coordinator(CoordinatorType.GROUP, "g", to)
        cluster.loop.turn()
        assert coordinator(cluster) == to
        assert commit(clients[to], number, member_id=member_id) == [ErrorCode.NONE]
        assert heartbeat(clients[to], member_id) == ErrorCode.NONE
        assert heartbeat(clients[to % 3 + 1], member_id) == NOT_COORDINATOR
        assert committed(clients[to], "g") == [(ErrorCode.NONE, number)]


def test_leader_moves_with_its_records() -> None:
    cluster = ManualCluster()
    create(cluster.client(1))
    old, epoch = cluster.leads("t")
    assert produced(cluster.client(old)) == ErrorCode.NONE
    new = others(cluster, old)[0]
    cluster.cluster.move("t", 0, new)
    assert cluster.leads("t") == (new, epoch + 1)
    assert produced(cluster.client(old)) == NOT_LEADER
    assert produced(cluster.client(new)) == ErrorCode.NONE
    assert latest_offset(cluster.client(new)) == (ErrorCode.NONE, 2)
    found = fetch(cluster.client(new), 12, epoch)
    assert found.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_fetch_that_waits_at_a_leader_that_moves_is_answered() -> None:
    cluster = ManualCluster()
    create(cluster.client(1))
    old, epoch = cluster.leads("t")
    client = cluster.client(old)
    asked = FetchRequestPartition(
        partition=0, fetch_offset=0, partition_max_bytes=1000, current_leader_epoch=epoch
    )
    topics = [FetchRequestTopic(topic="t", partitions=[asked])]
    request = FetchRequest(max_wait_ms=30_000, min_bytes=1, max_bytes=1000, topics=topics)
    client.send(request, 12)
    cluster.loop.turn()
    assert client.answers() == []
    cluster.cluster.move("t", 0, others(cluster, old)[0])
    cluster.loop.turn()
    ((_, answer),) = client.answers()
    assert answer.responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_metadata_can_be_late() -> None:
    cluster = ManualCluster()
    create(cluster.client(1))
    old, epoch = cluster.leads("t")
    new = others(cluster, old)[0]
    client = cluster.client(old)
    cluster.leadership.propagation_ms = 500
    cluster.cluster.move("t", 0, new)
    assert produced(cluster.client(new)) == ErrorCode.NONE
    assert described(client)[0][:2] == (old, epoch)
    cluster.loop.advance(600)
    assert described(client)[0][:2] == (new, epoch + 1)


def test_deleted_topic_takes_its_offsets_with_it_at_every_coordinator() -> None:
    cluster = ManualCluster()
    create(cluster.client(1))
    names = {coordinator(cluster, f"g{number}"): f"g{number}" for number in range(40)}
    assert sorted(names) == [1, 2, 3]
    for node_id, name in names.items():
        assert commit(cluster.client(node_id), 5, name) == [ErrorCode.NONE]
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="t")], timeout_ms=1000)
    (answer,) = cluster.client(2).call(request, 6).responses
    assert answer.error_code == ErrorCode.NONE
    create(cluster.client(1))
    for node_id, name in names.items():
        assert committed(cluster.client(node_id), name) == [(ErrorCode.NONE, -1)]


def test_deletion_waits_for_a_coordinator_that_is_dead() -> None:
    """Its successor reads the offsets of the topic from the log."""
    cluster = ManualCluster()
    create(cluster.client(1))
    before = coordinator(cluster, "g")
    assert commit(cluster.client(before), 5, "g") == [ErrorCode.NONE]
    cluster.cluster.kill(before, detect_ms=500)
    client = cluster.client(others(cluster, before)[0])
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="t")], timeout_ms=1000)
    client.send(request, 6)
    cluster.loop.advance(400)
    assert client.answers() == []
    cluster.loop.advance(200)
    ((_, answer),) = client.answers()
    assert answer.responses[0].error_code == ErrorCode.NONE
    create(client)
    after = coordinator(cluster, "g")
    assert after != before
    assert committed(cluster.client(after), "g") == [(ErrorCode.NONE, -1)]


def test_deletion_goes_on_once_after_all_brokers_have_died() -> None:
    cluster = ManualCluster()
    create(cluster.client(1))
    before = coordinator(cluster, "g")
    assert commit(cluster.client(before), 5, "g") == [ErrorCode.NONE]
    one, other = others(cluster, before)
    cluster.cluster.kill(before, detect_ms=60_000)
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="t")], timeout_ms=1000)
    cluster.client(one).send(request, 6)
    cluster.loop.turn()
    for node_id in (one, other):
        cluster.cluster.kill(node_id)
    for node_id in (before, one, other):
        cluster.complete(cluster.cluster.start_broker(node_id))
    cluster.loop.advance(100)
    create(cluster.client(one))
    after = coordinator(cluster, "g")
    assert committed(cluster.client(after), "g") == [(ErrorCode.NONE, -1)]


def test_late_metadata_names_no_leader_of_a_new_topic() -> None:
    cluster = ManualCluster()
    cluster.leadership.propagation_ms = 500
    create(cluster.client(2), partitions=3)
    assert described(cluster.client(2)) == [(-1, -1, [], [], [])] * 3
    cluster.loop.advance(600)
    assert sorted(leader for leader, *_ in described(cluster.client(2))) == [1, 2, 3]


def elect(client: Client, kind: int, partitions: list[int] | None) -> list[tuple[int, int]]:
    topics = None
    if partitions is not None:
        topics = [ElectLeadersRequestTopic(topic="t", partitions=partitions)]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=1000)
    found = client.call(request, 1).replica_election_results
    return [
        (each.partition_id, each.error_code)
        for topic in found
        if topic.topic == "t"
        for each in topic.partition_result
    ]


def test_preferred_leaders_are_elected_again() -> None:
    cluster = ManualCluster()
    create(cluster.client(1), partitions=3)
    before = described(cluster.client(1))
    lost = next(index for index, where in enumerate(before) if where[0] == 2)
    cluster.cluster.kill(2)
    client = cluster.client(1)
    assert elect(client, PREFERRED, [lost]) == [(lost, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]
    cluster.complete(cluster.cluster.start_broker(2))
    assert elect(client, PREFERRED, None) == [(lost, ErrorCode.NONE)]
    assert described(client)[lost][:2] == (2, 2)
    assert elect(client, PREFERRED, [lost]) == [(lost, ErrorCode.ELECTION_NOT_NEEDED)]
    assert elect(client, UNCLEAN, [lost]) == [(lost, ErrorCode.ELECTION_NOT_NEEDED)]


def test_reassignment_moves_replicas_and_the_leader_if_it_leaves() -> None:
    cluster = ManualCluster()
    create(cluster.client(1), factor=2)
    client = cluster.client(1)
    ((leader, epoch, replicas, *_),) = described(client)
    third = next(each for each in (1, 2, 3) if each not in replicas)
    for wanted, expected in (
        ([third, leader], (leader, epoch)),
        ([third], (third, epoch + 1)),
    ):
        asked = AlterPartitionReassignmentsRequestPartition(partition_index=0, replicas=wanted)
        topic = AlterPartitionReassignmentsRequestTopic(name="t", partitions=[asked])
        request = AlterPartitionReassignmentsRequest(topics=[topic])
        (answer,) = client.call(request, 0).responses
        assert answer.partitions[0].error_code == ErrorCode.NONE
        ((*now, isr, offline),) = described(client)
        assert (tuple(now[:2]), now[2], sorted(isr), offline) == (
            expected, wanted, sorted(wanted), [],
        )  # fmt: skip


def test_cluster_comes_back_after_all_brokers_have_died() -> None:
    cluster = ManualCluster()
    create(cluster.client(1))
    leader, epoch = cluster.leads("t")
    assert produced(cluster.client(leader)) == ErrorCode.NONE
    charge = coordinator(cluster)
    assert commit(cluster.client(charge), 4) == [ErrorCode.NONE]
    for node_id in (1, 2, 3):
        cluster.cluster.kill(node_id)
    assert cluster.leads("t")[0] == -1
    cluster.complete(cluster.cluster.start_broker(2))
    cluster.loop.turn()
    client = cluster.client(2)
    assert cluster.leads("t")[0] == 2
    assert cluster.leads("t")[1] > epoch
    assert latest_offset(client) == (ErrorCode.NONE, 1)
    assert committed(client, "g") == [(ErrorCode.NONE, 4)]


def test_member_of_a_consumer_group_keeps_its_epoch_at_the_next_coordinator() -> None:
    cluster = ManualCluster()
    create(cluster.client(1))

    def heartbeat_of(client: Client, epoch: int, **joining: Any) -> tuple[int, int]:
        request = ConsumerGroupHeartbeatRequest(
            group_id="new", member_id="m", member_epoch=epoch, **joining
        )
        answer = client.call(request, 1)
        return answer.error_code, answer.member_epoch

    def charge() -> Client:
        return cluster.client(coordinator(cluster, "new"))

    joining: dict[str, Any] = {
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    error, epoch = heartbeat_of(charge(), 0, **joining)
    assert (error, epoch > 0) == (ErrorCode.NONE, True)
    for _ in range(2):
        dead = coordinator(cluster, "new")
        cluster.cluster.kill(dead)
        cluster.loop.turn()
        assert heartbeat_of(charge(), epoch) == (ErrorCode.NONE, epoch)
        cluster.complete(cluster.cluster.start_broker(dead))


def test_stop_of_one_broker_answers_what_waits_for_the_disk() -> None:
    cluster = ManualCluster(flush=COMMIT)
    create(cluster.client(1))
    cluster.loop.turn()
    leader, _ = cluster.leads("t")
    client = cluster.client(leader)
    records = encode_records([Record(0, 1, None, b"v", ())])
    topic = ProduceRequestTopic(
        name="t", partition_data=[ProduceRequestPartition(index=0, records=records)]
    )
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
    # The first one opens the log.
    client.send(request, 9)
    cluster.loop.turn()
    client.answers()
    client.send(request, 9)
    assert client.answers() == []
    cluster.complete(cluster.cluster.stop_broker(leader))
    ((_, answer),) = client.answers()
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert client.transport.closed


@pytest.mark.parametrize("moment", ["before", "after"])
def test_broker_is_killed_while_it_stops(monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Before its groups are given up, and while clients read their last responses."""
    cluster = ManualCluster()
    brokers = cluster.cluster
    stopping = brokers.brokers[2]
    give_up = stopping.give_up

    def killed_meanwhile() -> None:
        if moment == "after":
            give_up()
        brokers.kill(2)
        if moment == "before":
            give_up()

    monkeypatch.setattr(stopping, "give_up", killed_meanwhile)
    cluster.complete(brokers.stop_broker(2))
    assert sorted(brokers.brokers) == cluster.leadership.image.live_ids == [1, 3]
    cluster.complete(brokers.start_broker(2))
    assert sorted(brokers.brokers) == cluster.leadership.image.live_ids == [1, 2, 3]


def test_broker_is_killed_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ManualCluster()
    brokers = cluster.cluster
    brokers.kill(2)
    listen = brokers._listen

    async def killed_meanwhile(node_id: int, listeners: Sequence[Listener]) -> list[Address]:
        found = await listen(node_id, listeners)
        brokers.kill(2)
        return found

    monkeypatch.setattr(brokers, "_listen", killed_meanwhile)
    with pytest.raises(UnknownNode, match="was killed while it started"):
        cluster.complete(brokers.start_broker(2))
    assert sorted(brokers.brokers) == cluster.leadership.image.live_ids == [1, 3]
