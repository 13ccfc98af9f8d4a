"""The journal: where and when facts are written, failures, and what clients may do with it.

Rules: [journal/partition-facts], [journal/partitions], [journal/retention], [journal/best-effort],
[journal/hidden-topic].
"""

import errno
from typing import Any

import pytest

from coterie.coordinator.kernel.event import Event
from coterie.protocol.errors import ErrorCode
from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
)
from coterie.protocol.messages.journal_records import (
    Fact,
    GroupExpired,
    decode_fact,
)
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.protocol.messages.partition_facts import PartitionLoaded, PartitionUnloaded
from coterie.protocol.records import decode_pairs, iterate_batches
from coterie.protocol.topic_names import JOURNAL_TOPIC
from coterie.server.broker import Broker
from coterie.server.groups import journal as journal_module
from coterie.server.groups.journal import LINGER_S, journal_partitions
from coterie.server.logs.partition import Topic
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.server.changed_now import set_overrides
from tests.unit.server.groups import join, sync
from tests.unit.server.manual import Client, logged, loop_of, make_broker
from tests.unit.server.produced import batch, fetch_request, produce, values_of
from tests.unit.server.slow_disk import SlowDisk

LINGER_MS = int(LINGER_S * 1000)


def expired(number: int = 0) -> GroupExpired:
    """Return a fact that its number identifies."""
    return GroupExpired(at_ms=1, generation_id=number)


def add_facts(broker: Broker, *events: tuple[str, Fact]) -> None:
    """Add facts to the journal and let it write them."""
    broker.groups.journal.add([Event(*event) for event in events])
    loop_of(broker).advance(LINGER_MS)


def topic_of(broker: Broker) -> Topic:
    return broker.topics.by_name[JOURNAL_TOPIC]


def batches_of(broker: Broker, index: int) -> list[list[tuple[str, Any]]]:
    """Return group id and fact of each record in a partition of the journal, batch by batch."""
    data = b"".join(topic_of(broker).partitions[index].log.chunks())
    batches = []
    for position, header in iterate_batches(data):
        decoded = [decode_fact(*pair) for pair in decode_pairs(data, header, position)]
        batches.append([(group_id, fact) for group_id, fact in decoded])
    return batches


def facts_of(broker: Broker, index: int) -> list[tuple[str, Any]]:
    return [each for one_batch in batches_of(broker, index) for each in one_batch]


def all_facts(broker: Broker) -> list[tuple[str, Any]]:
    return [each for index in range(4) for each in facts_of(broker, index)]


def form_group(client: Client) -> None:
    """Let one member complete the first generation of group "g"."""
    member_id = client.call(join(), 5).member_id
    client.send(join(member_id), 5)
    client.loop.advance(0)
    ((_, joined),) = client.answers()
    assert joined.error_code == ErrorCode.NONE
    assert client.call(sync(member_id, 1, b"it all"), 5).error_code == ErrorCode.NONE


# --- partitions and batches -----------------------------------------------------------------------


def test_topic_is_created_with_the_first_fact() -> None:
    broker = make_broker()
    loop_of(broker).advance(10 * LINGER_MS)
    assert JOURNAL_TOPIC not in broker.topics.by_name
    add_facts(broker, ("g", expired()))
    topic = topic_of(broker)
    assert len(topic.partitions) == 4
    assert not topic.is_internal, "Spark does not read internal topics"
    assert topic.config.overrides == {
        "cleanup.policy": "delete",
        "retention.ms": str(168 * 3_600_000),
        "retention.bytes": str(256 * 1024 * 1024),
        "segment.bytes": str(64 * 1024 * 1024),
        "segment.ms": "86400000",
    }


@pytest.mark.parametrize(
    ("offsets_partitions", "partitions"),
    [(1, 1), (4, 4), (7, 7), (10, 10), (11, 1), (12, 6), (16, 8), (50, 10), (1000, 10)],
)
def test_number_of_partitions_divides_that_of_the_group_log(
    offsets_partitions: int, partitions: int
) -> None:
    assert journal_partitions(offsets_partitions) == partitions
    for group_id in ("orders", "g", "größer", "a" * 99):
        index = partition_for(group_id, offsets_partitions)
        assert partition_for(group_id, partitions) == index % partitions


