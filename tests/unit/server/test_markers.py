"""WriteTxnMarkers, MarkerWriter and DescribeProducers; the answers are those of Kafka 4.3.1.

Rules: [data-plane/markers], [data-plane/described-producers], [data-plane/long-poll],
[transactions/write-txn-markers], [transactions/marker-retries].
"""

import pytest

from coterie.protocol.control_records import TransactionMarkers
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from coterie.server.transactions.markers import RETRY_S
from tests.unit.server.manual import COMMIT, Client, make_broker, open_log, wait_for_disk
from tests.unit.server.produced import batch, fetch_request, produce, values_of
from tests.unit.server.transactions import (
    describe_producers,
    marker,
    write_marker,
    write_markers,
)

FAULT, NONE, UNKNOWN, EPOCH, COORDINATOR = -1, 0, 3, 47, 52
RETRY_MS = int(RETRY_S * 1000)


@pytest.fixture
def client() -> Client:
    """A client of a broker with a topic of three partitions."""
    client = Client(make_broker())
    client.broker.controller.create("t", 3, {})
    return client


def begin(client: Client, producer_id: int, *values: bytes, epoch: int = 0) -> None:
    """Append records of a transaction, as if the coordinator had allowed it."""
    open_log(client.broker, "t")
    data = batch(*values, producer=(producer_id, epoch, 0), transactional=True)
    client.broker.topics.by_name["t"].partitions[0].append_own(data, client.broker.now_ms())


def markers(
    *partitions: tuple[str, int], epoch: int = 0, commit: bool = True
) -> TransactionMarkers:
    return TransactionMarkers(3, "x", 7, epoch, 0, commit, 0, partitions)


class TestRequest:
    def test_unknown_producer_gets_its_marker(self, client: Client) -> None:
        assert write_marker(client, 7, 3) == NONE
        assert open_log(client.broker, "t").log_end_offset == 1
        (found,) = describe_producers(client)
        (producer,) = found.active_producers
        assert (producer.producer_id, producer.producer_epoch) == (7, 3)
        assert (producer.last_sequence, producer.coordinator_epoch) == (-1, 0)
        assert producer.current_txn_start_offset == -1

    def test_epoch_of_the_producer(self, client: Client) -> None:
        begin(client, 7, b"a", epoch=3)
        assert write_marker(client, 7, 2) == EPOCH
        # At level 2 the marker of a transaction has a higher epoch than its records.
        assert write_marker(client, 7, 3, version=2) == EPOCH
        assert write_marker(client, 7, 4, version=2) == NONE
        # A repetition is appended, too.
        assert write_marker(client, 7, 4, version=2) == NONE
        assert write_marker(client, 7, 4, version=0) == NONE
        assert open_log(client.broker, "t").log_end_offset == 4

    def test_transaction_of_the_greatest_epoch_can_be_ended(self, client: Client) -> None:
        begin(client, 7, b"a", epoch=32767)
        assert write_marker(client, 7, 32767, version=2) == NONE
        assert open_log(client.broker, "t").last_stable_offset == 2

    def test_epoch_of_the_coordinator(self, client: Client) -> None:
        assert write_marker(client, 7, 3, coordinator_epoch=5) == NONE
        assert write_marker(client, 7, 4, coordinator_epoch=4) == COORDINATOR
        assert write_marker(client, 7, 2, coordinator_epoch=4) == EPOCH

    def test_impossible_producers(self, client: Client) -> None:
        assert write_marker(client, -1, 0) == FAULT
        assert write_marker(client, 7, -2) == EPOCH
        assert write_marker(client, 7, 0, coordinator_epoch=-2) == COORDINATOR
        assert write_marker(client, -1, 0, topic="__consumer_offsets") == FAULT
        # An epoch that no batch can have spoils the request.
        assert write_markers(client, marker(7, -1, 0, 9), marker(8, 0, 1)) == {
            7: {"t": {0: FAULT, 9: FAULT}},
            8: {"t": {1: FAULT}},
        }
        assert open_log(client.broker, "t").log_end_offset == 0

    def test_each_partition_has_a_result(self, client: Client) -> None:
        found = write_markers(
            client,
            marker(7, 0, 0, 9),
            marker(7, 0, 1, topic="none"),
            marker(8, 0, 2, 2),
            marker(9, 0, topic="__consumer_offsets"),
        )
        assert found == {
            7: {"t": {0: NONE, 9: UNKNOWN}, "none": {1: UNKNOWN}},
            8: {"t": {2: NONE}},
            9: {"__consumer_offsets": {0: NONE}},
        }

    def test_no_markers(self, client: Client) -> None:
        assert client.call(WriteTxnMarkersRequest(markers=[]), 1).markers == []
        nothing = marker(7, 0)
        nothing.topics[0].partition_indexes.clear()
        assert write_markers(client, nothing) == {}

    def test_greatest_timestamp_may_be_that_of_a_marker(self, client: Client) -> None:
        produce(client, batch(b"a", timestamp_ms=client.broker.now_ms()))
        client.loop.advance(10)
        assert write_marker(client, 7, 0) == NONE
        assert open_log(client.broker, "t").max_timestamp() == (client.broker.now_ms(), 1)

    def test_marker_ends_the_transaction_of_any_id(self, client: Client) -> None:
        begin(client, 7, b"a", b"b")
        log = open_log(client.broker, "t")
        assert log.last_stable_offset == 0
        assert describe_producers(client)[0].active_producers[0].current_txn_start_offset == 0
        assert write_marker(client, 7, 0, commit=False) == NONE
        assert (log.last_stable_offset, log.log_end_offset) == (3, 3)
        _, aborted = log.read_committed(0, 1000)
        assert [each.first_offset for each in aborted] == [0]


