"""`coterie transactions`, against a broker of ours."""

from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from coterie.cli.main import main
from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_producers import (
    DescribeProducersResponse,
    DescribeProducersResponsePartition,
    DescribeProducersResponseProducer,
    DescribeProducersResponseTopic,
)
from coterie.protocol.messages.describe_transactions import (
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTransaction,
)
from coterie.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from coterie.protocol.messages.list_transactions import (
    ListTransactionsResponse,
    ListTransactionsResponseTransaction,
)
from coterie.protocol.messages.write_txn_markers import (
    WriteTxnMarkersResponse,
    WriteTxnMarkersResponseMarker,
    WriteTxnMarkersResponsePartition,
    WriteTxnMarkersResponseTopic,
)
from coterie.server.broker import Broker
from coterie.server.transactions.use import TransactionUse
from tests.unit.cli.command import rows_of, run
from tests.unit.client.fake_broker import FakeBroker, in_turn
from tests.unit.server.produced import batch
from tests.unit.server.running import RunningBroker

# What a scripted broker answers.
LISTED = ListTransactionsResponse(
    error_code=0,
    unknown_state_filters=[],
    transaction_states=[
        ListTransactionsResponseTransaction(
            transactional_id="tx", producer_id=0, transaction_state="Ongoing"
        )
    ],
)
DESCRIBED = DescribeTransactionsResponse(
    transaction_states=[
        DescribeTransactionsResponseTransaction(
            error_code=0,
            transactional_id="tx",
            transaction_state="Ongoing",
            transaction_timeout_ms=7000,
            topics=[],
        )
    ]
)
INITIALIZED = InitProducerIdResponse(error_code=0, producer_id=4, producer_epoch=3)
PRODUCERS = DescribeProducersResponse(
    topics=[
        DescribeProducersResponseTopic(
            name="t",
            partitions=[
                DescribeProducersResponsePartition(
                    partition_index=0,
                    error_code=0,
                    active_producers=[
                        DescribeProducersResponseProducer(
                            producer_id=1,
                            producer_epoch=0,
                            coordinator_epoch=-1,
                            current_txn_start_offset=7,
                        )
                    ],
                )
            ],
        )
    ]
)
ABORTED = WriteTxnMarkersResponse(
    markers=[
        WriteTxnMarkersResponseMarker(
            producer_id=1,
            topics=[
                WriteTxnMarkersResponseTopic(
                    name="t",
                    partitions=[WriteTxnMarkersResponsePartition(partition_index=0, error_code=0)],
                )
            ],
        )
    ]
)

OPEN, HANGING, FRESH = 0, 5_000, 5_001


class Caller:
    """Takes a late answer."""

    def send(self, answer: object) -> None:
        """Take it."""


def begin(broker: Broker) -> None:
    """Begin a transaction, and leave one of an unknown producer open."""
    topic = broker.controller.create("orders", 2, {})
    runtime = broker.transaction_runtime
    count = broker.config.get_int("transaction.state.log.num.partitions")
    runtime.take_over(broker.controller.create("__transaction_state", count, {}).partitions)
    for partition in topic.partitions:
        broker.logs.opener.open([partition], lambda: None)
    runtime.schedule_load()


def is_ready(broker: Broker) -> bool:
    """Return whether the coordinator is loaded and the topic is open."""
    partitions = broker.topics.by_name["orders"].partitions
    is_open = all(each.opened_log is not None for each in partitions)
    return is_open and not broker.transaction_runtime.loading_partitions()


def produce(broker: Broker) -> None:
    runtime = broker.transaction_runtime
    context = RequestContext(ClientContext(), 5, Caller())
    for name in ("tx", "idle"):
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        verb = runtime.coordinator.init_producer_id
        runtime.apply(verb(broker.now_ms(), request, context))
    use = TransactionUse("tx", OPEN, 0, (("orders", 0),), add=True, client_transaction_version=2)
    runtime.use_partitions(use, lambda _: None)
    first, second = broker.topics.by_name["orders"].partitions
    now_ms = broker.now_ms()
    for partition, producer in ((first, OPEN), (second, HANGING)):
        partition.log.append(batch(b"old", producer=(producer, 0, 0), transactional=True))
    fresh = batch(b"new", producer=(FRESH, 0, 0), transactional=True, timestamp_ms=now_ms)
    second.log.append(fresh)


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with RunningBroker() as running:
        running.call(lambda: begin(running.broker))
        running.wait_for(lambda: is_ready(running.broker))
        running.call(lambda: produce(running.broker))
        yield running


def transactions(broker: RunningBroker, *arguments: str) -> Result:
    """Run `coterie transactions`."""
    environment = {"COTERIE_BOOTSTRAP": str(broker.address)}
    return CliRunner().invoke(
        main, ("transactions", *arguments), env=environment, catch_exceptions=False,
        prog_name="coterie",
    )  # fmt: skip


def listed(broker: RunningBroker, *arguments: str) -> list[str]:
    rows: list[dict[str, Any]] = rows_of(transactions(broker, "list", *arguments, "--json"))
    return [row["transactional_id"] for row in rows]


def test_list(broker: RunningBroker) -> None:
    lines = transactions(broker, "list").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"],
        ["idle", "1", "1", "Empty"],
        ["tx", "1", "0", "Ongoing"],
    ]
    assert listed(broker, "--state", "Ongoing") == ["tx"]
    assert listed(broker, "--producer-id", "1") == ["idle"]
    assert listed(broker, "--longer-than", "3600000") == ["idle"]
    assert listed(broker, "--pattern", "t.*") == ["tx"]
    wrong = transactions(broker, "list", "--state", "Foo")
    assert wrong.exit_code == 1
    assert "No state of a transaction has the name Foo." in wrong.stderr