def test_facts_of_a_group_are_in_one_partition_in_order() -> None:
    broker = make_broker()
    groups = [f"group-{n}" for n in range(20)]
    for number in range(3):
        add_facts(broker, *((group_id, expired(number)) for group_id in groups))
    for group_id in groups:
        found = facts_of(broker, partition_for(group_id, 4))
        numbers = [fact.generation_id for group, fact in found if group == group_id]
        assert numbers == [0, 1, 2]
    assert len(all_facts(broker)) == 60


def test_facts_within_the_linger_are_one_batch() -> None:
    broker = make_broker()
    journal, loop = broker.groups.journal, loop_of(broker)
    for number in range(5):
        journal.add([Event("g", expired(number))])
        loop.advance(LINGER_MS // 10)
    assert JOURNAL_TOPIC not in broker.topics.by_name
    loop.advance(LINGER_MS)
    (one_batch,) = batches_of(broker, partition_for("g", 4))
    assert [fact.generation_id for _, fact in one_batch] == [0, 1, 2, 3, 4]


def test_size_of_a_batch_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = make_broker()
    monkeypatch.setattr(journal_module, "_BATCH_BYTES", 100)
    add_facts(broker, *(("g", expired(number)) for number in range(20)))
    found = batches_of(broker, partition_for("g", 4))
    assert len(found) > 3
    numbers = [fact.generation_id for one_batch in found for _, fact in one_batch]
    assert numbers == list(range(20))


def test_load_of_a_partition_is_in_the_partition_of_its_groups() -> None:
    broker = make_broker({"offsets.topic.num.partitions": "12"})
    index = partition_for("orders", 12)
    loaded = PartitionLoaded(at_ms=1, partition=index, group_count=1)
    add_facts(broker, ("", loaded), ("orders", expired()))
    assert len(topic_of(broker).partitions) == 6
    assert facts_of(broker, index % 6) == [("", loaded), ("orders", expired())]


def test_load_of_a_partition_without_groups_is_not_written() -> None:
    broker = make_broker()
    add_facts(broker, ("", PartitionLoaded(at_ms=1, partition=0, group_count=0)))
    add_facts(broker, ("", PartitionUnloaded(at_ms=1, partition=0, group_count=0)))
    assert JOURNAL_TOPIC not in broker.topics.by_name


def test_existing_journal_keeps_its_number_of_partitions() -> None:
    broker = make_broker()
    broker.controller.create(JOURNAL_TOPIC, 3, {})
    add_facts(broker, *((f"group-{n}", expired(n)) for n in range(9)))
    for n in range(9):
        found = facts_of(broker, partition_for(f"group-{n}", 3))
        assert (f"group-{n}", expired(n)) in found


def test_deleted_journal_is_created_again() -> None:
    broker = make_broker()
    add_facts(broker, ("g", expired(1)))
    broker.delete_topic(topic_of(broker))
    add_facts(broker, ("g", expired(2)))
    assert all_facts(broker) == [("g", expired(2))]


# --- facts about groups ---------------------------------------------------------------------------


def test_rebalance_is_in_the_journal() -> None:
    broker = make_broker()
    form_group(Client(broker, "me"))
    loop_of(broker).advance(LINGER_MS)
    facts = [fact for group_id, fact in all_facts(broker) if group_id == "g"]
    assert [type(fact).__name__ for fact in facts] == [
        "MemberJoined",
        "RebalanceBegan",
        "JoinCompleted",
        "GenerationCompleted",
    ]
    (member,) = facts[-1].members
    assert (member.client_id, member.client_host, member.assignment) == (
        "me",
        "/127.0.0.1",
        b"it all",
    )


def test_stop_writes_the_last_facts() -> None:
    broker = make_broker()
    form_group(Client(broker))
    broker.groups.stop()
    names = [type(fact).__name__ for _, fact in all_facts(broker)]
    assert names[0] == "MemberJoined"
    assert names[-1] == "PartitionUnloaded"
    assert all_facts(broker)[-1][1].group_count == 1


def test_fetch_waits_for_the_next_fact() -> None:
    broker = make_broker()
    add_facts(broker, ("g", expired(1)))
    index = partition_for("g", 4)
    client = Client(broker)
    client.send(fetch_request((index, 1), topic=JOURNAL_TOPIC, max_wait_ms=5_000, min_bytes=1), 12)
    loop_of(broker).turn()
    assert client.answers() == []
    add_facts(broker, ("g", expired(2)))
    ((_, answer),) = client.answers()
    (value,) = values_of(answer.responses[0].partitions[0].records)
    assert value is not None
    assert value.endswith(b"\0\0\0\2\0")


# --- the topic ------------------------------------------------------------------------------------


def test_journal_is_described_only_by_its_name() -> None:
    """Patterns must not subscribe to it, and lists of topics must equal Kafka's."""
    broker = make_broker()
    broker.controller.create(JOURNAL_TOPIC, 1, {})
    broker.controller.create("orders", 1, {})
    client = Client(broker)
    listed = client.call(MetadataRequest(topics=None), 12)
    assert {topic.name for topic in listed.topics} == {"__consumer_offsets", "orders"}
    named = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=JOURNAL_TOPIC)]), 12)
    assert [(topic.name, topic.error_code) for topic in named.topics] == [(JOURNAL_TOPIC, 0)]


