"""Too few file handles: bounds that hold, and a shortage that passes [log/handle-shortage].

Rules: [connections/file-handles], [log/open-files].
"""

import errno
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest
from coterie.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from coterie.server.file_handles import FileHandles, share_handles
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.server.groups import commit, committed
from tests.unit.server.manual import Client, logged, make_broker
from tests.unit.server.process import COMMAND, ready, started
from tests.unit.server.produced import batch, fetch_request, produce, values_of
from tests.unit.server.running import PATIENCE_S, SocketClient
from tests.unit.server.test_disk_failures import create

# So few that most requests open a file.
FEW = FileHandles(files=3, connections=100)
PARTITIONS = 4
SETTINGS = {
    "offsets.topic.num.partitions": "1",
}


class Session:
    """A client that uses a broker, and what it knows to be stored."""

    def __init__(self) -> None:
        self.faulty = FaultyFileSystem(MemoryFileSystem())
        self.client = Client(make_broker(SETTINGS, filesystem=self.faulty, handles=FEW))
        self.broker = self.client.broker
        # Whose responses may wait until handles are free.
        self.patient = Client(self.broker)
        self.broker.maintenance.start()
        self.stored: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.committed = -1
        self.numbers = 0
        self.topics = {"t"}
        # One more partition, whose records are deleted. Every record has a segment of its own.
        self.broker.controller.create("t", PARTITIONS + 1, {"segment.ms": "1"})

    def answer(self, request: Any, version: int) -> Any:
        """Send a request that the broker may finish later; return the response, if there is one."""
        sent = self.patient.send(request, version)
        self.patient.loop.advance(500)
        return dict(self.patient.answers()).get(sent)

    def use(self) -> bool:
        """Use everything once; return whether all of it succeeded."""
        return all(
            [
                *(self._produce(partition) for partition in range(PARTITIONS)),
                *(self._fetch(partition) for partition in range(PARTITIONS)),
                self._commit(),
                self._list_offsets(),
                self._new_producer(),
                self._create_and_delete(),
                self._delete_records(),
                len(self.client.call(MetadataRequest(topics=None), 12).topics) >= len(self.topics),
            ]
        )

    def _produce(self, partition: int) -> bool:
        self.numbers += 1
        value = b"%d" % self.numbers
        answer = produce(
            self.client, batch(value, timestamp_ms=10 * self.numbers), partition=partition
        )
        assert answer.error_code in (0, ErrorCode.KAFKA_STORAGE_ERROR)
        if not answer.error_code:
            self.stored[partition].append(value)
        return not answer.error_code

    def _fetch(self, partition: int) -> bool:
        (topic,) = self.client.call(fetch_request((partition, 0), max_bytes=1 << 20), 12).responses
        (found,) = topic.partitions
        assert found.error_code in (0, ErrorCode.KAFKA_STORAGE_ERROR)
        if not found.error_code:
            expected = self.stored[partition]
            values = values_of(found.records)
            assert values == expected[: len(values)]
            assert values or not expected
        return not found.error_code

    def _commit(self) -> bool:
        """A commit waits for the end of a short shortage."""
        self.numbers += 1
        # If it is not answered now, it is written later all the same.
        self.committed = self.numbers
        answer = self.answer(commit(self.numbers), 8)
        assert answer is None or answer.topics[0].partitions[0].error_code == 0
        return answer is not None

    def _list_offsets(self) -> bool:
        errors = set()
        for when in (-1, -2, -3, 2):
            asked = [
                ListOffsetsRequestPartition(partition_index=each, timestamp=when)
                for each in range(PARTITIONS)
            ]
            topics = [ListOffsetsRequestTopic(name="t", partitions=asked)]
            answer = self.client.call(ListOffsetsRequest(replica_id=-1, topics=topics), 7)
            errors |= {each.error_code for each in answer.topics[0].partitions}
        assert errors <= {0, ErrorCode.KAFKA_STORAGE_ERROR}
        return errors == {0}

    def _new_producer(self) -> bool:
        answer = self.client.call(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4
        )
        return not answer.error_code

    def _create_and_delete(self) -> bool:
        self.numbers += 1
        name = f"n{self.numbers}"
        asked = CreateTopicsRequestTopic(name=name, num_partitions=2, replication_factor=1)
        answer = self.client.call(CreateTopicsRequest(topics=[asked]), 7).topics[0]
        if answer.error_code:
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert name not in self.broker.topics.by_name
            return False
        named = [DeleteTopicsRequestTopic(name=name)]
        deleted = self.answer(DeleteTopicsRequest(topics=named, timeout_ms=1000), 6)
        return deleted is not None and not deleted.responses[0].error_code

    def _delete_records(self) -> bool:
        produced = produce(self.client, batch(b"x"), partition=PARTITIONS)
        asked = DeleteRecordsRequestPartition(partition_index=PARTITIONS, offset=-1)
        topic = DeleteRecordsRequestTopic(name="t", partitions=[asked])
        answer = self.client.call(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)
        (found,) = answer.topics[0].partitions
        assert found.error_code in (0, ErrorCode.KAFKA_STORAGE_ERROR)
        return not found.error_code and not produced.error_code

    def check(self) -> None:
        """Check that nothing has failed for good, and that nothing acknowledged is lost."""
        assert not self.client.transport.closed
        assert not self.patient.transport.closed
        assert logged(self.broker, "log failed") == []
        assert logged(self.broker, "group partition failed") == []
        assert self.use(), "everything works again"
        assert committed(self.client) == [self.committed]
        for partition in range(PARTITIONS):
            log = self.broker.topics.by_name["t"].partitions[partition].log
            values = [value for data in log.chunks() for value in values_of(data)]
            assert values == self.stored[partition]


