"""Produce inside a transaction; the answers are those of Kafka 4.3.1.

Rules: [data-plane/transactional-batches], [data-plane/transactional-errors],
[transactions/adding-again].
"""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.produce import ProduceRequestPartition
from tests.unit.server.manual import (
    COMMIT,
    Client,
    make_broker,
    open_log,
    restarted,
    wait_for_disk,
)
from tests.unit.server.produced import batch, produce, produce_request
from tests.unit.server.transactions import (
    DecidedUses,
    describe_producers,
    transactional_request,
    write_marker,
)

NOT_ADDED = "Partition was not added to the transaction"
NOT_VERIFIED = (
    "Unable to verify the partition has been added to the transaction. Underlying error: "
)
RETRY_MS, RETRIES_MS = 20, 100


@pytest.fixture
def client() -> Client:
    """A client of a broker with a topic of 50 partitions."""
    client = Client(make_broker())
    client.broker.controller.create("t", 50, {})
    open_log(client.broker, "t")
    return client


def decide(client: Client, *added: tuple[str, int], error: int = 0) -> DecidedUses:
    uses = DecidedUses(*added, error=ErrorCode(error))
    client.broker.transactions = uses
    return uses


def answer_of(client: Client, version: int, **fields: Any) -> Any:
    """Send a batch of a transaction in a version; return the answer for the partition."""
    fields.setdefault("values", (b"a",))
    request = transactional_request(*fields.pop("values"), **fields)
    if version >= 13:
        request.topic_data[0].topic_id = client.broker.topics.by_name["t"].topic_id
    return client.call(request, version).responses[0].partition_responses[0]


def test_first_batch_of_a_transaction_comes_first(client: Client) -> None:
    """[data-plane/first-sequence]"""
    decide(client, ("t", 0))

    def sent(sequence: int, epoch: int = 0, value: bytes = b"a") -> int:
        return int(answer_of(client, 11, values=(value,), producer=(7, epoch, sequence)).error_code)

    assert [sent(5, value=b"a" * 2_000_000), sent(6), sent(5), sent(6)] == [10, 45, 0, 0]
    # The next transaction goes on, and so does a higher epoch.
    assert write_marker(client, 7, 0) == 0
    assert [sent(8), sent(7)] == [45, 0]
    assert write_marker(client, 7, 0) == 0
    assert [sent(9), sent(0, epoch=1)] == [45, 0]


class TestVerification:
    """Versions before 12 need a partition that was added before."""

    def test_added_partition(self, client: Client) -> None:
        uses = decide(client, ("t", 0))
        assert answer_of(client, 11).base_offset == 0
        assert open_log(client.broker, "t").last_stable_offset == 0
        # Once the transaction is open here, the coordinator is not asked again.
        assert answer_of(client, 11, producer=(7, 0, 1), transactional_id="y").base_offset == 1
        (asked,) = uses.asked
        assert (asked.transactional_id, asked.add, asked.partitions) == ("x", False, (("t", 0),))

    @pytest.mark.parametrize(
        ("version", "error", "text"),
        [(7, 48, None), (8, 48, NOT_ADDED), (10, 48, NOT_ADDED), (11, 120, None)],
    )
    def test_partition_that_was_not_added(
        self, client: Client, version: int, error: int, text: str | None
    ) -> None:
        decide(client)
        found = answer_of(client, version)
        assert (found.error_code, found.base_offset, found.log_start_offset) == (error, -1, -1)
        assert found.error_message == text
        assert open_log(client.broker, "t").log_end_offset == 0

    @pytest.mark.parametrize(
        ("error", "version", "expected", "has_text"),
        [
            (49, 11, 49, False),
            (49, 12, 49, False),
            (90, 9, 47, False),
            (90, 12, 47, False),
            (48, 12, 48, True),
            (51, 11, 19, True),
            (13, 12, 19, True),
            (14, 9, 19, True),
            (15, 12, 19, True),
            (16, 11, 19, True),
        ],
    )
    def test_errors_of_the_coordinator(
        self, client: Client, error: int, version: int, expected: int, has_text: bool
    ) -> None:
        decide(client, error=error)
        found = answer_of(client, version)
        assert (found.error_code, found.log_start_offset) == (expected, -1)
        text = NOT_ADDED if expected == 48 else NOT_VERIFIED + ErrorCode(error).name
        assert found.error_message == (text if has_text else None)

    def test_can_be_switched_off_for_old_versions(self) -> None:
        client = Client(make_broker({"transaction.partition.verification.enable": "false"}))
        client.broker.controller.create("t", 1, {})
        decide(client)
        assert answer_of(client, 11).error_code == 0
        decide(client, error=49)
        assert answer_of(client, 12, producer=(8, 0, 0)).error_code == 49


