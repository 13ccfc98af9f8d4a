"""Several brokers of which too few are in sync for what is written."""

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.end_txn import EndTxnRequest
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from coterie.protocol.topic_names import TRANSACTIONS_TOPIC
from tests.unit.server.cluster import ManualCluster
from tests.unit.server.cluster_requests import latest_offset
from tests.unit.server.manual import Client
from tests.unit.server.test_cluster_transactions import (
    TID,
    add,
    begun,
    coordinator,
    end,
    init,
    produce,
    state,
)

NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
OK = ErrorCode.NONE


def coordinated() -> tuple[ManualCluster, Client, int, int]:
    """Return three brokers, a client of the one that coordinates the id, and the two others."""
    cluster = begun()
    charge = coordinator(cluster)
    first, second = (each for each in (1, 2, 3) if each != charge)
    return cluster, cluster.client(charge), first, second


def begin_end(client: Client, producer_id: int, epoch: int) -> None:
    """Commit the transaction, and do not wait for the answer."""
    request = EndTxnRequest(
        transactional_id=TID, producer_id=producer_id, producer_epoch=epoch, committed=True
    )
    client.send(request, 3)


def test_transactions_are_refused_and_stay_as_they_are() -> None:
    cluster, client, first, second = coordinated()
    _, producer_id, epoch = init(client)
    cluster.cluster.kill(first)
    assert add(client, producer_id, epoch) == OK
    cluster.cluster.kill(second)
    assert add(client, producer_id, epoch) == OK
    assert end(client, producer_id, epoch) == NOT_AVAILABLE
    assert init(client) == (NOT_AVAILABLE, -1, -1)
    assert state(client) == (OK, "Ongoing")
    cluster.complete(cluster.cluster.start_broker(first))
    assert end(client, producer_id, epoch) == OK
    assert state(client) == (OK, "CompleteCommit")
    assert init(client) == (OK, producer_id, epoch + 1)


def test_new_id_is_kept_without_an_epoch() -> None:
    cluster, client, first, second = coordinated()
    cluster.cluster.kill(first)
    cluster.cluster.kill(second)
    assert init(client) == (NOT_AVAILABLE, -1, -1)
    assert state(client) == (OK, "Empty")
    assert add(client, 0, 0) == ErrorCode.PRODUCER_FENCED
    cluster.complete(cluster.cluster.start_broker(first))
    assert init(client) == (OK, 0, 0)


def test_timed_out_transaction_is_aborted_when_the_replicas_are_back() -> None:
    cluster, client, first, second = coordinated()
    _, producer_id, epoch = init(client)
    assert add(client, producer_id, epoch) == OK
    cluster.cluster.kill(first)
    cluster.cluster.kill(second)
    cluster.loop.advance(80_000)
    assert state(client) == (OK, "Ongoing")
    cluster.complete(cluster.cluster.start_broker(first))
    cluster.loop.advance(20_000)
    assert state(client) == (OK, "CompleteAbort")


def test_end_whose_markers_are_written_too_late_is_logged_when_the_replicas_are_back() -> None:
    cluster, client, first, second = coordinated()
    _, producer_id, epoch = init(client)
    assert add(client, producer_id, epoch) == OK
    # Its leader is silent, so the marker waits.
    cluster.cluster.move("t", 0, first)
    cluster.cluster.kill(first, detect_ms=3000)
    begin_end(client, producer_id, epoch)
    cluster.loop.advance(1500)
    assert [answer.error_code for _, answer in client.answers()] == [OK]
    cluster.cluster.kill(second)
    cluster.loop.advance(3000)
    assert state(client) == (OK, "PrepareCommit")
    cluster.complete(cluster.cluster.start_broker(first))
    cluster.loop.advance(1000)
    assert state(client) == (OK, "CompleteCommit")


def test_markers_wait_until_the_replicas_of_a_partition_are_back() -> None:
    cluster, client, first, _ = coordinated()
    cluster.cluster.move("t", 0, coordinator(cluster))
    change = IncrementalAlterConfigsRequestConfig(
        name="min.insync.replicas", config_operation=0, value="3"
    )
    topic = IncrementalAlterConfigsRequestResource(
        resource_type=2, resource_name="t", configs=[change]
    )
    client.send(IncrementalAlterConfigsRequest(resources=[topic], validate_only=False), 1)
    cluster.loop.advance(10)
    client.answers()
    _, producer_id, epoch = init(client)
    assert add(client, producer_id, epoch) == OK
    assert produce(client, producer_id, epoch) == OK
    cluster.cluster.kill(first)
    begin_end(client, producer_id, epoch)
    cluster.loop.advance(3000)
    assert [answer.error_code for _, answer in client.answers()] == [OK]
    assert state(client) == (OK, "PrepareCommit")
    assert init(client)[0] == ErrorCode.CONCURRENT_TRANSACTIONS
    assert latest_offset(client) == (OK, 1)
    cluster.complete(cluster.cluster.start_broker(first))
    cluster.loop.advance(1000)
    assert state(client) == (OK, "CompleteCommit")
    assert latest_offset(client) == (OK, 2)


@pytest.mark.parametrize(
    ("brokers", "settings", "shown"),
    [
        (3, {}, "2"),
        (2, {}, "1"),
        (2, {"transaction.state.log.min.isr": "2"}, "2"),
        (5, {"transaction.state.log.min.isr": "3"}, "3"),
    ],
)
def test_transactions_of_two_brokers_survive_a_death_by_default(
    brokers: int, settings: dict[str, str], shown: str
) -> None:
    cluster = ManualCluster(settings, brokers=brokers)
    cluster.client(1).call(FindCoordinatorRequest(key=TID, key_type=1), 3)
    cluster.loop.turn()
    topic = cluster.cluster.shared.topics.by_name[TRANSACTIONS_TOPIC]
    assert topic.config.overrides["min.insync.replicas"] == shown
