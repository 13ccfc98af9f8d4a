"""Incremental cooperative rebalancing (KIP-429) with the libraries that support it.

One client owns three partitions in generation 9, and a second joins. In generation 10 the first
gives up one partition, which has no owner then; in generation 11 the second client gets it. The
other two partitions are read without interruption. aiokafka has no cooperative assignor.
"""

import threading
from collections.abc import Callable
from functools import partial

import confluent_kafka
import pytest

from tests.live.broker_process import Broker
from tests.live.deadlines import eventually
from tests.live.group_log import GroupLog
from tests.live.groups import Partition, producing
from tests.live.members import Member, Members, summaries, wait_all_read, wait_assigned

PARTITIONS = 3
COOPERATIVE_LIBRARIES = ("kafka-python", "confluent")


def partitions_of(member: Member, name: str, after: int = 0) -> list[set[Partition]]:
    """Return the partitions of each callback of a name, without empty callbacks."""
    found = [event for event in member.events[after:] if event["event"] == name]
    sets = [{(topic, partition) for topic, partition in each["partitions"]} for each in found]
    return [each for each in sets if each]


def reach_generation(bootstrap: str, group: str, topic: str, until: int) -> None:
    """Let a member join and leave until the group is Empty in a generation.

    Each join and each leave of an only member makes one generation.
    """
    for _ in range(until // 2):
        joined = threading.Event()
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "partition.assignment.strategy": "cooperative-sticky",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic], on_assign=partial(_set, joined))
        eventually(partial(_poll_until, consumer, joined), "joined")
        consumer.close()


def _set(event: threading.Event, *_: object) -> None:
    event.set()


def _poll_until(consumer: confluent_kafka.Consumer, event: threading.Event) -> bool:
    consumer.poll(0.05)
    return event.is_set()


@pytest.mark.parametrize("second_library", COOPERATIVE_LIBRARIES)
@pytest.mark.parametrize("first_library", COOPERATIVE_LIBRARIES)
def test_one_partition_moves_and_the_others_are_read_on(
    broker: Broker,
    make_topic: Callable[..., str],
    members: Members,
    first_library: str,
    second_library: str,
) -> None:
    """One of three partitions moves, and no callback names the other two.

    In the log the moving partition has no owner in the first of the two generations. The first
    client reads its two partitions without a gap, and no record is read twice. When the second
    client leaves, the first gets back exactly that partition.
    """
    topic = make_topic(partitions=PARTITIONS)
    log = GroupLog(broker.bootstrap, topic)
    reach_generation(broker.bootstrap, topic, topic, until=8)
    common = {"group": topic, "topic": topic, "assignor": "cooperative-sticky"}
    with producing(broker.bootstrap, topic, PARTITIONS) as producer:
        first = members.start(first_library, **common)
        wait_assigned([first], topic, PARTITIONS)
        assert first.generation == 9
        first.wait_for("delivered")
        mark = len(first.events)

        second = members.start(second_library, **common)
        owned = wait_assigned([first, second], topic, PARTITIONS)
        second.wait_for("delivered")
        kept, moved = owned
        assert len(moved) == 1
        assert partitions_of(first, "revoked", mark) == [moved]
        assert partitions_of(first, "assigned", mark) == []
        assert partitions_of(second, "assigned") == [moved]
        assert partitions_of(second, "revoked") == []

        whole = {(topic, partition) for partition in range(PARTITIONS)}
        rounds = {each.generation: each.assignments for each in log.groups() if each}
        assert rounds[9] == {first.member_id: whole}
        assert rounds[10] == {first.member_id: kept, second.member_id: set()}
        assert rounds[11] == {first.member_id: kept, second.member_id: moved}
        assert first.generation == second.generation == 11

        mark = len(first.events)
        assert second.leave() == 0
        wait_assigned([first], topic, PARTITIONS)
        assert partitions_of(first, "assigned", mark) == [moved]
        assert partitions_of(first, "revoked", mark) == []
        stored = producer.stop()

    counts = wait_all_read([first, second], stored)
    twice = sorted(record for record, times in counts.items() if times > 1)
    assert not twice, f"{twice[:5]}\n{summaries([first, second])}"
    for name, partition in kept:
        offsets = [each[2] for each in first.records() if each[:2] == (name, partition)]
        assert offsets == list(range(len(offsets))), f"{name}-{partition} had a gap"
    assert partitions_of(first, "lost") == partitions_of(second, "lost") == []


def test_third_client_takes_one_partition_of_each(
    broker: Broker, make_topic: Callable[..., str], members: Members
) -> None:
    """Two clients with three partitions each give one each to a third client."""
    topic = make_topic(partitions=6)
    common = {"group": topic, "topic": topic, "assignor": "cooperative-sticky"}
    pair = [members.start("confluent", **common) for _ in range(2)]
    before = wait_assigned(pair, topic, 6)
    assert [len(each) for each in before] == [3, 3]
    marks = [len(member.events) for member in pair]
    third = members.start("confluent", **common)
    *after, newcomer = wait_assigned([*pair, third], topic, 6)
    for member, mark, had, has in zip(pair, marks, before, after, strict=True):
        assert has < had
        assert partitions_of(member, "revoked", mark) == [had - has]
        assert partitions_of(member, "assigned", mark) == []
    assert partitions_of(third, "assigned") == [newcomer]