class TestImplicitAdd:
    """From version 12 on a Produce adds its partitions."""

    def test_first_batch_adds_its_partition(self, client: Client) -> None:
        uses = decide(client)
        for version, sequence in ((12, 0), (13, 1)):
            found = answer_of(client, version, producer=(7, 0, sequence))
            assert found.base_offset == sequence
        assert uses.added == {("t", 0)}
        assert [asked.add for asked in uses.asked] == [True, False]
        assert {asked.client_transaction_version for asked in uses.asked} == {2}

    def test_append_waits_for_the_record_of_the_transaction(self, client: Client) -> None:
        uses = decide(client)
        uses.waiting = []
        log = open_log(client.broker, "t")
        first = client.send(transactional_request(b"a"), 12)
        # A later request of the connection is handled later, too.
        second = client.send(transactional_request(b"b", producer=(7, 0, 1)), 12)
        client.loop.turn()
        assert (client.answers(), log.log_end_offset) == ([], 0)
        uses.waiting.pop()(ErrorCode.NONE)
        client.loop.turn()
        found = [
            (number, answer.responses[0].partition_responses[0].base_offset)
            for number, answer in client.answers()
        ]
        assert found == [(first, 0), (second, 1)]
        assert uses.waiting == []

    def test_record_that_could_not_be_written(self, client: Client) -> None:
        uses = decide(client)
        uses.waiting = []
        client.send(transactional_request(b"a"), 12)
        uses.waiting.pop()(ErrorCode.NOT_COORDINATOR)
        client.loop.turn()
        ((_, answer),) = client.answers()
        found = answer.responses[0].partition_responses[0]
        assert (found.error_code, found.error_message) == (19, NOT_VERIFIED + "NOT_COORDINATOR")

    def test_transaction_that_ended_before_the_append(self, client: Client) -> None:
        uses = decide(client)
        uses.waiting = []
        client.send(transactional_request(b"a"), 12)
        uses.added.clear()
        uses.waiting.pop()(ErrorCode.NONE)
        client.loop.turn()
        ((_, answer),) = client.answers()
        assert answer.responses[0].partition_responses[0].error_code == 120
        assert open_log(client.broker, "t").log_end_offset == 0

    def test_last_transaction_that_is_about_to_end(self, client: Client) -> None:
        uses = decide(client, error=51)
        client.send(transactional_request(b"a"), 12)
        client.loop.advance(RETRY_MS)
        assert (client.answers(), len(uses.asked)) == ([], 2)
        uses.error = ErrorCode.NONE
        client.loop.advance(RETRY_MS)
        ((_, answer),) = client.answers()
        assert answer.responses[0].partition_responses[0].error_code == 0

    def test_last_transaction_that_does_not_end(self, client: Client) -> None:
        uses = decide(client, error=51)
        client.send(transactional_request(b"a"), 12)
        client.loop.advance(RETRIES_MS - 1)
        assert client.answers() == []
        client.loop.advance(RETRY_MS)
        ((_, answer),) = client.answers()
        found = answer.responses[0].partition_responses[0]
        assert (found.error_code, found.error_message) == (51, None)
        assert len(uses.asked) == 1 + RETRIES_MS // RETRY_MS

    def test_partition_stays_added_if_the_append_fails(self, client: Client) -> None:
        uses = decide(client)
        assert answer_of(client, 12, values=(b"a" * 2_000_000,)).error_code == 10
        assert uses.added == {("t", 0)}

    def test_unknown_partitions_are_not_added(self, client: Client) -> None:
        uses = decide(client)
        assert answer_of(client, 12, partition=77).error_code == 3
        assert answer_of(client, 12, topic="__consumer_offsets").error_code == 17
        assert uses.asked == []

    def test_many_partitions(self, client: Client) -> None:
        uses = decide(client)
        uses.waiting = []
        request = transactional_request(b"a")
        (topic,) = request.topic_data
        records = topic.partition_data[0].records
        topic.partition_data = [
            ProduceRequestPartition(index=index, records=records) for index in range(50)
        ]
        client.send(request, 12)
        while not uses.waiting:
            client.loop.turn()
        uses.waiting.pop()(ErrorCode.NONE)
        while not (answers := client.answers()):
            client.loop.turn()
        ((_, answer),) = answers
        found = answer.responses[0].partition_responses
        assert [(each.index, each.error_code) for each in found] == [(n, 0) for n in range(50)]

    def test_request_without_a_response(self, client: Client) -> None:
        uses = decide(client)
        uses.waiting = []
        client.send(transactional_request(b"a", acks=0), 12)
        uses.waiting.pop()(ErrorCode.NONE)
        client.loop.turn()
        assert client.answers() == []
        assert open_log(client.broker, "t").log_end_offset == 1
        assert answer_of(client, 12, producer=(7, 0, 1)).base_offset == 1


