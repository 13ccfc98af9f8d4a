"""Partitions that are opened at their first use: who waits, what fails, and what does not.

Rules: [connections/turns], [topics/partition-states].
"""

import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.server.broker import Broker
from coterie.server.logs.log_opener import RETRY_MS
from coterie.server.logs.partition import PartitionState
from coterie.server.metadata.topic_rules import TopicRefused
from coterie.server.slices import Slices
from coterie.server.workers import WorkerThreads, once
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.storage.opening import LogOpening
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.server.manual import Client, ManualEnvironment, logged, make_broker, restarted
from tests.unit.server.manual_loop import ManualLoop
from tests.unit.server.produced import batch, fetch_request, produce, produce_request, values_of
from tests.unit.server.running import PATIENCE_S, RunningBroker
from tests.unit.server.slow_disk import SlowDisk


@pytest.fixture
def disk() -> SlowDisk:
    return SlowDisk()


@pytest.fixture
def client(disk: SlowDisk) -> Client:
    broker = make_broker()
    broker.controller.create("t", 2, {})
    broker.logs.opener._disk = disk
    return Client(broker)


def states(broker: Broker, topic: str = "t") -> list[PartitionState]:
    return [each.state for each in broker.topics.by_name[topic].partitions]


class TestWaiting:
    def test_produce_waits_until_its_partition_is_open(
        self, client: Client, disk: SlowDisk
    ) -> None:
        client.send(produce_request(batch(b"a")), 9)
        client.loop.turn()
        assert client.answers() == []
        assert states(client.broker) == [PartitionState.OPENING, PartitionState.CLOSED]
        disk.finish()
        ((_, answer),) = client.answers()
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert states(client.broker) == [PartitionState.OPEN, PartitionState.CLOSED]

    def test_later_requests_of_the_connection_wait_and_keep_their_order(
        self, client: Client, disk: SlowDisk
    ) -> None:
        heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        sent = [
            client.send(produce_request(batch(b"a")), 9),
            client.send(fetch_request((0, 0)), 12),
            client.send(heartbeat, 4),
        ]
        client.loop.turn()
        assert client.answers() == []
        disk.finish()
        client.loop.turn()
        answers = client.answers()
        assert [correlation_id for correlation_id, _ in answers] == sent
        assert values_of(answers[1][1].responses[0].partitions[0].records) == [b"a"]

    def test_other_connections_are_served(self, client: Client) -> None:
        client.send(produce_request(batch(b"a")), 9)
        other = Client(client.broker)
        heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        assert other.call(heartbeat, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_several_requests_wait_for_one_opening(self, client: Client, disk: SlowDisk) -> None:
        clients = [client, Client(client.broker)]
        for each in clients:
            each.send(produce_request(batch(b"a")), 9)
        assert len(disk.work) == 1
        disk.finish()
        offsets = [
            answer.responses[0].partition_responses[0].base_offset
            for each in clients
            for _, answer in each.answers()
        ]
        assert offsets == [0, 1]

    def test_nothing_is_appended_before_all_partitions_are_open(
        self, client: Client, disk: SlowDisk
    ) -> None:
        produce_to(client, 0, disk)
        request = produce_request(batch(b"b"))
        request.topic_data[0].partition_data += (
            produce_request(batch(b"c"), partition=1).topic_data[0].partition_data
        )
        client.send(request, 9)
        assert client.broker.topics.by_name["t"].partitions[0].log.log_end_offset == 1
        disk.finish()
        ((_, answer),) = client.answers()
        assert [each.base_offset for each in answer.responses[0].partition_responses] == [1, 0]

    def test_lost_connection_is_not_answered(self, client: Client, disk: SlowDisk) -> None:
        client.send(produce_request(batch(b"a")), 9)
        client.connection.connection_lost(None)
        disk.finish()
        partition = client.broker.topics.by_name["t"].partitions[0]
        assert (client.answers(), partition.log.log_end_offset) == ([], 0)

    def test_requests_of_a_client_that_has_left_are_handled(
        self, client: Client, disk: SlowDisk
    ) -> None:
        for partition in (0, 1, 0):
            client.send(produce_request(batch(b"a"), partition=partition, acks=0), 9)
        assert client.connection.eof_received()
        while disk.work:
            assert not client.transport.closed
            disk.finish()
            client.loop.turn()
        assert client.transport.closed
        partitions = client.broker.topics.by_name["t"].partitions
        assert [each.log.log_end_offset for each in partitions] == [2, 1]

    def test_client_that_waits_for_nothing_is_disconnected_when_it_leaves(
        self, client: Client
    ) -> None:
        assert not client.connection.eof_received()

    def test_metadata_opens_nothing(self, client: Client, disk: SlowDisk) -> None:
        answer = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9)
        assert [each.leader_epoch for each in answer.topics[0].partitions] == [0, 0]
        assert (disk.work, set(states(client.broker))) == ([], {PartitionState.CLOSED})

    def test_deletion_answers_those_who_wait(self, client: Client, disk: SlowDisk) -> None:
        client.send(fetch_request((0, 0), max_wait_ms=10_000, min_bytes=1), 12)
        broker = client.broker
        deletion = broker.topic_deletion(broker.topics.by_name["t"], lambda: None)
        broker.changes.submit(deletion, lambda _result, _failure: None)
        # The name cannot be used while a thread uses files in a directory of that name.
        with pytest.raises(TopicRefused, match="marked for deletion"):
            broker.controller.create("t", 2, {})
        disk.finish()
        client.loop.turn()
        ((_, answer),) = client.answers()
        assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        disk.finish()
        client.loop.turn()
        broker.controller.create("t", 2, {})
        assert set(states(broker)) == {PartitionState.CLOSED}
        produce_to(client, 0, disk)

    @pytest.mark.parametrize("ends_in_order", [True, False])
    @pytest.mark.parametrize("is_opened", [True, False])
    def test_opening_that_is_reported_after_the_end_leaves_no_file(
        self, client: Client, disk: SlowDisk, *, is_opened: bool, ends_in_order: bool
    ) -> None:
        """The directory is closed then, and perhaps used by the next broker."""
        produce_to(client, 0, disk)
        client = Client(restarted(client.broker, killed=True))
        broker, files = client.broker, client.broker.shared.data.files
        broker.logs.opener._disk = disk
        client.send(fetch_request((0, 0)), 12)
        ((steps, report),) = disk.work
        if is_opened:
            list(steps)
        if ends_in_order:
            broker.shared.close()
        else:
            broker.shared.abandon()
        assert files.count == 0
        list(steps)
        report(None)
        assert files.count == 0


