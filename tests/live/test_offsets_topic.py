"""`__consumer_offsets` can be read like any other topic."""

import asyncio
from collections.abc import Callable
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from coterie.protocol.topic_names import OFFSETS_TOPIC
from tests.live import libraries
from tests.live.broker_process import Broker, BrokerProcess
from tests.live.group_log import GroupLog, OffsetRecord
from tests.live.groups import GroupView, produce_rows
from tests.live.members import Members, wait_all_read, wait_assigned
from tests.live.records import offset_range


def test_log_has_the_history_of_a_group(
    broker: Broker, make_topic: Callable[..., str], members: Members
) -> None:
    """A consumer reads the history of a group from the log, in Kafka's record format.

    The log has the generation with leader, assignor and assignment, the commits, the Empty
    generation after the member has left, and tombstones after the group was deleted.
    """
    topic = make_topic(partitions=2)
    log = GroupLog(broker.bootstrap, topic)
    stored = produce_rows(broker.bootstrap, topic, 2, 20)
    member = members.start("confluent", group=topic, topic=topic, instance="the-one")
    wait_assigned([member], topic, 2)
    wait_all_read([member], stored)
    member.wait_for("committed")
    record = log.newest()
    assert (record.generation, record.protocol) == (member.generation, "range")
    assert record.leader == member.member_id
    assert record.members == {member.member_id: "the-one"}
    assert record.assignments == {member.member_id: {(topic, 0), (topic, 1)}}
    member.leave()

    commits = log.offsets()
    assert {each.topic for each in commits} == {topic}
    assert {each.partition: each.offset for each in commits} == {0: 10, 1: 10}

    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        removed = [kafka.admin.MemberToRemove(group_instance_id="the-one")]
        admin.remove_group_members(topic, removed)
        GroupView(broker.bootstrap, topic).wait_state("EMPTY", members=0)
        empty = log.newest()
        assert (empty.generation, empty.members) == (record.generation + 1, {})
        assert (empty.protocol, empty.leader) == (None, None)
        assert admin.delete_groups([topic]) == {topic: "OK"}
    finally:
        admin.close()
    assert log.groups()[-1] is None
    assert OffsetRecord(topic, 0, None) in log.offsets()
    assert OffsetRecord(topic, 1, None) in log.offsets()


def test_every_library_reads_it(
    broker: Broker, living_group: tuple[str, libraries.Reader], library: libraries.Library
) -> None:
    """Each library can read the records of the offsets topic and finds a group's commits."""
    group, _member = living_group
    log = GroupLog(broker.bootstrap, group)
    partition = log.partition()
    _, end = offset_range(broker.bootstrap, OFFSETS_TOPIC, partition)
    read = library.reader(
        broker.bootstrap,
        libraries.Reading(f"{group}-reader", OFFSETS_TOPIC, fixed_partitions=(partition,)),
    )
    try:
        keys: set[bytes] = set()
        while read.position(partition) < end:
            keys |= {record.key or b"" for record in read.poll(500, 0.2)}
    finally:
        read.close()
    of_the_group = {
        key for key in keys if key[2:].startswith(len(group).to_bytes(2) + group.encode())
    }
    # Records of type 1 are committed offsets, here of two partitions; type 2 is the group itself.
    assert sorted(key[:2] for key in of_the_group) == [b"\0\1", b"\0\1", b"\0\2"]


def test_new_broker_shows_no_topics_before_a_group_is_used(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    """The rule [topics/offsets-topic]: the first search for a coordinator shows the group log."""
    server = start_broker()
    admin = kafka.KafkaAdminClient(bootstrap_servers=server.bootstrap)
    try:
        assert admin.list_topics() == []
        admin.create_topics([kafka.admin.NewTopic("orders", 1, 1)])
        assert admin.list_topics() == ["orders"]
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=server.bootstrap, group_id="billing", enable_auto_commit=False
        )
        try:
            partition = kafka.TopicPartition("orders", 0)
            consumer.assign([partition])
            assert consumer.committed(partition) is None
        finally:
            consumer.close()
        assert sorted(admin.list_topics()) == [OFFSETS_TOPIC, "orders"]
    finally:
        admin.close()


def _committed_aiokafka(bootstrap: str) -> Any:
    async def ask() -> Any:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id="billing")
        await consumer.start()
        try:
            return await consumer.committed(aiokafka.TopicPartition("orders", 0))
        finally:
            await consumer.stop()

    return asyncio.run(ask())


def _committed_confluent(bootstrap: str) -> Any:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    try:
        partition = confluent_kafka.TopicPartition("orders", 0)
        (found,) = consumer.committed([partition], timeout=60)
        return None if found.offset == confluent_kafka.OFFSET_INVALID else found.offset
    finally:
        consumer.close()


def _committed_kafka_python(bootstrap: str) -> Any:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id="billing")
    try:
        return consumer.committed(kafka.TopicPartition("orders", 0))
    finally:
        consumer.close()


@pytest.mark.parametrize(
    "ask", [_committed_aiokafka, _committed_confluent, _committed_kafka_python]
)
def test_clients_are_never_refused_before_the_group_log_exists(
    start_broker: Callable[..., BrokerProcess], ask: Callable[[str], Any]
) -> None:
    """They look for the coordinator before they fetch. [offsets/fetch-before-the-topic]"""
    server = start_broker()
    admin = kafka.KafkaAdminClient(bootstrap_servers=server.bootstrap)
    try:
        admin.create_topics([kafka.admin.NewTopic("orders", 1, 1)])
        assert ask(server.bootstrap) is None
        assert OFFSETS_TOPIC in admin.list_topics()
    finally:
        admin.close()
