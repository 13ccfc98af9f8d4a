"""Incremental cooperative rebalancing (KIP-429) with the clients that have it.

The story of seed document 001: one client owns three partitions in generation 9; a second joins;
in generation 10 one partition is taken away and nobody has it; in generation 11 the second client
gets it. The other two partitions never stop. aiokafka has no cooperative assignor.
"""

from collections.abc import Callable

import confluent_kafka
import pytest

from tests.live.broker_process import Broker
from tests.live.deadlines import GENEROUS_S, eventually
from tests.live.group_log import GroupLog
from tests.live.members import Member, Members, Partition, stories, wait_all_read, wait_shared
from tests.live.steady_producer import producing

PARTITIONS = 3
HAVE_IT = ("kafka-python", "confluent")


def told(member: Member, name: str, after: int = 0) -> list[set[Partition]]:
    """The partition sets of its callbacks of that name, empty ones left out."""
    found = [event for event in member.events[after:] if event["event"] == name]
    sets = [{(topic, partition) for topic, partition in each["partitions"]} for each in found]
    return [each for each in sets if each]


def use_up_generations(bootstrap: str, group: str, topic: str, until: int) -> None:
    """Let a member come and go until the group, Empty again, has reached that generation.

    A lone member's coming and its leaving each make one generation.
    """
    for _ in range(until // 2):
        joined: list[bool] = []
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "partition.assignment.strategy": "cooperative-sticky",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic], on_assign=lambda *_, joined=joined: joined.append(True))
        eventually(
            lambda consumer=consumer, joined=joined: consumer.poll(0.05) or joined,
            "joined",
            GENEROUS_S,
        )
        consumer.close()


@pytest.mark.parametrize("second_library", HAVE_IT)
@pytest.mark.parametrize("first_library", HAVE_IT)
def test_one_partition_moves_the_rest_never_stop(
    broker: Broker,
    make_topic: Callable[..., str],
    members: Members,
    first_library: str,
    second_library: str,
) -> None:
    """Seed 001: of three partitions one moves; no callback ever names the other two.

    The log shows the two generations, first with the moving partition unowned; the first client
    reads its two partitions on without a gap or a repetition, and nothing is read twice at all.
    When the second client leaves, the first gets back just that partition.
    """
    topic = make_topic(partitions=PARTITIONS)
    log = GroupLog(broker.bootstrap, topic)
    use_up_generations(broker.bootstrap, topic, topic, until=8)
    common = {"group": topic, "topic": topic, "assignor": "cooperative-sticky"}
    with producing(broker.bootstrap, topic, PARTITIONS) as producer:
        first = members.start(first_library, **common)
        wait_shared([first], topic, PARTITIONS)
        assert first.generation == 9
        first.wait_for("record")
        told_before = len(first.events)

        second = members.start(second_library, **common)
        owned = wait_shared([first, second], topic, PARTITIONS)
        second.wait_for("record")
        kept, moved = owned
        assert len(moved) == 1
        assert told(first, "revoked", told_before) == [moved]
        assert told(first, "assigned", told_before) == []
        assert told(second, "assigned") == [moved]
        assert told(second, "revoked") == []

        whole = {(topic, partition) for partition in range(PARTITIONS)}
        rounds = {each.generation: each.assignments for each in log.groups() if each}
        assert rounds[9] == {first.member_id: whole}
        assert rounds[10] == {first.member_id: kept, second.member_id: set()}
        assert rounds[11] == {first.member_id: kept, second.member_id: moved}
        assert first.generation == second.generation == 11

        told_before = len(first.events)
        assert second.leave() == 0
        wait_shared([first], topic, PARTITIONS)
        assert told(first, "assigned", told_before) == [moved]
        assert told(first, "revoked", told_before) == []
        stored = producer.stop()

    counts = wait_all_read([first, second], stored)
    twice = sorted(record for record, times in counts.items() if times > 1)
    assert not twice, f"{twice[:5]}\n{stories([first, second])}"
    for name, partition in kept:
        offsets = [each[2] for each in first.records() if each[:2] == (name, partition)]
        assert offsets == list(range(len(offsets))), f"{name}-{partition} had a gap"
    assert told(first, "lost") == told(second, "lost") == []


def test_third_client_takes_one_partition_of_each(
    broker: Broker, make_topic: Callable[..., str], members: Members
) -> None:
    """Seed 000's picture: two clients with three partitions each give one each to a third."""
    topic = make_topic(partitions=6)
    common = {"group": topic, "topic": topic, "assignor": "cooperative-sticky"}
    pair = [members.start("confluent", **common) for _ in range(2)]
    before = wait_shared(pair, topic, 6)
    assert [len(each) for each in before] == [3, 3]
    marks = [len(member.events) for member in pair]
    third = members.start("confluent", **common)
    *after, newcomer = wait_shared([*pair, third], topic, 6)
    for member, mark, had, has in zip(pair, marks, before, after, strict=True):
        assert has < had
        assert told(member, "revoked", mark) == [had - has]
        assert told(member, "assigned", mark) == []
    assert told(third, "assigned") == [newcomer]