def produce_to(client: Client, partition: int, disk: SlowDisk) -> None:
    client.send(produce_request(batch(b"a"), partition=partition), 9)
    disk.finish()
    ((_, answer),) = client.answers()
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


class TestFailures:
    @pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
    def test_passing_shortage_is_retried(self, number: int) -> None:
        faulty = FaultyFileSystem(MemoryFileSystem())
        client = Client(make_broker(filesystem=faulty))
        client.broker.controller.create("t", 1, {})
        faulty.fail_at("list", 1, number)
        refused = produce(client, batch(b"a"))
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert states(client.broker) == [PartitionState.CLOSED]
        # It is not tried with each request, and metadata do not call the partition offline.
        assert produce(client, batch(b"a")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        answer = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        client.loop.advance(RETRY_MS)
        assert produce(client, batch(b"a")).error_code == ErrorCode.NONE
        assert len(logged(client.broker, "partition not opened yet")) == 1

    def test_deletion_holds_what_fails_meanwhile(self, client: Client, disk: SlowDisk) -> None:
        """It is opened neither for the request that waits nor for a later one."""
        broker, opener = client.broker, client.broker.logs.opener
        partition, other = broker.topics.by_name["t"].partitions
        client.send(fetch_request((0, 0)), 12)
        assert states(broker) == [PartitionState.OPENING, PartitionState.CLOSED]
        opener.hold([partition, other])
        ((_, done),) = disk.work
        disk.work.clear()
        done(OSError(errno.EMFILE, "too many open files"))
        assert states(broker) == [PartitionState.HELD, PartitionState.HELD]
        client.loop.advance(RETRY_MS)
        assert not opener.may_open(partition)
        opener.resume([partition, other])
        assert states(broker) == [PartitionState.CLOSED, PartitionState.CLOSED]
        assert opener.may_open(partition)

    def test_other_errors_are_final(self) -> None:
        faulty = FaultyFileSystem(MemoryFileSystem())
        client = Client(make_broker(filesystem=faulty))
        client.broker.controller.create("t", 1, {})
        faulty.fail_at("list", 1, errno.EIO)
        assert produce(client, batch(b"a")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        client.loop.advance(10 * RETRY_MS)
        assert produce(client, batch(b"a")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(logged(client.broker, "partition failed")) == 1

    def test_groups_are_loaded_after_a_shortage(self) -> None:
        faulty = FaultyFileSystem(MemoryFileSystem())
        broker = make_broker(filesystem=faulty, load=False)
        client = Client(broker)
        faulty.fail_at("list", 1, errno.EMFILE)
        broker.groups._loading.schedule()
        client.loop.turn()
        assert broker.groups._loading.busy
        client.loop.advance(RETRY_MS)
        assert not broker.groups._loading.busy
        assert all(broker.coordinator.group(name) is None for name in "abcdefgh")
        assert not broker.offsets_topic._failed


class TestThreads:
    def test_loop_goes_on_while_a_thread_opens_a_log(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        held, go_on = threading.Event(), threading.Event()
        run = LogOpening.run

        def slow(opening: LogOpening) -> None:
            if opening.key == ("t", 0):
                held.set()
                assert go_on.wait(PATIENCE_S)
            run(opening)

        monkeypatch.setattr(LogOpening, "run", slow)
        request = produce_request(batch(b"a"))
        with RunningBroker(data_dir=str(tmp_path / "data")) as running, running.client() as one:
            running.call(lambda: running.broker.controller.create("t", 1, {}))
            one.send(request, 9)
            assert held.wait(PATIENCE_S)
            running.assert_unharmed()
            go_on.set()
            answer = one.receive(request, 9)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


class TestWorkers:
    def test_long_work_takes_turns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("coterie.server.slices.SLICE_S", 0)
        loop = ManualLoop()
        disk = Slices(ManualEnvironment(loop))
        seen: list[object] = []
        disk.submit(map(seen.append, range(3)), seen.append)
        disk.submit(once(lambda: 1 // 0), seen.append)
        assert not disk.idle
        loop.turn_once()
        assert seen == [0]
        loop.turn_once()
        assert isinstance(seen.pop(), ZeroDivisionError)
        assert seen == [0]
        for expected in ([0, 1], [0, 1, 2], [0, 1, 2, None]):
            loop.turn_once()
            assert seen == expected
        assert disk.idle

    def test_threads_report_errors_and_end(self) -> None:
        loop = ManualLoop()
        disk = WorkerThreads(loop.as_loop(), "disk under test", 2)
        seen: list[object] = []
        works: list[Callable[[], object]] = [lambda: 1 // 0, lambda: None]
        for work in works:
            disk.submit(once(work), seen.append)
        disk.stop()
        assert not any(each.name == "disk under test" for each in threading.enumerate())
        loop.turn()
        assert disk.idle
        assert {type(each) for each in seen} == {type(None), ZeroDivisionError}
