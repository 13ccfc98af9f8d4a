"""Comparison with the assignors of client libraries, and properties of all assignors.

Range and roundrobin of kafka-python and aiokafka equal Java's. Their sticky assignors are ports of
the algorithm before Kafka 2.4, which assigns differently; ours are compared with Java's in
test_golden_assignments.py.
"""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import aiokafka.coordinator.assignors.range
import aiokafka.coordinator.assignors.roundrobin
import kafka.coordinator.assignors.range
import kafka.coordinator.assignors.roundrobin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.assignors.by_name import ASSIGNORS
from coterie.assignors.model import Assignment, MemberSubscription, PartitionCounts, TopicPartition

TOPICS = ("alpha", "beta", "gamma", "delta")


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, int], list[MemberSubscription]]:
    counts = {topic: draw(st.integers(1, 9)) for topic in TOPICS if draw(st.integers(0, 5))} or {
        "alpha": 3
    }
    ids = draw(
        st.lists(
            st.from_regex(r"[a-zA-Z0-9-]{1,12}", fullmatch=True),
            min_size=1,
            max_size=9,
            unique=True,
        )
    )
    same = draw(st.booleans())
    some = st.lists(st.sampled_from(sorted(counts)), min_size=1, unique=True)
    common = draw(some)
    owners = {
        TopicPartition(topic, index): draw(st.sampled_from([None, *ids]))
        for topic, count in counts.items()
        for index in range(count)
    }
    members = []
    for member_id in ids:
        topics = tuple(common if same else draw(some))
        owned = tuple(
            each for each, owner in owners.items() if owner == member_id and each.topic in topics
        )
        members.append(MemberSubscription(member_id, topics, owned, 3))
    return counts, members


def theirs(assignor: Any, counts: PartitionCounts, members: list[MemberSubscription]) -> Assignment:
    """Return the assignment of a library. aiokafka takes a mapping, kafka-python a list."""
    cluster = SimpleNamespace(
        partitions_for_topic=lambda topic: set(range(counts.get(topic, 0))) or None
    )
    if assignor.__module__.startswith("aiokafka"):
        subject = assignor
        group: Any = {each.member_id: assignor.metadata(list(each.topics)) for each in members}
    else:
        subject = assignor()
        group = [
            SimpleNamespace(
                member_id=each.member_id,
                group_instance_id=None,
                metadata=subject.metadata(list(each.topics)),
            )
            for each in members
        ]
    answer = subject.assign(cluster, group)
    return {
        member_id: sorted(
            TopicPartition(topic, index) for topic, indexes in _pairs(given) for index in indexes
        )
        for member_id, given in answer.items()
    }


def _pairs(given: Any) -> list[tuple[str, list[int]]]:
    pairs = getattr(given, "assignment", None)
    if pairs is None:
        pairs = given.assigned_partitions
    return [
        (each[0], each[1]) if isinstance(each, tuple) else (each.topic, each.partitions)
        for each in pairs
    ]


@pytest.mark.parametrize(
    ("name", "assignor"),
    [
        ("range", kafka.coordinator.assignors.range.RangePartitionAssignor),
        ("roundrobin", kafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor),
        ("range", aiokafka.coordinator.assignors.range.RangePartitionAssignor),
        ("roundrobin", aiokafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor),
    ],
)
@settings(max_examples=30, deadline=None)
@given(group=groups())
def test_client_libraries_assign_the_same(
    name: str, assignor: Any, group: tuple[dict[str, int], list[MemberSubscription]]
) -> None:
    counts, members = group
    if assignor is kafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor:
        # With different subscriptions kafka-python 3.0.12 fails with a KeyError.
        members = [each._replace(topics=members[0].topics) for each in members]
    ours = ASSIGNORS[name](counts, members)
    assert {key: sorted(value) for key, value in ours.items()} == {
        **{each.member_id: [] for each in members},
        **theirs(assignor, counts, members),
    }


@pytest.mark.parametrize("name", list(ASSIGNORS))
@settings(max_examples=30, deadline=None)
@given(group=groups())
def test_every_partition_has_one_owner_that_subscribes(
    name: str, group: tuple[dict[str, int], list[MemberSubscription]]
) -> None:
    counts, members = group
    assignment = ASSIGNORS[name](counts, members)
    topics = {each.member_id: set(each.topics) for each in members}
    assert set(assignment) == set(topics)
    owners = Counter(each for share in assignment.values() for each in share)
    assert all(times == 1 for times in owners.values())
    for member_id, share in assignment.items():
        assert {each.topic for each in share} <= topics[member_id]
    subscribed = {
        TopicPartition(topic, index)
        for topic in set().union(*topics.values())
        for index in range(counts[topic])
    }
    missing = subscribed - set(owners)
    if name == "cooperative-sticky":
        assert missing <= {each for member in members for each in member.owned}
    else:
        assert not missing


@pytest.mark.parametrize("name", ["sticky", "uniform"])
@settings(max_examples=30, deadline=None)
@given(group=groups())
def test_equal_subscriptions_are_balanced_and_an_unchanged_group_keeps_its_assignment(
    name: str, group: tuple[dict[str, int], list[MemberSubscription]]
) -> None:
    counts, members = group
    members = [each._replace(topics=members[0].topics) for each in members]
    members = [
        each._replace(owned=tuple(p for p in each.owned if p.topic in each.topics))
        for each in members
    ]
    assignment = ASSIGNORS[name](counts, members)
    sizes = [len(share) for share in assignment.values()]
    assert max(sizes) - min(sizes) <= 1
    again = [each._replace(owned=tuple(assignment[each.member_id])) for each in members]
    kept = ASSIGNORS[name](counts, again)
    assert {key: set(value) for key, value in kept.items()} == {
        key: set(value) for key, value in assignment.items()
    }
