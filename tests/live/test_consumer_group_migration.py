"""A rolling change of a group from the classic protocol to that of KIP-848, and back, under load.

Members of kafka-python, aiokafka and librdkafka are replaced one by one. Nothing is lost, and
nothing is read twice: all of them commit before they give partitions up.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial

from confluent_kafka import ConsumerGroupType

from tests.live import libraries
from tests.live.broker_process import FAST_CONSUMER_GROUPS, BrokerProcess
from tests.live.consumer_groups import ConsumerGroups, groups
from tests.live.deadlines import eventually
from tests.live.groups import GroupView, StoredRecord, produce_rows, producing
from tests.live.members import Member, summaries, wait_all_read, wait_assigned

__all__ = ["groups"]

PARTITIONS = 6
COOPERATIVE = {"assignor": "cooperative-sticky"}


def replace_all(
    groups: ConsumerGroups, members: list[Member], starts: Sequence[Callable[[], Member]]
) -> list[Member]:
    """Replace each member by a new one, so that every pair of old and new ones is there once."""
    present = list(members)
    for old, start in zip(members, starts, strict=True):
        present.append(start())
        wait_assigned(present, groups.topic, PARTITIONS)
        present.remove(old)
        assert old.leave() == 0
        wait_assigned(present, groups.topic, PARTITIONS)
    return present


def check_read_once(members: list[Member], stored: set[StoredRecord]) -> None:
    """Wait until every record was read, and check that none was read twice."""
    counts = wait_all_read(members, stored)
    twice = sorted(record for record, times in counts.items() if times > 1)
    assert not twice, f"{twice[:5]}\n{summaries(members)}"


def group_type(groups: ConsumerGroups) -> Enum:
    """Return the type of the group, as an admin client sees it."""
    return GroupView(groups.broker.bootstrap, groups.topic).describe().type


def test_rolling_upgrade_and_back(groups: ConsumerGroups) -> None:
    """classic -> mixed -> consumer -> mixed -> classic, with three libraries."""
    groups.create_topic(PARTITIONS)
    classic = [partial(groups.classic, name) for name in libraries.NAMES]
    consumer = [groups.consumer] * len(classic)
    everybody: list[Member] = []
    with producing(groups.broker.bootstrap, groups.topic, PARTITIONS) as producer:
        members = [start() for start in classic]
        wait_assigned(members, groups.topic, PARTITIONS)
        everybody += members
        assert group_type(groups) is ConsumerGroupType.CLASSIC
        members = replace_all(groups, members, consumer)
        everybody += members
        assert group_type(groups) is ConsumerGroupType.CONSUMER
        members = replace_all(groups, members, classic)
        everybody += members
        assert group_type(groups) is ConsumerGroupType.CLASSIC
        stored = producer.stop()
    check_read_once(everybody, stored)


def test_cooperative_members_are_replaced(groups: ConsumerGroups) -> None:
    """Classic members that give up partitions one by one do so beside members of the other kind."""
    groups.create_topic(PARTITIONS)
    with producing(groups.broker.bootstrap, groups.topic, PARTITIONS) as producer:
        old = [groups.classic("kafka-python", **COOPERATIVE) for _ in range(2)]
        wait_assigned(old, groups.topic, PARTITIONS)
        new = replace_all(groups, old, [groups.consumer, groups.consumer])
        cooperative = [
            partial(groups.classic, library, **COOPERATIVE)
            for library in ("kafka-python", "confluent")
        ]
        last = replace_all(groups, new, cooperative)
        stored = producer.stop()
    check_read_once([*old, *new, *last], stored)


def test_librdkafka_as_cooperative_leader_cannot_be_upgraded(groups: ConsumerGroups) -> None:
    """It writes user data into assignments, and such a group is not upgraded, as in Kafka.

    They are those of the subscriptions, which a member has since its first assignment.
    """
    groups.create_topic(PARTITIONS)
    pair: list[Member] = []
    for _ in range(2):
        pair.append(groups.classic("confluent", **COOPERATIVE))
        wait_assigned(pair, groups.topic, PARTITIONS)
    stranger = groups.consumer()
    error = stranger.wait_for("error", code="_FATAL")
    assert "The group id does not exist" in error["text"]
    stored = produce_rows(groups.broker.bootstrap, groups.topic, PARTITIONS, 60)
    check_read_once(pair, stored)
    assert group_type(groups) is ConsumerGroupType.CLASSIC


def test_killed_broker_in_the_middle(start_broker: Callable[..., BrokerProcess], name: str) -> None:
    """A kill of the broker while both kinds of members are there: all go on, at the same epoch."""
    broker = start_broker(FAST_CONSUMER_GROUPS)
    groups = ConsumerGroups(broker, name)
    groups.create_topic(PARTITIONS)
    try:
        with producing(broker.bootstrap, groups.topic, PARTITIONS) as producer:
            # aiokafka ends if the upgrade interrupts its JoinGroup.
            mixed = [groups.classic("aiokafka"), groups.classic("confluent")]
            wait_assigned(mixed, groups.topic, PARTITIONS)
            mixed.append(groups.consumer())
            # All may have an owner at the new epoch before the last one has been handed over.
            share = PARTITIONS // len(mixed)
            eventually(lambda: all(len(each.partitions) == share for each in mixed), "equal shares")
            wait_assigned(mixed, groups.topic, PARTITIONS)
            before = [(each.generation, each.partitions) for each in mixed]
            stored = producer.stop()
        broker.kill()
        broker.start()
        with producing(broker.bootstrap, groups.topic, PARTITIONS) as producer:
            wait_assigned(mixed, groups.topic, PARTITIONS)
            stored |= producer.stop()
        wait_all_read(mixed, stored)
        assert [(each.generation, each.partitions) for each in mixed] == before
        assert mixed[2].leave() == 0
        wait_assigned(mixed[:2], groups.topic, PARTITIONS)
        assert group_type(groups) is ConsumerGroupType.CLASSIC
    finally:
        groups.members.close()