class TestDescribedProducers:
    def test_errors(self, client: Client) -> None:
        found = describe_producers(client, 0, 7, 0)
        assert [(each.error_code, each.error_message) for each in found] == [(0, None), (3, None)]
        (found,) = describe_producers(client, topic="none")
        text = "This server does not host this topic-partition."
        assert (found.error_code, found.error_message) == (UNKNOWN, text)
        (found,) = describe_producers(client, topic="b@d")
        assert (found.error_code, found.active_producers) == (17, [])
        assert found.error_message.startswith("Topic name is invalid: 'b@d' contains")

    def test_sequence_and_time_of_the_last_batch(self, client: Client) -> None:
        produce(client, batch(b"a", b"b", timestamp_ms=5000, producer=(4, 1, 0)))
        (producer,) = describe_producers(client)[0].active_producers
        assert (producer.last_sequence, producer.last_timestamp) == (1, 5000)
        assert producer.coordinator_epoch == -1


class TestWaitingFetch:
    """A fetch at READ_COMMITTED waits for what becomes stable."""

    def wait(self, client: Client, offset: int, min_bytes: int = 1) -> None:
        request = fetch_request(
            (0, offset), max_wait_ms=500, isolation_level=1, min_bytes=min_bytes
        )
        client.send(request, 12)
        client.loop.turn()
        assert client.answers() == []

    def answer(self, client: Client) -> list[bytes | None] | None:
        """Return the values of the answer, without those of markers; None if it still waits."""
        client.loop.turn()
        for _, found in client.answers():
            return [value for value in values_of(found.responses[0].partitions[0].records) if value]
        return None

    def test_records_of_an_open_transaction_do_not_end_it(self, client: Client) -> None:
        other = Client(client.broker)
        self.wait(client, 0)
        begin(client, 7, b"a")
        produce(other, batch(b"plain"))
        assert self.answer(client) is None
        write_marker(other, 7, 0)
        assert self.answer(client) == [b"a", b"plain", bytes(6)]

    def test_marker_of_one_of_two_transactions(self, client: Client) -> None:
        other = Client(client.broker)
        begin(client, 7, b"a")
        begin(client, 8, b"b")
        self.wait(client, 0)
        write_marker(other, 8, 0)
        assert self.answer(client) is None
        write_marker(other, 7, 0)
        assert self.answer(client) == [b"a", b"b", bytes(6), bytes(6)]

    def test_fewer_bytes_than_wanted(self, client: Client) -> None:
        other = Client(client.broker)
        begin(client, 7, b"a")
        begin(client, 8, b"b" * 1000)
        self.wait(client, 0, min_bytes=300)
        write_marker(other, 7, 0)
        assert self.answer(client) is None
        write_marker(other, 8, 0)
        assert self.answer(client) is not None

    def test_readers_of_everything_do_not_wait_for_a_marker(self, client: Client) -> None:
        client.send(fetch_request((0, 0), max_wait_ms=500), 12)
        begin(client, 7, b"a")
        assert self.answer(client) == [b"a"]


class TestWriter:
    """What the transaction coordinator calls."""

    def test_partitions_that_do_not_exist_count_as_done(self, client: Client) -> None:
        done: list[bool] = []
        writer = client.broker.markers
        writer.write(markers(("t", 0), ("t", 9), ("gone", 0)), lambda: done.append(True))
        client.loop.turn()
        assert done == [True]
        assert open_log(client.broker, "t").log_end_offset == 1

    def test_many_partitions(self, client: Client) -> None:
        client.broker.controller.create("many", 100, {})
        done: list[bool] = []
        named = markers(*(("many", index) for index in range(100)))
        client.broker.markers.write(named, lambda: done.append(True))
        while not done:
            client.loop.turn()
        assert {open_log(client.broker, "many", n).log_end_offset for n in range(100)} == {1}

    def test_markers_are_durable_when_done(self) -> None:
        client = Client(make_broker(flush=COMMIT))
        client.broker.controller.create("t", 1, {})
        done: list[int] = []
        log = open_log(client.broker, "t")
        client.broker.markers.write(markers(("t", 0)), lambda: done.append(log.synced_offset))
        assert (log.log_end_offset, done) == (1, [])
        wait_for_disk(client)
        assert done == [1]

    def test_offsets_get_their_markers_from_the_group_coordinator(self, client: Client) -> None:
        writer, asked, done = client.broker.markers, [], []
        answers = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]

        def write(index, named, answered):  # type: ignore[no-untyped-def]
            asked.append((index, named.producer_id))
            answered(answers.pop(0))

        writer.write_offsets_marker = write
        writer.write(markers(("__consumer_offsets", 2)), lambda: done.append(True))
        assert (asked, done) == ([(2, 7)], [])
        client.loop.advance(RETRY_MS)
        assert (asked, done) == ([(2, 7), (2, 7)], [True])

    def test_failed_log_is_tried_again_until_the_broker_stops(self, client: Client) -> None:
        log = open_log(client.broker, "t")
        log.fail(OSError(5, "I/O error"))
        done: list[bool] = []
        client.broker.markers.write(markers(("t", 0)), lambda: done.append(True))
        client.loop.advance(10 * RETRY_MS)
        assert done == []
        client.broker.delete_topic(client.broker.topics.by_name["t"])
        client.loop.advance(RETRY_MS)
        assert done == [True]

    def test_nothing_is_tried_after_the_stop(self, client: Client) -> None:
        open_log(client.broker, "t").fail(OSError(5, "I/O error"))
        client.broker.markers.write(markers(("t", 0)), lambda: None)
        client.broker.markers.stop()
        client.broker.markers.write(markers(("t", 0)), lambda: None)
        client.loop.advance(10 * RETRY_MS)
        assert len(client.broker.failures._failed_logs) == 1
