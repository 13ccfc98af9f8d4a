"""Mistakes of our own code are noticed where they are made, not when an answer is wrong.

Each of these calls is one that no right code makes.
"""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.records import Compression, read_header
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.broker import Broker
from coterie.server.logs import log_validator
from coterie.server.logs.fetch_sessions import (
    FINAL_EPOCH,
    FetchSession,
    FetchSessionCache,
    SessionPartition,
    next_epoch,
)
from coterie.server.logs.fetching import (
    READ_UNCOMMITTED,
    DelayedFetch,
    FetchPartition,
    Read,
    Watchers,
)
from coterie.server.logs.first_sequences import FirstSequences
from coterie.server.logs.flusher import Flusher, FlushMode
from coterie.server.logs.partition import Partition, PartitionState
from coterie.server.metadata.stored_settings import StoredSettings, write_settings
from coterie.server.metadata.topic_changes import Change, make_now
from coterie.server.metadata.topics_image import PublishedTopics
from coterie.server.network.delayed_response import Muting
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.unit.server.changed_now import delete
from tests.unit.server.manual import Client, ManualEnvironment, make_broker, open_log
from tests.unit.server.manual_loop import START_MS, ManualLoop
from tests.unit.server.produced import batch

TOPIC_ID = b"\1" * 16


@pytest.fixture
def broker() -> Broker:
    broker = make_broker()
    broker.controller.create("t", 2, {})
    return broker


def partition_of(broker: Broker, index: int = 0) -> Partition:
    return broker.topics.by_name["t"].partitions[index]


class TestTopics:
    def test_a_topic_is_hidden_once(self, broker: Broker) -> None:
        topic = broker.topics.by_name[OFFSETS_TOPIC]
        broker.topics.hide(topic)
        with pytest.raises(AssertionError, match="a topic is hidden once"):
            broker.topics.hide(topic)

    def test_a_deleted_topic_is_not_hidden(self, broker: Broker) -> None:
        topic = broker.topics.by_name["t"]
        delete(broker, topic)
        with pytest.raises(AssertionError, match="a topic is taken away once"):
            broker.topics.hide(topic)

    def test_a_deletion_is_completed_once(self, broker: Broker) -> None:
        delete(broker, broker.topics.by_name["t"])
        broker.topics.deleted(["t"])
        with pytest.raises(AssertionError, match="a deletion is completed once"):
            broker.topics.deleted(["t"])

    def test_a_topic_that_has_lost_a_partition_is_not_deleted(self, broker: Broker) -> None:
        topic = broker.topics.by_name["t"]
        topic.partitions.pop()
        with pytest.raises(AssertionError, match="each partition has a directory"):
            delete(broker, topic)
        assert broker.topics.by_name["t"] is topic

    def test_records_are_deleted_from_an_open_log(self, broker: Broker) -> None:
        with pytest.raises(AssertionError, match="records are deleted from an open log"):
            broker.logs.delete_records(partition_of(broker), 0)

    def test_a_topic_does_not_shrink_in_the_image(self) -> None:
        published = PublishedTopics()
        published.put("t", TOPIC_ID, 3)
        with pytest.raises(AssertionError, match="t has lost partitions"):
            published.put("t", TOPIC_ID, 2)
        assert published.image.by_name["t"].partitions == 3

    def test_settings_of_a_type_without_a_key_are_not_stored(self) -> None:
        filesystem = MemoryFileSystem()
        filesystem.make_directory("data")
        settings = StoredSettings(resources={99: {"r": {"a": "b"}}})
        with pytest.raises(AssertionError, match="a key for each type"):
            write_settings(filesystem, "data", settings, durable=False)
        assert filesystem.list("data") == []

    def test_work_that_waits_is_not_made_now(self) -> None:
        def change() -> Change[None]:
            yield lambda _done: None

        with pytest.raises(AssertionError, match="is done once, at once"):
            make_now(change())