class TestEpochsAndSequences:
    def test_older_epoch(self, client: Client) -> None:
        uses = decide(client)
        write_marker(client, 7, 3)
        for version in (9, 11, 12):
            found = answer_of(client, version, producer=(7, 2, 0))
            assert (found.error_code, found.log_start_offset) == (47, -1)
        assert uses.asked == []

    def test_first_sequence_of_an_unknown_producer(self, client: Client) -> None:
        decide(client, ("t", 0))
        assert answer_of(client, 12, producer=(7, 0, 5)).error_code == 45
        assert answer_of(client, 11, producer=(7, 0, 5)).error_code == 0

    def test_plain_batch_of_a_producer_in_a_transaction(self, client: Client) -> None:
        decide(client)
        assert answer_of(client, 12).error_code == 0
        found = produce(client, batch(b"b", producer=(7, 0, 1)))
        assert (found.error_code, found.log_start_offset) == (48, 0)

    def test_retry_behind_the_marker(self, client: Client) -> None:
        uses = decide(client)
        assert answer_of(client, 12).base_offset == 0
        write_marker(client, 7, 1, version=2)
        uses.added.clear()
        # At level 2 the marker has a higher epoch, so nothing of the transaction comes later.
        assert answer_of(client, 12, producer=(7, 0, 1)).error_code == 47
        assert answer_of(client, 12, producer=(7, 1, 0)).base_offset == 2

    def test_plain_batch_in_a_request_with_a_transactional_id(self, client: Client) -> None:
        uses = decide(client)
        request = transactional_request(b"a")
        request.topic_data[0].partition_data[0].records = batch(b"a")
        answer = client.call(request, 12)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert uses.asked == []


@pytest.mark.parametrize("killed", [True, False])
def test_open_transaction_survives_a_restart(killed: bool) -> None:
    client = Client(make_broker(flush=COMMIT))
    client.broker.controller.create("t", 2, {})
    decide(client, ("t", 0))
    for request in (produce_request(batch(b"plain")), transactional_request(b"a")):
        client.send(request, 11)
        wait_for_disk(client)
    client.answers()
    again = Client(restarted(client.broker, killed=killed))
    uses = decide(again, ("t", 0))
    log = open_log(again.broker, "t")
    assert (log.last_stable_offset, log.log_end_offset) == (1, 2)
    (producer,) = describe_producers(again)[0].active_producers
    assert (producer.last_sequence, producer.current_txn_start_offset) == (0, 1)
    # The retry of the last batch is recognized, and the transaction goes on and ends.
    assert answer_of(again, 11).base_offset == 1
    assert answer_of(again, 11, producer=(7, 0, 1)).base_offset == 2
    assert uses.asked == []
    assert write_marker(again, 7, 0, commit=False) == 0
    assert log.last_stable_offset == 4
    _, aborted = log.read_committed(0, 1 << 20)
    assert [(each.first_offset, each.last_offset) for each in aborted] == [(1, 3)]


def test_records_can_be_deleted_up_to_behind_an_open_transaction(client: Client) -> None:
    decide(client, ("t", 0))
    assert answer_of(client, 11).error_code == 0
    assert produce(client, batch(b"b", b"c")).error_code == 0
    log = open_log(client.broker, "t")
    client.broker.logs.delete_records(client.broker.topics.by_name["t"].partitions[0], 2)
    assert (log.log_start_offset, log.last_stable_offset) == (2, 2)
    assert write_marker(client, 7, 0) == 0
    assert log.last_stable_offset == 4