def test_describe(broker: RunningBroker) -> None:
    busy, idle = rows_of(transactions(broker, "describe", "tx", "idle", "--json"))
    assert (busy["state"], busy["partitions"], busy["timeout_ms"]) == (
        "Ongoing", {"orders": [0]}, 60_000
    )  # fmt: skip
    assert busy["duration_ms"] >= 0
    assert (idle["state"], idle["start_ms"], idle["duration_ms"]) == ("Empty", None, None)
    unknown = transactions(broker, "describe", "none")
    assert unknown.exit_code == 1
    assert "TRANSACTIONAL_ID_NOT_FOUND" in unknown.stderr


def test_hanging_transaction_is_found_and_aborted(broker: RunningBroker) -> None:
    """[client/hanging-transactions]"""
    for place in ((), ("--topic", "orders"), ("--topic", "orders", "--partition", "1")):
        (row,) = rows_of(transactions(broker, "find-hanging", *place, "--json"))
        assert (row["topic"], row["partition"], row["producer_id"]) == ("orders", 1, HANGING)
    both = rows_of(transactions(broker, "find-hanging", "--max-transaction-timeout", "0", "--json"))
    assert [each["producer_id"] for each in both] == [HANGING, FRESH]
    where = ("--topic", "orders", "--partition", "1", "--start-offset", str(row["start_offset"]))
    done = transactions(broker, "abort", *where)
    assert done.stdout == f"Transaction of producer {HANGING} aborted.\n"
    assert rows_of(transactions(broker, "find-hanging", "--json")) == []
    again = transactions(broker, "abort", *where)
    assert again.exit_code == 1
    assert "No transaction is open in orders-1" in again.stderr


def test_wrong_places(broker: RunningBroker) -> None:
    unknown = transactions(broker, "find-hanging", "--topic", "nowhere")
    assert unknown.exit_code == 1
    assert "nowhere" in unknown.stderr
    assert transactions(broker, "find-hanging", "--partition", "1").exit_code == 2


def test_describe_producers(broker: RunningBroker) -> None:
    place = ("--topic", "orders", "--partition", "0")
    (row,) = rows_of(transactions(broker, "describe-producers", *place, "--json"))
    assert (row["producer_id"], row["producer_epoch"], row["start_offset"]) == (OPEN, 0, 0)
    assert (row["coordinator_epoch"], row["last_sequence"]) == (-1, 0)
    title, line = transactions(
        broker, "describe-producers", *place, "--broker-id", "1"
    ).stdout.splitlines()
    assert title.split()[-1] == "START-OFFSET"
    assert line.split()[:2] == [str(OPEN), "0"]
    absent = transactions(broker, "describe-producers", *place, "--broker-id", "7")
    assert absent.stderr == "Error: Broker 7 does not exist.\nThe brokers are 1.\n"


def initialized(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_epoch=-1)


def test_terminate_repeats_until_the_transaction_is_over() -> None:
    """[client/terminated-producers]"""
    ending = in_turn(
        initialized(ErrorCode.CONCURRENT_TRANSACTIONS),
        initialized(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        INITIALIZED,
    )
    responses = {ApiKey.DESCRIBE_TRANSACTIONS: DESCRIBED, ApiKey.INIT_PRODUCER_ID: ending}
    with FakeBroker(responses) as broker:
        done = run(broker, "transactions", "terminate", "tx")
    assert done.stdout == "Transaction of 'tx' aborted.\nProducer 4 is fenced below epoch 3.\n"
    (lookup, *_) = broker.seen(ApiKey.FIND_COORDINATOR)
    assert (lookup.key_type, lookup.coordinator_keys) == (1, ["tx"])
    request = broker.seen(ApiKey.INIT_PRODUCER_ID)[-1]
    assert (request.transactional_id, request.transaction_timeout_ms) == ("tx", 7000)


def test_terminate_refuses_what_does_not_exist() -> None:
    with FakeBroker({ApiKey.DESCRIBE_TRANSACTIONS: DESCRIBED}) as broker:
        done = run(broker, "transactions", "terminate", "none")
    assert done.exit_code == 1
    assert "Transactional id 'none': TRANSACTIONAL_ID_NOT_FOUND." in done.stderr


def test_terminate_with_a_broker_that_does_not_describe() -> None:
    ranges = {**SERVED_VERSIONS, ApiKey.FIND_COORDINATOR: (0, 3)}
    del ranges[ApiKey.DESCRIBE_TRANSACTIONS]
    with FakeBroker({ApiKey.INIT_PRODUCER_ID: INITIALIZED}, ranges) as broker:
        done = run(broker, "transactions", "terminate", "tx")
    assert done.stdout == "Producer 4 is fenced below epoch 3.\n"
    assert broker.seen(ApiKey.FIND_COORDINATOR)[0].key == "tx"


def test_abort_by_producer_asks_no_broker_for_producers() -> None:
    """Brokers before Kafka 2.8 cannot be asked."""
    place = ("--topic", "t", "--partition", "0")
    named = ("--producer-id", "9", "--producer-epoch", "2", "--coordinator-epoch", "5")
    with FakeBroker({ApiKey.WRITE_TXN_MARKERS: ABORTED}, topics={"t": 1}) as broker:
        row = rows_of(run(broker, "transactions", "abort", *place, *named, "--json"))
        assert (row["producer_id"], row["start_offset"], row["aborted"]) == (9, None, True)
        for wrong in ((), named[:2], ("--start-offset", "1", "--producer-epoch", "1")):
            assert run(broker, "transactions", "abort", *place, *wrong).exit_code == 2
    (request,) = broker.seen(ApiKey.WRITE_TXN_MARKERS)
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (9, 2, 5)