def opening_calls() -> int:
    """Return how many calls that open a file a session makes when nothing fails."""
    session = Session()
    before = session.faulty.calls["opening"]
    for _ in range(2):
        assert session.use()
    return session.faulty.calls["opening"] - before


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("count", [1, 3, 10, 1_000_000])
def test_every_shortage_passes(count: int, number: int) -> None:
    """From each call on that opens a file, `count` such calls fail."""
    calls = opening_calls()
    assert calls > 50, "canary: files are opened all the time"
    for n in range(1, calls + 1, 1 if number == errno.EMFILE else 7):
        session = Session()
        session.faulty.fail_from("opening", n, number, count)
        for _ in range(2):
            session.use()
        assert session.faulty.failed, "canary: there was a shortage"
        session.faulty.fail_from("", 0)
        # "Within a second": what is tried again by a timer is tried by then.
        session.client.loop.advance(1_000)
        session.client.answers()
        session.check()


def test_groups_are_loaded_after_a_shortage() -> None:
    memory = MemoryFileSystem()
    client = Client(make_broker(SETTINGS, filesystem=memory))
    client.broker.controller.create("t", 1, {})
    for offset in range(5):
        client.call(commit(offset), 8)
    client.broker._data.close()
    calls = 0
    for n in range(1, 100):
        faulty = FaultyFileSystem(memory)
        broker = make_broker(SETTINGS, filesystem=faulty, handles=FEW, load=False)
        # Each log is read with files that are opened for it.
        while broker._data.files.give_back():
            pass
        faulty.fail_from("opening", n, errno.EMFILE)
        client = Client(broker)
        loading = broker.groups.load()
        loading.send(None)
        client.loop.advance(2_000)
        is_over = not faulty.failed
        calls += faulty.failed
        faulty.fail_from("", 0)
        client.loop.advance(1_000)
        assert logged(broker, "group partition not loaded") == []
        assert committed(client) == [4]
        loading.close()
        broker._data.close()
        if is_over:
            break
    assert calls > 3, "canary: there were shortages"


class TestShares:
    @pytest.mark.parametrize(
        ("limit", "files", "connections"),
        [(256, 96, 96), (1_024, 480, 480), (65_536, 4_096, 61_376), (64, 16, 8)],
    )
    def test_files_and_connections_share_the_limit(
        self, limit: int, files: int, connections: int
    ) -> None:
        assert share_handles(limit) == (files, connections)

    def test_more_connections_are_refused(self) -> None:
        broker = make_broker(handles=FileHandles(files=16, connections=2))
        clients = [Client(broker) for _ in range(3)]
        assert [client.transport.closed for client in clients] == [False, False, True]
        (line,) = logged(broker, "connection closed")
        assert "ulimit -n" in line["reason"]


@pytest.mark.parametrize("flush", ["never", "commit", "interval:50"])
def test_many_partitions_under_a_small_limit(tmp_path: Path, flush: str) -> None:
    """400 partitions are written and read with 256 handles, before and after a restart."""
    partitions, rounds = 400, 3
    limited = ("bash", "-c", 'ulimit -Sn 256 && ulimit -Hn 256 && exec "$@"', "bash")
    # A busy machine can hold the event loop, which would be a warning.
    settings = ("--config", "event.loop.warning.ms=0")
    options = ("--port", "0", "--data-dir", str(tmp_path / "data"), "--flush", flush, *settings)
    stored = 0
    for _ in range(2):
        with started(*limited, *COMMAND, *options) as process:
            port, _ = ready(process)
            with SocketClient(socket.create_connection(("127.0.0.1", port))) as client:
                if not stored:
                    create(client, "t", partitions)
                for _ in range(rounds):
                    assert set(produce_to_all(client, partitions)) == {stored}
                    stored += 1
                assert set(fetch_from_all(client, partitions)) == {stored}
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
        assert "error" not in errors
        # In its debug mode asyncio warns of slow callbacks.
        ours = [line for line in errors.splitlines() if "library=asyncio" not in line]
        assert "warning" not in "".join(ours)


def produce_to_all(client: SocketClient, partitions: int) -> list[int]:
    """Produce a batch to each partition with one request; return the offsets."""
    data = [ProduceRequestPartition(index=each, records=batch(b"x")) for each in range(partitions)]
    topics = [ProduceRequestTopic(name="t", topic_id=bytes(16), partition_data=data)]
    answer = client.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 9)
    found = answer.responses[0].partition_responses
    assert {each.error_code for each in found} == {0}
    return [each.base_offset for each in found]


def fetch_from_all(client: SocketClient, partitions: int) -> list[int]:
    """Return how many records a fetch of all partitions finds in each."""
    request = fetch_request(*((each, 0) for each in range(partitions)))
    found = client.call(request, 12).responses[0].partitions
    assert {each.error_code for each in found} == {0}
    return [len(values_of(each.records)) for each in found]
