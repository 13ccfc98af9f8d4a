"""Too few file handles: bounds that hold, and a shortage that passes [log/handle-shortage]."""

import errno
import resource
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
from coterie.server.file_handles import FileHandles, share_handles
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.server.groups import commit, committed
from tests.unit.server.manual import Client, logged, make_broker
from tests.unit.server.produced import batch, fetch_request, produce, values_of

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
        self.broker.maintenance.start()
        self.stored: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.committed = -1
        self.numbers = 0
        self.topics = {"t"}
        # One more partition, whose records are deleted. Every record has a segment of its own.
        self.broker.topics.create("t", PARTITIONS + 1, {"segment.ms": "1"})

    def answer(self, request: Any, version: int) -> Any:
        """Send a request; return the response, which may need a retry of the broker."""
        sent = self.client.send(request, version)
        for _ in range(20):
            self.client.loop.advance(100)
            answers = dict(self.client.answers())
            if sent in answers:
                return answers[sent]
        return None

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
        answer = self.answer(commit(self.numbers), 8)
        if answer is None:
            return False
        assert answer.topics[0].partitions[0].error_code == 0
        self.committed = self.numbers
        return True

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
