"""Several brokers in one process: what each of them answers."""

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestAssignment,
    CreateTopicsRequestTopic,
)
from coterie.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.metadata import MetadataRequest
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
    join,
    latest_offset,
    others,
    produce,
    produced,
)


def test_leaders_are_spread_as_in_kafka() -> None:
    cluster = ManualCluster()
    create(cluster.client(2), partitions=6)
    found = described(cluster.client(3))
    first = [each[2] for each in found[:3]]
    start = first[0][0]
    circle = [(start + step - 1) % 3 + 1 for step in range(5)]
    assert first == [circle[:3], circle[1:4], circle[2:5]]
    assert sorted(each[2][0] for each in found[3:]) == [1, 2, 3]
    assert all(leader == replicas[0] for leader, _, replicas, _, _ in found)
    assert all(
        (epoch, isr, offline) == (0, replicas, []) for _, epoch, replicas, isr, offline in found
    )


def test_each_broker_names_the_same_cluster() -> None:
    cluster = ManualCluster()
    clients = [cluster.client(each) for each in (1, 2, 3)]
    form(cluster.client(coordinator(cluster)))
    found = [client.call(MetadataRequest(topics=[]), 9) for client in clients]
    assert [[each.port for each in answer.brokers] for answer in found] == [[9001, 9002, 9003]] * 3
    asked = FindCoordinatorRequest(coordinator_keys=["g"])
    (named,) = {client.call(asked, 4).coordinators[0].node_id for client in clients}
    assert named == coordinator(cluster)
    listed = [client.call(ListGroupsRequest(), 4).groups for client in clients]
    assert [len(each) for each in listed] == [int(each == named) for each in (1, 2, 3)]


def test_more_replicas_than_brokers_are_refused() -> None:
    cluster = ManualCluster()
    created = create(cluster.client(1), factor=4)
    assert (created.error_code, created.error_message) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        (
            "Unable to replicate the partition 4 time(s): The target replication factor of 4"
            " cannot be reached because only 3 broker(s) are registered or some brokers have"
            " all their log directories cordoned."
        ),
    )


def test_dead_broker_counts_as_registered() -> None:
    cluster = ManualCluster()
    cluster.cluster.kill(2)
    assert create(cluster.client(1)).error_code == ErrorCode.NONE
    ((_, epoch, replicas, isr, offline),) = described(cluster.client(3))
    assert (epoch, sorted(replicas), sorted(isr), offline) == (0, [1, 2, 3], [1, 3], [2])


@pytest.mark.parametrize(
    ("brokers", "text"),
    [
        (
            [[1, 2], [3]],
            (
                "The manual partition assignment includes a partition with 1 replica(s), but this"
                " is not consistent with previous partitions, which have 2 replica(s)."
            ),
        ),
        (
            [[4]],
            "The manual partition assignment includes broker 4, but no such broker is registered.",
        ),
    ],
)
def test_impossible_assignments_are_refused(brokers: list[list[int]], text: str) -> None:
    client = ManualCluster().client(1)
    assignments = [
        CreateTopicsRequestAssignment(partition_index=index, broker_ids=each)
        for index, each in enumerate(brokers)
    ]
    topic = CreateTopicsRequestTopic(
        name="t", num_partitions=-1, replication_factor=-1, assignments=assignments
    )
    (found,) = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5).topics
    error = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert (found.error_code, found.error_message) == (error, text)


def test_only_the_leader_appends_and_knows_offsets() -> None:
    cluster = ManualCluster()
    create(cluster.client(1))
    leader, _ = cluster.leads("t")
    assert produced(cluster.client(leader)) == ErrorCode.NONE
    assert latest_offset(cluster.client(leader)) == (ErrorCode.NONE, 1)
    for node_id in others(cluster, leader):
        client = cluster.client(node_id)
        assert produced(client) == NOT_LEADER
        assert latest_offset(client) == (NOT_LEADER, -1)
        topic = DeleteRecordsRequestTopic(
            name="t", partitions=[DeleteRecordsRequestPartition(partition_index=0, offset=1)]
        )
        (deleted,) = client.call(DeleteRecordsRequest(topics=[topic], timeout_ms=1), 1).topics
        assert deleted.partitions[0].error_code == NOT_LEADER


def test_produce_names_the_leader_and_its_address() -> None:
    cluster = ManualCluster()
    create(cluster.client(1))
    leader, epoch = cluster.leads("t")
    client = cluster.client(others(cluster, leader)[0])
    answer = produce(client, version=10)
    found = answer.responses[0].partition_responses[0].current_leader
    assert (found.leader_id, found.leader_epoch) == (leader, epoch)
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == [
        (leader, 9000 + leader)
    ]
    assert produce(client, version=9).node_endpoints == []


def test_followers_serve_fetches_of_clients_that_know_them() -> None:
    cluster = ManualCluster()
    create(cluster.client(1))
    leader, epoch = cluster.leads("t")
    produced(cluster.client(leader))
    follower = cluster.client(others(cluster, leader)[0])
    assert fetch(follower, 10).error_code == NOT_LEADER
    found = fetch(follower, 11)
    assert (found.error_code, found.high_watermark, bool(found.records)) == (0, 1, True)
    assert fetch(follower, 12, epoch).error_code == ErrorCode.NONE
    assert fetch(follower, 12, epoch + 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_broker_without_a_replica_serves_no_fetch() -> None:
    cluster = ManualCluster()
    create(cluster.client(1), factor=1)
    leader, epoch = cluster.leads("t")
    client = cluster.client(others(cluster, leader)[0])
    assert fetch(client, 12).error_code == NOT_LEADER
    assert fetch(client, 12, epoch).error_code == NOT_LEADER


def test_other_brokers_do_not_coordinate_a_group() -> None:
    cluster = ManualCluster()
    create(cluster.client(1))
    charge = coordinator(cluster)
    member_id = form(cluster.client(charge))
    for node_id in others(cluster, charge):
        client = cluster.client(node_id)
        joined = join(client)
        assert (joined.error_code, joined.generation_id, joined.member_id) == (
            NOT_COORDINATOR, -1, "",
        )  # fmt: skip
        assert heartbeat(client, member_id) == NOT_COORDINATOR
        assert commit(client, 1) == [NOT_COORDINATOR]
        assert commit(client, 1, topic="unknown") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=1000,
            subscribed_topic_names=["t"], topic_partitions=[],
        )  # fmt: skip
        assert client.call(request, 1).error_code == NOT_COORDINATOR


def test_offset_fetch_refuses_single_groups() -> None:
    cluster = ManualCluster()
    create(cluster.client(1))
    names = {coordinator(cluster, f"g{number}"): f"g{number}" for number in range(40)}
    (first, mine), (other, theirs) = list(names.items())[:2]
    assert commit(cluster.client(first), 5, mine) == [ErrorCode.NONE]
    assert commit(cluster.client(other), 6, theirs) == [ErrorCode.NONE]
    found = committed(cluster.client(first), mine, theirs)
    assert found == [(ErrorCode.NONE, 5), (NOT_COORDINATOR, -1)]
