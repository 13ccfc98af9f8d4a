"""Consumer groups (KIP-848) with real members of librdkafka: they join, hand over, leave and crash.

In such a group the generation of a member is its epoch.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupType

from demo.producer import QUIET_LOG_LEVEL
from tests.live.broker_process import FAST_CONSUMER_GROUPS, BrokerProcess
from tests.live.consumer_groups import ConsumerGroups, groups
from tests.live.deadlines import eventually
from tests.live.groups import GroupView, produce_rows, producing
from tests.live.members import (
    Member,
    summaries,
    wait_all_read,
    wait_assigned,
    wait_partitions,
)

__all__ = ["groups"]

PARTITIONS = 6
LIMIT_S = 30.0


def started(groups: ConsumerGroups, count: int, **options: object) -> list[Member]:
    """Create the topic and start members that have all of its partitions."""
    groups.create_topic(PARTITIONS)
    members = [groups.consumer(**options) for _ in range(count)]
    wait_assigned(members, groups.topic, PARTITIONS)
    return members


def test_join(groups: ConsumerGroups) -> None:
    """Three members get two partitions each, as the coordinator says, and read each once."""
    three = started(groups, 3)
    assert [len(each.partitions) for each in three] == [2, 2, 2]
    stored = produce_rows(groups.broker.bootstrap, groups.topic, PARTITIONS, 300)
    counts = wait_all_read(three, stored)
    assert set(counts.values()) == {1}
    view = GroupView(groups.broker.bootstrap, groups.topic)
    view.wait_state("STABLE", members=3)
    described = view.describe()
    assert (described.type, described.partition_assignor) == (ConsumerGroupType.CONSUMER, "uniform")
    assert view.owned() == {member.member_id: member.partitions for member in three}
    for member in three:
        assert member.leave() == 0
    view.wait_state("EMPTY", members=0)
    assert view.offsets() == {(groups.topic, each): 50 for each in range(PARTITIONS)}


def test_handover_under_load(groups: ConsumerGroups) -> None:
    """A guest comes and goes; partitions that stay are never revoked, no record is read twice."""
    groups.create_topic(PARTITIONS)
    with producing(groups.broker.bootstrap, groups.topic, PARTITIONS) as producer:
        first = groups.consumer()
        wait_assigned([first], groups.topic, PARTITIONS)
        second = groups.consumer()
        wait_assigned([first, second], groups.topic, PARTITIONS)
        revoked = first.of("revoked")
        assert [len(event["partitions"]) for event in revoked] == [3], first.summary()
        second.wait_for("delivered")
        assert second.leave() == 0
        wait_assigned([first], groups.topic, PARTITIONS)
        stored = producer.stop()
    counts = wait_all_read([first, second], stored)
    twice = sorted(record for record, times in counts.items() if times > 1)
    assert not twice, f"{twice[:5]}\n{summaries([first, second])}"


def test_pattern_follows_new_topics(groups: ConsumerGroups) -> None:
    """A member with a regular expression gets the topics that match, those that come later, too.

    A resolution is at least ten seconds after the one before, so this test takes that long.
    """
    early = groups.create_topic(2, suffix="-early")
    groups.create_topic(1, suffix="x-other")
    member = groups.consumer(pattern=f"^{groups.topic}-.*")
    wait_partitions(member, {(early, 0), (early, 1)})
    late = groups.create_topic(1, suffix="-late")
    wait_partitions(member, {(early, 0), (early, 1), (late, 0)})
    assert GroupView(groups.broker.bootstrap, groups.topic).state() == "STABLE"


def test_changed_subscription(groups: ConsumerGroups) -> None:
    """A member that subscribes to other topics gives up the old ones and gets the new ones."""
    (member,) = started(groups, 1)
    other = groups.create_topic(2, suffix="-other")
    member.subscribe([other])
    wait_partitions(member, {(other, 0), (other, 1)})


def test_static_member_returns(groups: ConsumerGroups) -> None:
    """A static member that is closed and started again keeps its partitions; nobody notices."""
    groups.create_topic(PARTITIONS)
    pair = [groups.consumer(instance=f"instance-{number}") for number in range(2)]
    wait_assigned(pair, groups.topic, PARTITIONS)
    leaver, other = pair
    epoch, partitions, mark = leaver.generation, leaver.partitions, len(other.events)
    assert leaver.leave() == 0
    view = GroupView(groups.broker.bootstrap, groups.topic)
    assert view.instances().keys() == {"instance-0", "instance-1"}
    again = groups.consumer(instance="instance-0")
    wait_partitions(again, partitions)
    assert again.generation == epoch
    assert again.member_id != leaver.member_id
    assert [each for each in other.events[mark:] if each["event"] != "record"] == []
    assert view.instances()["instance-0"] == again.member_id


def test_second_member_of_an_instance_is_refused(groups: ConsumerGroups) -> None:
    """An instance id that a live member has is refused; the first one is not affected."""
    groups.create_topic(PARTITIONS)
    first = groups.consumer(instance="one")
    wait_assigned([first], groups.topic, PARTITIONS)
    second = groups.consumer(instance="one")
    error = second.wait_for("error")
    assert "UNRELEASED_INSTANCE_ID" in error["text"] or "instance" in error["text"], error
    stored = produce_rows(groups.broker.bootstrap, groups.topic, PARTITIONS, 60)
    wait_all_read([first], stored)


def test_killed_member_is_removed(groups: ConsumerGroups) -> None:
    """The other takes over after the session of the group, which is set for the group."""
    groups.shorten_session()
    victim, survivor = started(groups, 2)
    stored = produce_rows(groups.broker.bootstrap, groups.topic, PARTITIONS, 120)
    wait_all_read([victim, survivor], stored)
    epoch = survivor.generation
    victim.kill()
    wait_assigned([survivor], groups.topic, PARTITIONS)
    assert survivor.generation > epoch
    ids = GroupView(groups.broker.bootstrap, groups.topic).member_ids()
    assert ids == {survivor.member_id}


def test_zombie_cannot_commit(groups: ConsumerGroups) -> None:
    """A member that stood still beyond its session joins again; what the others committed stays."""
    groups.shorten_session()
    zombie, survivor = started(groups, 2)
    zombie.process.send_signal(signal.SIGSTOP)
    wait_assigned([survivor], groups.topic, PARTITIONS)
    stored = produce_rows(groups.broker.bootstrap, groups.topic, PARTITIONS, 120)
    wait_all_read([survivor], stored)
    epoch = survivor.generation
    zombie.process.send_signal(signal.SIGCONT)
    wait_assigned([zombie, survivor], groups.topic, PARTITIONS)
    assert survivor.generation > epoch
    zombie.wait_for("lost")
    more = produce_rows(groups.broker.bootstrap, groups.topic, PARTITIONS, 120)
    wait_all_read([zombie, survivor], more)
    for member in (zombie, survivor):
        assert member.leave() == 0
    offsets = GroupView(groups.broker.bootstrap, groups.topic).offsets()
    assert offsets == {(groups.topic, each): 40 for each in range(PARTITIONS)}


def test_killed_broker_goes_on(start_broker: Callable[..., BrokerProcess], name: str) -> None:
    """After a kill of the broker the members are the same, at the same epoch, and keep all."""
    broker = start_broker(FAST_CONSUMER_GROUPS)
    groups = ConsumerGroups(broker, name)
    try:
        _kill_broker(groups, broker)
    finally:
        groups.members.close()


def _kill_broker(groups: ConsumerGroups, broker: BrokerProcess) -> None:
    pair = started(groups, 2)
    view = GroupView(groups.broker.bootstrap, groups.topic)
    view.wait_state("STABLE", members=2)
    before, ids = [(each.generation, each.partitions) for each in pair], view.member_ids()
    revoked = [len(each.of("revoked", "lost")) for each in pair]
    broker.kill()
    broker.start()
    stored = produce_rows(groups.broker.bootstrap, groups.topic, PARTITIONS, 120)
    counts = wait_all_read(pair, stored)
    assert set(counts.values()) == {1}
    view.wait_state("STABLE", members=2)
    assert [(each.generation, each.partitions) for each in pair] == before
    assert view.member_ids() == ids
    assert [len(each.of("revoked", "lost")) for each in pair] == revoked, summaries(pair)
    third = groups.consumer()
    wait_assigned([*pair, third], groups.topic, PARTITIONS)
    assert third.generation == before[0][0] + 1


def test_offsets_of_a_transaction_need_the_epoch(groups: ConsumerGroups) -> None:
    """A transaction may commit what its member owns, and not at an epoch from before it lost it."""
    groups.create_topic(2)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": groups.broker.bootstrap,
            "transactional.id": groups.topic,
            "log_level": QUIET_LOG_LEVEL,
        }
    )
    producer.init_transactions(LIMIT_S)
    with _joined(groups) as first:
        eventually(lambda: first.poll(0.05) or len(first.assignment()) == 2, "both are assigned")
        old = first.consumer_group_metadata()
        _commit_in_transaction(producer, groups.topic, {0: 1, 1: 1}, old)
        other = groups.consumer()
        eventually(lambda: first.poll(0.05) or len(first.assignment()) == 1, "one is handed over")
        (kept,) = (each.partition for each in first.assignment())
        lost = 1 - kept
        wait_partitions(other, {(groups.topic, lost)})
        _commit_in_transaction(producer, groups.topic, {kept: 2}, old)
        with pytest.raises(confluent_kafka.KafkaException, match="generation"):
            _commit_in_transaction(producer, groups.topic, {lost: 2}, old)
        producer.abort_transaction(LIMIT_S)
    offsets = GroupView(groups.broker.bootstrap, groups.topic).offsets()
    assert offsets == {(groups.topic, kept): 2, (groups.topic, lost): 1}


@contextmanager
def _joined(groups: ConsumerGroups) -> Iterator[confluent_kafka.Consumer]:
    """A member in this process."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": groups.broker.bootstrap,
            "group.id": groups.topic,
            "group.protocol": "consumer",
            "enable.auto.commit": False,
            "log_level": QUIET_LOG_LEVEL,
        }
    )
    consumer.subscribe([groups.topic])
    try:
        yield consumer
    finally:
        consumer.close()


def _commit_in_transaction(
    producer: confluent_kafka.Producer, topic: str, offsets: dict[int, int], metadata: object
) -> None:
    producer.begin_transaction()
    positions = [confluent_kafka.TopicPartition(topic, *each) for each in offsets.items()]
    producer.send_offsets_to_transaction(positions, metadata, LIMIT_S)
    producer.commit_transaction(LIMIT_S)
