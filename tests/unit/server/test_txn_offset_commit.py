"""TxnOffsetCommit and the markers of `__consumer_offsets`; the transaction coordinator is a fake.

The answers are those of Kafka 4.3.1.

Rules: [offsets/pending], [offsets/marker].
"""

from collections.abc import Callable
from typing import Any

import pytest

from coterie.protocol.control_records import TransactionMarkers
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from coterie.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from coterie.protocol.records import iterate_batches
from coterie.server.broker import Broker
from coterie.server.logs.flusher import FlushMode
from coterie.server.transactions.use import TransactionUse, TransactionUses
from tests.unit.server.manual import (
    COMMIT,
    NEVER,
    Client,
    make_broker,
    open_log,
    restarted,
    wait_for_disk,
)

PRODUCER = 7
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


class FakeUses(TransactionUses):
    """Answers every use with one error; later, if `waits`."""

    def __init__(self, error: ErrorCode = ErrorCode.NONE, *, waits: bool = False) -> None:
        self.error = error
        self.waits = waits
        self.uses: list[TransactionUse] = []
        self.done: list[Callable[[ErrorCode], None]] = []

    def use_partitions(
        self, use: TransactionUse, done: Callable[[ErrorCode], None]
    ) -> ErrorCode | None:
        self.uses.append(use)
        if self.waits:
            self.done.append(done)
            return None
        return self.error


def make_client(uses: FakeUses | None = None, flush: FlushMode = NEVER) -> Client:
    broker = make_broker(flush=flush)
    broker.transactions = FakeUses() if uses is None else uses
    broker.controller.create("t", 2, {})
    return Client(broker)


def commit(offset: int = 5, indexes: tuple[int, ...] = (0,), **fields: Any) -> Any:
    return TxnOffsetCommitRequest(
        **{
            "transactional_id": "tid",
            "group_id": "g",
            "producer_id": PRODUCER,
            "producer_epoch": 0,
            **fields,
        },
        topics=[
            TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata=None
                    )
                    for index in indexes
                ],
            )
        ],
    )


def codes(answer: Any) -> list[tuple[int, int]]:
    (topic,) = answer.topics
    return [(each.partition_index, each.error_code) for each in topic.partitions]


def fetched(client: Client, *, stable: bool) -> list[tuple[int, int]]:
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
    group = OffsetFetchRequestGroup(group_id="g", topics=topics)
    answer = client.call(OffsetFetchRequest(groups=[group], require_stable=stable), 8)
    return [
        (each.committed_offset, each.error_code) for each in answer.groups[0].topics[0].partitions
    ]


def marker(committed: bool, epoch: int = 0, producer: int = PRODUCER) -> TransactionMarkers:
    return TransactionMarkers(0, "tid", producer, epoch, 3, committed, 0, ())


def end(broker: Broker, *, committed: bool, epoch: int = 0, producer: int = PRODUCER) -> list[int]:
    """Write a marker for the group's partition; return the results so far."""
    results: list[int] = []
    index = broker.coordinator.partition_for("g")
    broker.groups.write_marker(index, marker(committed, epoch, producer), results.append)
    return results


def headers(broker: Broker) -> list[tuple[int, int, int, int]]:
    index = broker.coordinator.partition_for("g")
    log = open_log(broker, "__consumer_offsets", index)
    data = b"".join(log.chunks(chunk_bytes=1 << 20))
    return [
        (each.attributes, each.producer_id, each.producer_epoch, each.base_sequence)
        for _, each in iterate_batches(data)
    ]


@pytest.mark.parametrize("committed", [False, True])
def test_offsets_are_pending_until_the_marker(*, committed: bool) -> None:
    client = make_client()
    assert codes(client.call(commit(), 3)) == [(0, 0)]
    assert fetched(client, stable=False) == [(-1, 0), (-1, 0)]
    assert fetched(client, stable=True) == [(-1, UNSTABLE), (-1, 0)]
    results = end(client.broker, committed=committed)
    client.loop.turn()
    assert results == [0]
    expected = [(5 if committed else -1, 0), (-1, 0)]
    assert fetched(client, stable=True) == fetched(client, stable=False) == expected
    assert headers(client.broker) == [(0x10, PRODUCER, 0, 0), (0x30, PRODUCER, 0, -1)]


def test_marker_is_answered_when_it_is_durable() -> None:
    client = make_client(flush=COMMIT)
    client.send(commit(), 3)
    wait_for_disk(client)
    client.answers()
    results = end(client.broker, committed=True)
    client.loop.turn()
    assert not results
    wait_for_disk(client)
    assert results == [0]