def test_clients_cannot_write_to_it_or_add_partitions() -> None:
    broker = make_broker()
    add_facts(broker, ("g", expired(1)))
    answer = produce(Client(broker), batch(b"forged"), topic=JOURNAL_TOPIC, partition=0)
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    more = CreatePartitionsRequestTopic(name=JOURNAL_TOPIC, count=9, assignments=None)
    request = CreatePartitionsRequest(topics=[more], timeout_ms=1_000, validate_only=False)
    (refused,) = Client(broker).call(request, 3).results
    assert refused.error_code == ErrorCode.INVALID_PARTITIONS


def test_journal_can_be_disabled() -> None:
    broker = make_broker({"journal.enable": "false"})
    add_facts(broker, ("g", expired()))
    form_group(Client(broker))
    broker.groups.stop()
    assert JOURNAL_TOPIC not in broker.topics.by_name


def test_retention_of_the_present_start_applies() -> None:
    broker = make_broker({"journal.retention.hours": "2", "journal.retention.bytes": "-1"})
    add_facts(broker, ("g", expired()))
    assert topic_of(broker).config.overrides["retention.ms"] == "7200000"
    assert topic_of(broker).config.overrides["retention.bytes"] == "-1"
    set_overrides(
        broker, topic_of(broker), {**topic_of(broker).config.overrides, "segment.ms": "1000"}
    )
    filesystem = broker._data.files.filesystem
    broker._data.close()
    again = make_broker({"journal.retention.hours": "3"}, filesystem=filesystem)
    add_facts(again, ("g", expired()))
    overrides = topic_of(again).config.overrides
    assert overrides["retention.ms"] == str(3 * 3_600_000)
    assert overrides["retention.bytes"] == "-1", "it was not given at this start"
    assert overrides["segment.ms"] == "1000"


# --- failures -------------------------------------------------------------------------------------


def test_partition_that_cannot_be_written_is_given_up_alone() -> None:
    files = FaultyFileSystem(MemoryFileSystem())
    broker = make_broker(filesystem=files)
    groups = [f"group-{n}" for n in range(8)]
    add_facts(broker, *((group_id, expired(0)) for group_id in groups))
    files.fail_at("write", 1, errno.ENOSPC)
    add_facts(broker, (groups[0], expired(1)))
    for _ in range(3):
        add_facts(broker, *((group_id, expired(2)) for group_id in groups))
    (warning,) = logged(broker, "journal stopped")
    failed = partition_for(groups[0], 4)
    assert warning["partition"] == f"{JOURNAL_TOPIC}-{failed}"
    found = all_facts(broker)
    for group_id in groups:
        numbers = [fact.generation_id for group, fact in found if group == group_id]
        assert numbers == ([0] if partition_for(group_id, 4) == failed else [0, 2, 2, 2])
    form_group(Client(broker))


