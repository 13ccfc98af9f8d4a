"""Transactions through the handlers of a broker, without sockets and real time."""

import errno
from collections.abc import Callable

import pytest

from coterie.protocol.control_records import TransactionMarkers
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
)
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.describe_transactions import DescribeTransactionsRequest
from coterie.protocol.messages.end_txn import EndTxnRequest
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest
from coterie.protocol.messages.list_transactions import ListTransactionsRequest
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.protocol.topic_names import TRANSACTIONS_TOPIC
from coterie.server.broker import Broker
from coterie.server.logs.partition import Partition
from coterie.storage.errors import OutOfHandles
from tests.unit.server.manual import Client, make_broker, open_log, restarted
from tests.unit.server.produced import fetch_request, values_of
from tests.unit.server.transactions import transactional_request

TID = "tv2"
SETTINGS = {"transaction.state.log.num.partitions": "5"}


@pytest.fixture
def client() -> Client:
    return begun(make_broker(SETTINGS))


def begun(broker: Broker) -> Client:
    """Return a client of a broker with a coordinator of transactions and some topics."""
    client = Client(broker)
    find(client)
    client.loop.turn()
    assert find(client) == ErrorCode.NONE
    for name in ("foo", "bar"):
        broker.controller.create(name, 2, {})
    return client


def find(client: Client) -> int:
    code: int = client.call(FindCoordinatorRequest(key=TID, key_type=1), 3).error_code
    return code


def init(client: Client, tid: str = TID, version: int = 5) -> tuple[int, int, int]:
    request = InitProducerIdRequest(transactional_id=tid, transaction_timeout_ms=60_000)
    answer = client.call(request, version)
    return answer.error_code, answer.producer_id, answer.producer_epoch


def add(
    client: Client, epoch: int, topics: dict[str, list[int]], version: int = 3, producer_id: int = 0
) -> dict[tuple[str, int], int]:
    """Return the error of each partition."""
    request = AddPartitionsToTxnRequest(
        transactional_id=TID,
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[AddPartitionsToTxnRequestTopic(name=n, partitions=p) for n, p in topics.items()],
    )
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in client.call(request, version).results_by_topic
        for each in topic.results_by_partition
    }


def end(client: Client, epoch: int, *, commit: bool = True, version: int = 5) -> tuple[int, int]:
    request = EndTxnRequest(
        transactional_id=TID, producer_id=0, producer_epoch=epoch, committed=commit
    )
    answer = client.call(request, version)
    return answer.error_code, answer.producer_epoch


def described(client: Client, tid: str = TID) -> tuple[int, str, int]:
    request = DescribeTransactionsRequest(transactional_ids=[tid])
    (found,) = client.call(request, 0).transaction_states
    return found.error_code, found.transaction_state, found.producer_epoch


def test_topic_is_created_by_the_first_search_for_the_coordinator() -> None:
    """[transactions/topic]"""
    client = Client(make_broker(SETTINGS))
    assert init(client) == (ErrorCode.NOT_COORDINATOR, -1, -1)
    assert end(client, 0)[0] == ErrorCode.NOT_COORDINATOR
    assert TRANSACTIONS_TOPIC not in client.broker.topics.by_name
    assert find(client) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    client.loop.turn()
    assert find(client) == ErrorCode.NONE
    topic = client.broker.topics.by_name[TRANSACTIONS_TOPIC]
    assert (len(topic.partitions), topic.is_internal) == (5, True)
    assert topic.config.overrides["cleanup.policy"] == "compact"
    assert init(client) == (0, 0, 0)


def created_by_administrator(client: Client) -> int:
    topic = CreateTopicsRequestTopic(
        name=TRANSACTIONS_TOPIC, num_partitions=3, replication_factor=1
    )
    request = CreateTopicsRequest(topics=[topic], validate_only=False)
    (answer,) = client.call(request, 7).topics
    assert answer.error_code == 0
    return 3


def created_by_metadata(client: Client) -> int:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TRANSACTIONS_TOPIC)])
    (answer,) = client.call(request, 12).topics
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return 5


@pytest.mark.parametrize("create", [created_by_administrator, created_by_metadata])
def test_topic_that_a_client_creates_is_coordinated(create: Callable[[Client], int]) -> None:
    """[transactions/topic]"""
    client = Client(make_broker({**SETTINGS, "auto.create.topics.enable": "true"}))
    partitions = create(client)
    client.loop.turn()
    topic = client.broker.topics.by_name[TRANSACTIONS_TOPIC]
    assert (len(topic.partitions), topic.config.overrides["cleanup.policy"]) == (
        partitions, "compact"
    )  # fmt: skip
    assert init(client) == (0, 0, 0)
    assert find(client) == ErrorCode.NONE