def test_request_waits_for_the_transaction_and_later_requests_wait_for_it() -> None:
    uses = FakeUses(waits=True)
    client = make_client(uses)
    client.send(commit(), 5)
    client.send(commit(6), 5)
    client.loop.turn()
    assert not client.answers()
    (use,) = uses.uses
    partition = ("__consumer_offsets", client.broker.coordinator.partition_for("g"))
    assert use == TransactionUse("tid", PRODUCER, 0, (partition,), True, 2)
    uses.done[0](ErrorCode.NONE)
    client.loop.turn()
    assert [codes(answer) for _, answer in client.answers()] == [[(0, 0)]]
    uses.done[1](ErrorCode.CONCURRENT_TRANSACTIONS)
    client.loop.turn()
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert [codes(answer) for _, answer in client.answers()] == [[(0, loading)]]


@pytest.mark.parametrize(
    ("error", "version", "answered"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.PRODUCER_FENCED, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NOT_COORDINATOR, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_COORDINATOR, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 4, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_error_of_the_transaction(error: ErrorCode, version: int, answered: ErrorCode) -> None:
    """[offsets/transactional-errors]"""
    client = make_client(FakeUses(error))
    assert codes(client.call(commit(), version)) == [(0, answered)]
    assert fetched(client, stable=True) == [(-1, 0), (-1, 0)]


@pytest.mark.parametrize("ends", [False, True])
def test_partition_is_added_when_the_last_transaction_has_ended(*, ends: bool) -> None:
    """[transactions/adding-again]"""
    uses = FakeUses(ErrorCode.CONCURRENT_TRANSACTIONS)
    client = make_client(uses)
    client.send(commit(), 5)
    client.loop.advance(90)
    assert not client.answers()
    if ends:
        uses.error = ErrorCode.NONE
    client.loop.advance(30)
    ((_, answer),) = client.answers()
    assert codes(answer) == [(0, 0 if ends else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]


def test_broker_without_transactions_knows_no_id() -> None:
    client = make_client()
    client.broker.transactions = TransactionUses()
    assert codes(client.call(commit(), 5)) == [(0, ErrorCode.INVALID_PRODUCER_ID_MAPPING)]


def test_missing_partitions_come_first_and_need_no_transaction() -> None:
    """[offsets/transactional-checks]"""
    uses = FakeUses()
    client = make_client(uses)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(client.call(commit(indexes=(9,)), 3)) == [(9, missing)]
    assert not uses.uses
    assert codes(client.call(commit(indexes=(0, 9)), 3)) == [(9, missing), (0, 0)]
    assert codes(client.call(commit(group_id=""), 3)) == [(0, ErrorCode.INVALID_GROUP_ID)]


def test_epoch_before_that_of_a_marker_is_refused() -> None:
    """[offsets/transactional-checks]"""
    client = make_client()
    end(client.broker, committed=True, epoch=3)
    # Before the marker is written, and after it.
    for _ in range(2):
        answer = client.call(commit(producer_epoch=2), 5)
        assert codes(answer) == [(0, ErrorCode.INVALID_PRODUCER_EPOCH)]
    assert codes(client.call(commit(producer_epoch=3), 5)) == [(0, 0)]
    old = ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(client.broker, committed=True, epoch=2) == [old]
    assert fetched(client, stable=True)[0] == (-1, UNSTABLE)


def test_marker_for_a_partition_that_does_not_exist() -> None:
    client = make_client()
    results: list[int] = []
    client.broker.groups.write_marker(4, marker(committed=True), results.append)
    assert results == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_marker_of_a_partition_that_is_not_served() -> None:
    broker = make_broker(load=False)
    assert end(broker, committed=True) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


@pytest.mark.parametrize("killed", [False, True])
def test_pending_offsets_survive_a_restart(*, killed: bool) -> None:
    """[offsets/pending]"""
    client = make_client()
    client.call(commit(1, (0, 1)), 3)
    end(client.broker, committed=True)
    client.loop.turn()
    client.call(commit(5, (0,)), 3)
    client.call(commit(6, (1,), producer_id=8), 3)
    end(client.broker, committed=False, producer=8)
    client.loop.turn()
    again = Client(restarted(client.broker, killed=killed))
    assert fetched(again, stable=False) == [(1, 0), (1, 0)]
    assert fetched(again, stable=True) == [(-1, UNSTABLE), (1, 0)]
    end(again.broker, committed=True)
    again.loop.turn()
    assert fetched(again, stable=True) == [(5, 0), (1, 0)]