def test_journal_that_cannot_be_created_is_logged_once() -> None:
    files = FaultyFileSystem(MemoryFileSystem())
    broker = make_broker(filesystem=files)
    files.fail_at("make_directory", 1, errno.ENOSPC)
    add_facts(broker, ("g", expired()))
    add_facts(broker, ("g", expired()))
    assert len(logged(broker, "journal stopped")) == 1
    assert not broker.groups.journal.enabled


def test_error_in_the_journal_does_not_affect_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = make_broker()
    add_facts(broker, ("g", expired()))

    def broken(*_: Any, **__: Any) -> bytes:
        raise ValueError("planted")

    monkeypatch.setattr(journal_module, "encode_batch", broken)
    add_facts(broker, ("g", expired()))
    monkeypatch.undo()
    add_facts(broker, ("g", expired()))
    assert len(logged(broker, "journal append failed")) == 1
    assert len(logged(broker, "journal stopped")) == 1
    assert all_facts(broker) == [("g", expired())]


def test_restart_appends_to_the_journal() -> None:
    broker = make_broker()
    add_facts(broker, ("g", expired(1)))
    filesystem = broker._data.files.filesystem
    broker._data.close()
    again = make_broker(filesystem=filesystem)
    add_facts(again, ("g", expired(2)))
    assert all_facts(again) == [("g", expired(1)), ("g", expired(2))]


class TestCreation:
    """The topic is created by the threads for the disk, while groups are served."""

    def slow(self) -> tuple[Broker, SlowDisk]:
        broker, disk = make_broker(), SlowDisk()
        broker.changes._disk = disk
        return broker, disk

    def test_facts_wait_for_the_topic(self) -> None:
        broker, disk = self.slow()
        add_facts(broker, ("g", expired(1)))
        assert JOURNAL_TOPIC not in broker.topics.by_name
        add_facts(broker, ("g", expired(2)))
        disk.finish()
        loop_of(broker).advance(LINGER_MS)
        assert all_facts(broker) == [("g", expired(1)), ("g", expired(2))]

    def test_stop_makes_no_topic_beside_the_thread_that_makes_it(self) -> None:
        broker, disk = self.slow()
        add_facts(broker, ("g", expired(1)))
        # The thread has made the directories, and the event loop has not heard of it.
        list(disk.work[0][0])
        broker.groups.journal.stop()
        assert broker.groups.journal.idle
        disk.finish()
        assert all(each.opened_log is None for each in topic_of(broker).partitions)

    def test_abandoned_broker_writes_facts_that_wait_for_the_topic(self) -> None:
        broker, disk = self.slow()
        filesystem = broker._data.files.filesystem
        add_facts(broker, ("g", expired(1)))
        abandoning = broker.abandon()
        abandoning.send(None)
        disk.finish()
        loop_of(broker).advance(10)
        with pytest.raises(StopIteration):
            abandoning.send(None)
        again = make_broker(filesystem=filesystem)
        add_facts(again, ("g", expired(2)))
        facts = [fact for group_id, fact in all_facts(again) if group_id == "g"]
        assert facts == [expired(1), expired(2)]

    def test_topic_that_is_finished_after_the_stop_is_not_used(self) -> None:
        broker, disk = self.slow()
        add_facts(broker, ("g", expired(1)))
        broker.groups.journal._events = []
        broker.groups.journal.stop()
        disk.finish()
        loop_of(broker).advance(LINGER_MS)
        assert all(each.opened_log is None for each in topic_of(broker).partitions)


def test_many_facts_are_written_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_WRITTEN_AT_ONCE", 3)
    broker = make_broker()
    add_facts(broker, ("g", expired(0)))
    journal, index = broker.groups.journal, partition_for("g", 4)
    journal.add([Event("g", expired(number)) for number in range(1, 9)])
    journal.write()
    assert len(facts_of(broker, index)) == 1 + 3
    assert not journal.idle
    loop_of(broker).advance(0)
    assert [fact.generation_id for _, fact in facts_of(broker, index)] == list(range(9))
    assert journal.idle
    journal.add([Event("g", expired(number)) for number in range(9, 17)])
    journal.stop()
    assert [fact.generation_id for _, fact in facts_of(broker, index)] == list(range(17))
    loop_of(broker).advance(LINGER_MS)
    assert len(facts_of(broker, index)) == 17
