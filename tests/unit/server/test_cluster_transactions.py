"""Transactions whose coordinator is one broker, and whose partitions are led by others."""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
)
from coterie.protocol.messages.describe_transactions import DescribeTransactionsRequest
from coterie.protocol.messages.end_txn import EndTxnRequest
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest
from coterie.server.cluster.image import CoordinatorType
from tests.unit.server.cluster import ManualCluster
from tests.unit.server.cluster_requests import create, latest_offset
from tests.unit.server.manual import Client
from tests.unit.server.transactions import transactional_request, write_marker

TID = "x"
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR


def begun() -> ManualCluster:
    """Return a cluster with a coordinator of transactions and a topic."""
    cluster = ManualCluster({"transaction.state.log.num.partitions": "5"})
    client = cluster.client(1)
    create(client)
    request = FindCoordinatorRequest(key=TID, key_type=1)
    assert client.call(request, 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    cluster.loop.turn()
    assert client.call(request, 3).node_id == coordinator(cluster)
    return cluster


def coordinator(cluster: ManualCluster) -> int:
    found = cluster.leadership.image.coordinator(CoordinatorType.TRANSACTION, TID)
    assert found is not None
    return found


def move_coordinator(cluster: ManualCluster, to: int) -> None:
    cluster.cluster.move_coordinator(CoordinatorType.TRANSACTION, TID, to)
    cluster.loop.turn()


def away_from(node_id: int) -> int:
    return node_id % 3 + 1


def init(client: Client) -> tuple[int, int, int]:
    request = InitProducerIdRequest(transactional_id=TID, transaction_timeout_ms=60_000)
    answer = client.call(request, 3)
    return answer.error_code, answer.producer_id, answer.producer_epoch


def add(client: Client, producer_id: int, epoch: int) -> int:
    topic = AddPartitionsToTxnRequestTopic(name="t", partitions=[0])
    request = AddPartitionsToTxnRequest(
        transactional_id=TID, producer_id=producer_id, producer_epoch=epoch, topics=[topic]
    )
    (found,) = client.call(request, 3).results_by_topic
    return int(found.results_by_partition[0].partition_error_code)


def end(client: Client, producer_id: int, epoch: int, *, commit: bool = True) -> int:
    request = EndTxnRequest(
        transactional_id=TID, producer_id=producer_id, producer_epoch=epoch, committed=commit
    )
    return int(client.call(request, 3).error_code)


def produce(client: Client, producer_id: int, epoch: int, sequence: int = 0) -> int:
    request = transactional_request(b"v", producer=(producer_id, epoch, sequence))
    answer: Any = client.call(request, 9)
    return int(answer.responses[0].partition_responses[0].error_code)


def state(client: Client) -> tuple[int, str]:
    request = DescribeTransactionsRequest(transactional_ids=[TID])
    (found,) = client.call(request, 0).transaction_states
    return found.error_code, found.transaction_state


def test_other_brokers_do_not_coordinate_a_transaction() -> None:
    cluster = begun()
    other = cluster.client(away_from(coordinator(cluster)))
    assert init(other) == (NOT_COORDINATOR, -1, -1)
    assert add(other, 0, 0) == NOT_COORDINATOR
    assert end(other, 0, 0) == NOT_COORDINATOR
    assert state(other)[0] == NOT_COORDINATOR


@pytest.mark.parametrize("commit", [True, False])
def test_markers_are_appended_by_the_leaders_of_the_partitions(commit: bool) -> None:
    cluster = begun()
    charge = coordinator(cluster)
    cluster.cluster.move("t", 0, away_from(charge))
    leader = cluster.client(away_from(charge))
    client = cluster.client(charge)
    error, producer_id, epoch = init(client)
    assert error == ErrorCode.NONE
    assert add(client, producer_id, epoch) == ErrorCode.NONE
    assert produce(leader, producer_id, epoch) == ErrorCode.NONE
    assert end(client, producer_id, epoch, commit=commit) == ErrorCode.NONE
    assert latest_offset(leader) == (ErrorCode.NONE, 2)
    assert state(client) == (ErrorCode.NONE, "CompleteCommit" if commit else "CompleteAbort")


def test_partition_is_verified_at_the_coordinator() -> None:
    cluster = begun()
    charge = coordinator(cluster)
    cluster.cluster.move("t", 0, away_from(charge))
    _, producer_id, epoch = init(cluster.client(charge))
    leader = cluster.client(away_from(charge))
    assert produce(leader, producer_id, epoch) == ErrorCode.INVALID_TXN_STATE
    cluster.cluster.kill(charge, detect_ms=5000)
    assert produce(leader, producer_id, epoch) == ErrorCode.NOT_ENOUGH_REPLICAS


def test_transaction_goes_on_at_the_next_coordinator() -> None:
    cluster = begun()
    first = coordinator(cluster)
    leader_id = away_from(first)
    cluster.cluster.move("t", 0, leader_id)
    leader = cluster.client(leader_id)
    _, producer_id, epoch = init(cluster.client(first))
    assert add(cluster.client(first), producer_id, epoch) == ErrorCode.NONE
    assert produce(leader, producer_id, epoch) == ErrorCode.NONE
    cluster.cluster.kill(first)
    cluster.loop.turn()
    client = cluster.client(coordinator(cluster))
    assert state(client) == (ErrorCode.NONE, "Ongoing")
    assert produce(leader, producer_id, epoch, sequence=1) == ErrorCode.NONE
    assert end(client, producer_id, epoch) == ErrorCode.NONE
    assert state(client) == (ErrorCode.NONE, "CompleteCommit")
    assert latest_offset(leader) == (ErrorCode.NONE, 3)


def test_decided_transaction_is_ended_by_the_next_coordinator() -> None:
    """The coordinator moves between the decision and the marker."""
    cluster = begun()
    first = coordinator(cluster)
    leader_id = away_from(first)
    cluster.cluster.move("t", 0, leader_id)
    client = cluster.client(first)
    _, producer_id, epoch = init(client)
    assert add(client, producer_id, epoch) == ErrorCode.NONE
    assert produce(cluster.client(leader_id), producer_id, epoch) == ErrorCode.NONE
    # Nothing leads the partition while the transaction is decided.
    cluster.cluster.kill(leader_id, detect_ms=5000)
    request = EndTxnRequest(
        transactional_id=TID, producer_id=producer_id, producer_epoch=epoch, committed=True
    )
    client.send(request, 3)
    cluster.loop.turn()
    assert state(cluster.client(first)) == (ErrorCode.NONE, "PrepareCommit")
    second = next(each for each in (1, 2, 3) if each not in (first, leader_id))
    move_coordinator(cluster, second)
    assert state(cluster.client(second)) == (ErrorCode.NONE, "PrepareCommit")
    cluster.loop.advance(6000)
    assert state(cluster.client(second)) == (ErrorCode.NONE, "CompleteCommit")
    where, _ = cluster.leads("t")
    assert latest_offset(cluster.client(where)) == (ErrorCode.NONE, 2)


def test_killed_coordinator_asks_for_no_more_markers() -> None:
    """The next coordinator writes them; those of the dead one could end what follows."""
    cluster = begun()
    first = coordinator(cluster)
    create(cluster.client(first), partitions=100, name="many")
    client = cluster.client(first)
    _, producer_id, epoch = init(client)
    topic = AddPartitionsToTxnRequestTopic(name="many", partitions=list(range(100)))
    request = AddPartitionsToTxnRequest(
        transactional_id=TID, producer_id=producer_id, producer_epoch=epoch, topics=[topic]
    )
    client.call(request, 3)
    client.send(
        EndTxnRequest(
            transactional_id=TID, producer_id=producer_id, producer_epoch=epoch, committed=True
        ),
        3,
    )
    partitions = cluster.cluster.shared.topics.by_name["many"].partitions

    def markers() -> int:
        logs = [each.opened_log for each in partitions]
        return sum(log.log_end_offset for log in logs if log is not None)

    while not markers():
        cluster.loop.turn_once()
    cluster.cluster.kill(first, detect_ms=5000)
    client.connection.connection_lost(None)
    cluster.loop.turn()
    # Those that it had asked for before are written.
    assert markers() <= 32
    cluster.loop.advance(6000)
    assert state(cluster.client(coordinator(cluster))) == (ErrorCode.NONE, "CompleteCommit")
    assert all(each.log.log_end_offset for each in partitions)


def test_producer_is_fenced_across_a_move() -> None:
    cluster = begun()
    first = coordinator(cluster)
    _, producer_id, epoch = init(cluster.client(first))
    move_coordinator(cluster, away_from(first))
    client = cluster.client(away_from(first))
    assert init(client) == (ErrorCode.NONE, producer_id, epoch + 1)
    assert add(client, producer_id, epoch) == ErrorCode.PRODUCER_FENCED
    assert end(client, producer_id, epoch) == ErrorCode.PRODUCER_FENCED


def test_marker_of_an_administrator_goes_to_the_leader() -> None:
    cluster = begun()
    leader, _ = cluster.leads("t")
    other = cluster.client(away_from(leader))
    assert write_marker(other, 7, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert write_marker(cluster.client(leader), 7, 0) == ErrorCode.NONE