class TestPartitions:
    def test_a_deleted_partition_stays_deleted(self, broker: Broker) -> None:
        partition = partition_of(broker)
        delete(broker, partition.topic)
        with pytest.raises(AssertionError, match="a deleted partition stays deleted"):
            partition.fail(OSError("the disk is gone"))
        assert partition.state is PartitionState.DELETED

    def test_a_partition_is_deleted_once(self, broker: Broker) -> None:
        partition = partition_of(broker)
        delete(broker, partition.topic)
        with pytest.raises(AssertionError, match="a partition is deleted once"):
            broker.logs.opener.release(partition)
        with pytest.raises(AssertionError, match="a deleted partition is not used again"):
            broker.logs.opener.resume([partition])

    def test_a_partition_that_is_used_is_not_closed(self, broker: Broker) -> None:
        with pytest.raises(AssertionError, match="only a deleted partition is closed"):
            partition_of(broker).close()

    def test_a_held_partition_gets_no_log(self, broker: Broker) -> None:
        log = open_log(broker, "t", 0)
        held = partition_of(broker, 1)
        broker.logs.opener.hold([held])
        with pytest.raises(AssertionError, match="no log is opened of a partition that failed"):
            held.opened(log)
        assert held.opened_log is None
        with pytest.raises(AssertionError, match="a topic is deleted once at a time"):
            broker.logs.opener.hold([held])

    def test_a_batch_keeps_its_records(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broker.controller.create("z", 1, {"compression.type": "gzip"})
        data = batch(b"a", b"b")
        (partition,) = broker.topics.by_name["z"].partitions

        def without_last(*_: Any) -> bytes:
            return batch(b"a", compression=Compression.GZIP)

        monkeypatch.setattr(log_validator, "_recompressed", without_last)
        with pytest.raises(AssertionError, match="a batch keeps all its records"):
            log_validator.validate_batch(data, read_header(data), partition, START_MS)

    def test_a_batch_of_no_producer_begins_no_transaction(self) -> None:
        with pytest.raises(AssertionError, match="only producers with an id"):
            FirstSequences().note(-1, 0, 0)


class TestFetches:
    def test_a_fetch_that_waits_for_nothing_is_not_delayed(self, broker: Broker) -> None:
        watchers: Watchers = {}
        with pytest.raises(AssertionError, match="at least one partition"):
            delayed_fetch(broker, [], 1)
        with pytest.raises(AssertionError, match="has enough bytes does not wait"):
            delayed_fetch(broker, [watchers], 0)
        assert watchers == {}

    def test_a_fetch_that_has_ended_watches_nothing(self, broker: Broker) -> None:
        fetch = delayed_fetch(broker, [{}], 1)
        fetch.finish()
        watchers: Watchers = {}
        with pytest.raises(AssertionError, match="a fetch that has ended waits for no partition"):
            fetch.watch(watchers)
        assert watchers == {}

    def test_a_session_is_opened_once(self) -> None:
        cache = FetchSessionCache(2, lambda: 7)
        session = FetchSession(0, uses_topic_ids=False)
        cache.open(session, 0)
        with pytest.raises(AssertionError, match="a session is opened once"):
            cache.open(session, 0)
        assert cache.session_count == 1

    def test_the_partitions_of_a_session_are_counted_once(self) -> None:
        cache = FetchSessionCache(2, lambda: 7)
        session = FetchSession(0, uses_topic_ids=False)
        cache.open(session, 0)
        cache.partition_count += 1
        with pytest.raises(AssertionError, match="only sessions have partitions"):
            cache.close(session.session_id)

    def test_an_idle_partition_is_in_its_session(self, broker: Broker) -> None:
        open_log(broker, "t", 0)
        partition, session = partition_of(broker), FetchSession(0, uses_topic_ids=False)
        wanted = FetchPartition("t", 0, partition, ErrorCode.NONE, 0, 1, -1, -1)
        idle = SessionPartition(session, wanted)
        session.add(idle)
        idle.rest()
        del session.partitions[idle.key]
        with pytest.raises(AssertionError, match="an idle partition is in its session"):
            partition.changed()
        assert session.active == {}

    def test_a_session_that_ends_has_no_next_epoch(self) -> None:
        with pytest.raises(AssertionError, match="only a session that is open"):
            next_epoch(FINAL_EPOCH)


def delayed_fetch(broker: Broker, watched: list[Watchers], missing_bytes: int) -> DelayedFetch:
    response = Muting(Client(broker).connection)
    read = Read(missing_bytes, missing_bytes, 100, READ_UNCOMMITTED)
    return DelayedFetch(broker.loop, response, watched, read, lambda: None)


def test_logs_are_synced_in_one_mode() -> None:
    environment = ManualEnvironment(ManualLoop())
    with pytest.raises(AssertionError, match="logs are synced in one mode"):
        Flusher(environment, FlushMode(commit=True, interval_ms=10), lambda _log, _error: None)