def test_brokers_may_add_and_verify_internal_topics(client: Client) -> None:
    """[transactions/add-partitions]"""
    init(client)
    topics = [AddPartitionsToTxnRequestTopic(name="__consumer_offsets", partitions=[0])]

    def answered(*, verify: bool) -> int:
        asked = AddPartitionsToTxnRequestTransaction(
            transactional_id=TID, producer_id=0, producer_epoch=0, verify_only=verify, topics=topics
        )
        answer = client.call(AddPartitionsToTxnRequest(transactions=[asked]), 5)
        (topic,) = answer.results_by_transaction[0].topic_results
        return int(topic.results_by_partition[0].partition_error_code)

    assert answered(verify=True) == ErrorCode.TRANSACTION_ABORTABLE
    assert [answered(verify=False), answered(verify=True)] == [0, 0]


def test_offsets_of_a_group_are_a_partition_of_the_transaction(client: Client) -> None:
    """[transactions/add-partitions]"""
    init(client)
    request = AddOffsetsToTxnRequest(
        transactional_id=TID, producer_id=0, producer_epoch=0, group_id=""
    )
    assert client.call(request, 4).error_code == 0
    found = client.call(DescribeTransactionsRequest(transactional_ids=[TID]), 0)
    (topic,) = found.transaction_states[0].topics
    assert (topic.topic, topic.partitions) == ("__consumer_offsets", [0])


@pytest.mark.parametrize("version", [4, 5])
def test_no_transactions_are_never_answered(client: Client, version: int) -> None:
    """[transactions/add-partitions]"""
    client.send(AddPartitionsToTxnRequest(transactions=[]), version)
    client.send(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0)
    client.loop.advance(60_000)
    client.loop.turn()
    assert client.answers() == []
    assert not client.transport.closed


