"""AddPartitionsToTxn of many transactions: an operation each, in slices."""

from typing import Any

import pytest

from coterie.coordinator.transactions.states import ONGOING
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
)
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest
from coterie.server.logs.flusher import FlushMode
from tests.unit.server.manual import COMMIT, NEVER, Client, make_broker, wait_for_disk
from tests.unit.server.test_transactions import SETTINGS, begun

UNKNOWN_ID = ErrorCode.INVALID_PRODUCER_ID_MAPPING
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.fixture(params=[NEVER, COMMIT], ids=str)
def client(request: pytest.FixtureRequest) -> Client:
    mode: FlushMode = request.param
    return begun(make_broker(SETTINGS, flush=mode))


def asked(client: Client, transactional_id: str) -> AddPartitionsToTxnRequestTransaction:
    """Return what adds two partitions to the transaction of an id; "?" is an unknown id."""
    producer_id, epoch = 0, 0
    if transactional_id != "?":
        client.send(
            InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000),
            5,
        )
        wait_for_disk(client)
        ((_, answer),) = client.answers()
        producer_id, epoch = answer.producer_id, answer.producer_epoch
    return AddPartitionsToTxnRequestTransaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[AddPartitionsToTxnRequestTopic(name="foo", partitions=[0, 1])],
    )


def ongoing(client: Client) -> int:
    """Return how many transactions have begun."""
    shards = client.broker.transaction_runtime.coordinator.shards
    return sum(each.state is ONGOING for shard in shards for each in shard.transactions.values())


def errors(answer: Any) -> list[tuple[str, list[int]]]:
    return [
        (
            each.transactional_id,
            [one.partition_error_code for one in each.topic_results[0].results_by_partition],
        )
        for each in answer.results_by_transaction
    ]


@pytest.mark.usefixtures("tiny_slices")
def test_others_are_served_between_transactions(client: Client) -> None:
    request = AddPartitionsToTxnRequest(
        transactions=[asked(client, each) for each in ("a", "?", "b", "c")]
    )
    sent = client.send(request, 5)
    after = client.send(HEARTBEAT, 4)
    begun_meanwhile: set[int] = set()
    answers: list[tuple[int, Any]] = []
    while len(answers) < 2:
        begun_meanwhile.add(ongoing(client))
        client.loop.turn_once()
        answers += client.answers()
    assert len(begun_meanwhile) > 1, "some transactions have begun before others"
    assert [correlation_id for correlation_id, _ in answers] == [sent, after]
    assert errors(answers[0][1]) == [
        ("a", [0, 0]),
        ("?", [UNKNOWN_ID, UNKNOWN_ID]),
        ("b", [0, 0]),
        ("c", [0, 0]),
    ]


@pytest.mark.usefixtures("tiny_slices")
def test_connection_that_is_lost_between_transactions(client: Client) -> None:
    """The rest is added, as by a request that was handled at once; nothing is answered."""
    request = AddPartitionsToTxnRequest(transactions=[asked(client, each) for each in "abc"])
    client.send(request, 5)
    client.connection.connection_lost(None)
    wait_for_disk(client)
    assert ongoing(client) == 3
    assert client.answers() == []
