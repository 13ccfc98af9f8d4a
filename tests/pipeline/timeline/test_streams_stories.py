"""Histories of streams groups from what our coordinator writes, and from Kafka 4.3.1's log.

The log alone, the journal alone and both together must agree on what each of them can show.
Rules: [pipeline/streams-tasks].
"""

import pytest

from coterie.pipeline.timeline.columns import handover_columns, member_columns
from coterie.pipeline.timeline.combined import group_history
from coterie.pipeline.timeline.model import Evidence
from coterie.pipeline.timeline.tasks import partitions_read
from tests.pipeline.histories import plain_rows
from tests.pipeline.streams_stories import REBALANCE_MS, StreamsStory
from tests.pipeline.timeline.test_epoch_stories import GOLDEN, bumps
from tests.unit.coordinator.consumer.harness import topic_id
from tests.unit.coordinator.streams.harness import subtopology, topology


def held_back() -> StreamsStory:
    """`a` does not give up task 0_2, for which `c` waits, and is removed."""
    story = StreamsStory({"in": 6, "store": 6}, standbys=1)
    story.start("a")
    story.pass_time(20)
    story.start("b")
    story.pass_time(40)
    story.slow.add("a")
    story.start("c")
    story.pass_time(90)
    story.stop("b")
    story.pass_time(20)
    return story


BUMPS = [
    (2, "join", "a", 1, 0, 0),
    (3, "join", "b", 2, 3, 15_000),
    (4, "join", "c", 3, 2, None),
    (5, "revocation timeout", "a", 2, 0, 14_000),
    (6, "leave", "b", 1, 0, 15_000),
]


def test_bumps_have_causes_and_targets_whatever_is_read() -> None:
    """[pipeline/epoch-rebalance]"""
    story = held_back()
    assert bumps(story.history()) == BUMPS
    assert bumps(story.history(log=False)) == BUMPS
    by_log = [*BUMPS[:-1], (6, "leave or expiry", *BUMPS[-1][2:])]
    assert bumps(story.history(journal=False)) == by_log
    for log in (True, False):
        assert {each.group_type for each in story.history(log=log).rebalances} == {"streams"}


@pytest.mark.parametrize("journal", [True, False])
def test_handovers_show_who_holds_a_task_back(journal: bool) -> None:
    """[pipeline/epoch-handovers]"""
    history = held_back().history(journal=journal)
    assert history.epochs is not None
    found = [handover_columns(each) for each in history.epochs.handovers if each.epoch == 4]
    names = (
        "topic", "partition", "from_member_key", "to_member_key", "give_up_ms", "take_over_ms",
        "ended_by",
    )  # fmt: skip
    assert [tuple(row[name] for name in names) for row in found] == [
        ("0", 2, "a", "c", 5_000 + REBALANCE_MS, 9_000, "revocation timeout"),
        ("0", 5, "b", "c", 9_000, 4_000, "given up"),
    ]


def test_rebalances_count_active_tasks() -> None:
    """[pipeline/moved-without-need]"""
    found = [
        (each.to_generation, each.partitions, each.moved, each.moved_min, each.unowned_partition_ms)
        for each in held_back().history().rebalances
    ]
    assert found == [
        (2, 6, 0, 0, 0),
        (3, 6, 3, 3, 27_000),
        (5, 6, 4, None, 97_000),
        (6, 6, 3, 3, 45_000),
    ]


def test_copies_are_owned_beside_the_active_task() -> None:
    story = StreamsStory({"in": 2, "store": 2}, standbys=1)
    story.start("a", "b")
    story.pass_time(30)
    history = story.history()
    present = {
        (each.partition, each.role, each.member_key, each.reads)
        for each in history.ownership
        if each.to_ms is None
    }
    assert present == {
        (0, "active", "a", ("in",)),
        (1, "active", "b", ("in",)),
        (0, "standby", "b", None),
        (1, "standby", "a", None),
    }
    assert history.epochs is not None
    first = member_columns(history.epochs.members[0])
    assert first["assigned"] == [
        {"topic": "0", "partition": 0, "role": "active"},
        {"topic": "0", "partition": 1, "role": "standby"},
    ]
    assert (first["group_type"], first["process_id"]) == ("streams", "process-a")
    assert (first["topics"], first["pending_revocation"]) == (["in"], [])
    # What is compared with commits has the partitions of the topic.
    read = {(each.topic, each.partition) for each in partitions_read(history.ownership)}
    assert read == {("in", 0), ("in", 1)}


def test_copy_lasts_until_it_is_given_up() -> None:
    story = StreamsStory({"in": 2, "store": 2}, standbys=1)
    story.start("a", "b")
    story.pass_time(30)
    left_ms = story.now_ms
    story.stop("b")
    story.pass_time(15)
    # `a` is asked with its next heartbeat and has given up with the one after.
    assert [
        (each.member_key, each.partition, (each.to_ms or 0) - left_ms)
        for each in story.history().ownership
        if each.role == "standby"
    ] == [("b", 0, 0), ("a", 1, 10_000)]


@pytest.mark.parametrize("journal", [True, False])
def test_epochs_that_no_member_raised(journal: bool) -> None:
    """The log alone has the causes of the journal. [streams-groups/epoch-bumps]"""
    story = StreamsStory({}, standbys=0)
    story.start("a", topology=topology(subtopology("0", "in")))
    story.put_topic("in", topic_id("in"), 2)
    story.pass_time(10)
    story.settings.own["g"] = story.settings.default._replace(num_standby_replicas=1)
    story.pass_time(10)
    story.start("a", topology=topology(subtopology("0", "in")), rack_id="other")
    found = story.history(journal=journal)
    assert [(epoch, cause, member) for epoch, cause, member, *_ in bumps(found)] == [
        (2, "join", "a"),
        (3, "topics changed", None),
        (4, "settings of the assignment changed", None),
        (5, "subscription", "a"),
    ]
    evidence = Evidence.JOURNAL if journal else Evidence.LOG
    assert {each.evidence for each in found.rebalances} == {evidence}


def test_group_of_kafka() -> None:
    """tests/golden/group_records: a member joins, its changelog is made, it leaves."""
    rows = [
        row
        for number in range(3)
        for row in plain_rows((GOLDEN / f"{number}.log").read_bytes(), "consumer_epochs")
        if row["group_id"] == "streams-app"
    ]
    history = group_history("streams-app", (), (), rows)
    assert bumps(history) == [
        (2, "join", "member-aaaa-1", 1, None, None),
        (3, "topics changed", None, 1, 0, 2_019),
        (4, "leave or expiry", "member-aaaa-1", 0, None, 0),
    ]
    first, _ = history.rebalances
    assert (first.is_first, first.partitions, first.duration_ms) == (True, 4, 3_048)
    assert {(each.topic, each.partition, each.reads) for each in history.ownership} == {
        ("sub-0", number, ("orders",)) for number in range(4)
    }