def test_several_transactions_are_added_or_verified(client: Client) -> None:
    """[transactions/add-partitions]"""
    init(client)

    def asked(tid: str, *, verify: bool) -> AddPartitionsToTxnRequestTransaction:
        topics = [AddPartitionsToTxnRequestTopic(name="foo", partitions=[0, 1])]
        return AddPartitionsToTxnRequestTransaction(
            transactional_id=tid,
            producer_id=0,
            producer_epoch=0,
            verify_only=verify,
            topics=topics,
        )

    def errors(*transactions: AddPartitionsToTxnRequestTransaction) -> list[list[int]]:
        answer = client.call(AddPartitionsToTxnRequest(transactions=list(transactions)), 5)
        return [
            [each.partition_error_code for each in found.topic_results[0].results_by_partition]
            for found in answer.results_by_transaction
        ]

    unknown = [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert errors(asked("none", verify=True), asked(TID, verify=True)) == [unknown, [120, 120]]
    assert errors(asked(TID, verify=False), asked("none", verify=False)) == [[0, 0], unknown]
    assert errors(asked(TID, verify=True)) == [[0, 0]]


@pytest.mark.parametrize("killed", [True, False])
def test_open_transaction_survives_a_restart(client: Client, killed: bool) -> None:
    init(client)
    add(client, 0, {"foo": [0]})
    client.broker.transaction_runtime.stop()
    again = Client(restarted(client.broker, killed=killed))
    assert find(again) == ErrorCode.NONE
    assert described(again) == (0, "Ongoing", 0)
    assert end(again, 0) == (0, 1)
    assert init(again, "other")[1] == 1000


def test_abandoned_transaction_is_aborted(client: Client) -> None:
    """[transactions/timeout]"""
    init(client)
    add(client, 0, {"foo": [0]})
    client.loop.advance(60_000)
    assert described(client) == (0, "Ongoing", 0)
    client.loop.advance(10_001)
    assert described(client) == (0, "CompleteAbort", 1)


def test_deletion_of_the_topic_forgets_all_ids(client: Client) -> None:
    init(client)
    client.broker.delete_topic(client.broker.topics.by_name[TRANSACTIONS_TOPIC])
    client.loop.turn()
    assert init(client)[0] == ErrorCode.NOT_COORDINATOR
    assert find(client) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    client.loop.turn()
    assert init(client) == (0, 1, 0)


@pytest.mark.parametrize(("duration_ms", "found"), [(999, ["q1", TID]), (1_000, ["q1"])])
def test_filter_of_durations(client: Client, duration_ms: int, found: list[str]) -> None:
    """[transactions/list]"""
    for tid in (TID, "q1"):
        init(client, tid)
    add(client, 0, {"foo": [0]})
    client.loop.advance(1_000)
    request = ListTransactionsRequest(
        state_filters=[], producer_id_filters=[], duration_filter=duration_ms
    )
    answer = client.call(request, 2)
    assert sorted(each.transactional_id for each in answer.transaction_states) == found


class TestWithPartitions:
    """Transactions from the producer to the reader: coordinator, partitions and markers."""

    @pytest.fixture
    def client(self, client: Client) -> Client:
        open_log(client.broker, "foo")
        init(client)
        return client

    def produce(self, client: Client, epoch: int, value: bytes = b"a") -> int:
        """Return the error of a batch that begins the sequence of its epoch."""
        request = transactional_request(
            value, topic="foo", producer=(0, epoch, 0), transactional_id=TID
        )
        answer = client.call(request, 12).responses[0].partition_responses[0]
        return int(answer.error_code)

    def committed(self, client: Client) -> list[bytes | None]:
        """Return what a reader of committed records sees."""
        request = fetch_request((0, 0), topic="foo", isolation_level=1)
        found = client.call(request, 12).responses[0].partitions[0]
        aborted = {each.producer_id: each.first_offset for each in found.aborted_transactions or ()}
        assert not aborted
        return values_of(found.records)

    def test_records_are_seen_after_the_commit(self, client: Client) -> None:
        assert self.produce(client, 0) == 0
        assert described(client) == (0, "Ongoing", 0)
        assert self.committed(client) == []
        assert end(client, 0) == (0, 1)
        assert b"a" in self.committed(client)
        assert self.produce(client, 0, b"late") == ErrorCode.INVALID_PRODUCER_EPOCH
        assert self.produce(client, 1, b"next") == 0

    def test_decision_is_carried_out_after_a_crash(self, client: Client) -> None:
        """[transactions/load]"""
        self.produce(client, 0)
        client.broker.transaction_runtime._markers = NoMarkers()
        request = EndTxnRequest(
            transactional_id=TID, producer_id=0, producer_epoch=0, committed=True
        )
        Client(client.broker).send(request, 5)
        client.loop.turn()
        assert described(client) == (0, "PrepareCommit", 1)
        assert self.committed(client) == []
        again = Client(restarted(client.broker, killed=True))
        again.loop.turn()
        assert described(again) == (0, "CompleteCommit", 1)
        open_log(again.broker, "foo")
        assert b"a" in self.committed(again)
        assert end(again, 0) == (0, 1)

    def test_topic_that_is_deleted_meanwhile_does_not_hold_the_end(self, client: Client) -> None:
        """[transactions/end]"""
        self.produce(client, 0)
        add(client, 0, {"bar": [0, 1]})
        client.broker.delete_topic(client.broker.topics.by_name["bar"])
        assert end(client, 0) == (0, 1)
        assert b"a" in self.committed(client)


class NoMarkers:
    """Writes no marker, as if the broker was killed before."""

    def write(self, markers: TransactionMarkers, done: Callable[[], None]) -> None:
        assert markers.partitions
        assert callable(done)

    def forget(self, markers: TransactionMarkers) -> None:
        assert markers.partitions


def test_transaction_needs_no_other_turn_of_the_loop_without_syncs(client: Client) -> None:
    """Every record is a batch of its own, so waiting for others would gain nothing."""
    init(client)
    open_log(client.broker, "foo")
    request = transactional_request(b"v", transactional_id=TID, producer=(0, 0, 0), topic="foo")
    client.send(request, 12)
    ((_, produced),) = client.answers()
    assert produced.responses[0].partition_responses[0].error_code == 0
    client.send(
        EndTxnRequest(transactional_id=TID, producer_id=0, producer_epoch=0, committed=True), 5
    )
    ((_, ended),) = client.answers()
    assert (ended.error_code, ended.producer_epoch) == (0, 1)
    assert described(client)[1] == "CompleteCommit"


def test_records_behind_a_shortage_keep_their_order(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[log/handle-shortage]"""
    init(client)
    topic = client.broker.topics.by_name[TRANSACTIONS_TOPIC]
    partition = topic.partitions[client.broker.transaction_runtime.coordinator.partition_for(TID)]
    write, calls = Partition.append_own, 0

    def short(self: Partition, batch: bytes, now_ms: int = 0, made: int = 0) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise OutOfHandles("d", OSError(errno.EMFILE, "too many open files"))
        write(self, batch, now_ms, made)

    monkeypatch.setattr(Partition, "append_own", short)
    begin = partition.log.log_end_offset
    request = AddPartitionsToTxnRequest(
        transactional_id=TID,
        producer_id=0,
        producer_epoch=0,
        topics=[AddPartitionsToTxnRequestTopic(name="foo", partitions=[0])],
    )
    client.send(request, 3)
    client.send(
        EndTxnRequest(transactional_id=TID, producer_id=0, producer_epoch=0, committed=True), 3
    )
    client.loop.turn()
    assert client.answers() == []
    assert partition.log.log_end_offset == begin
    client.loop.advance(100)
    client.loop.turn()
    assert len(client.answers()) == 2
    assert calls == 4, "the lost write, and three records"
    assert described(client)[1] == "CompleteCommit"
