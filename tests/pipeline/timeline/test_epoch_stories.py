"""Histories of consumer groups from what our coordinator writes, and from Kafka 4.3.1's log.

The log alone, the journal alone and both together must agree on what each of them can show.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from coterie.assignors.model import TopicPartition
from coterie.pipeline.timeline.columns import bump_columns, handover_columns
from coterie.pipeline.timeline.combined import group_history
from coterie.pipeline.timeline.epoch_handovers import Handovers
from coterie.pipeline.timeline.from_rows import generations_of
from coterie.pipeline.timeline.model import Evidence, GroupHistory
from tests.pipeline.consumer_stories import REBALANCE_MS, ConsumerStory, orders, topic_id
from tests.pipeline.histories import plain_rows
from tests.unit.coordinator.consumer.test_sessions import PROTOCOLS, classic_group

GOLDEN = Path(__file__).parents[2] / "golden" / "group_records"


def held_back() -> ConsumerStory:
    """`a` does not give up partition 2, for which `c` waits, and is removed."""
    story = orders()
    story.start("a")
    story.pass_time(20)
    story.start("b")
    story.pass_time(30)
    story.slow.add("a")
    story.start("c")
    story.pass_time(90)
    story.stop("b")
    story.pass_time(20)
    return story


def bumps(history: GroupHistory) -> list[tuple[Any, ...]]:
    assert history.epochs is not None
    rows = map(bump_columns, history.epochs.bumps)
    names = "epoch", "cause", "member_key", "members", "moved_partitions", "stable_ms"
    return [tuple(row[name] for name in names) for row in rows]


def handovers(history: GroupHistory) -> list[tuple[Any, ...]]:
    assert history.epochs is not None
    rows = map(handover_columns, history.epochs.handovers)
    names = (
        "epoch", "partition", "from_member_key", "to_member_key", "give_up_ms", "take_over_ms",
        "ended_by",
    )  # fmt: skip
    return [tuple(row[name] for name in names) for row in rows]


BUMPS = [
    (2, "join", "a", 1, 0, 0),
    (3, "join", "b", 2, 3, 14_000),
    (4, "join", "c", 3, 2, None),
    (5, "revocation timeout", "a", 2, 0, 5_000),
    (6, "leave", "b", 1, 0, 5_000),
]


def test_bumps_have_causes_and_targets_whatever_is_read() -> None:
    """[pipeline/epoch-rebalance]"""
    story = held_back()
    assert bumps(story.history()) == BUMPS
    assert bumps(story.history(log=False)) == BUMPS
    # The log does not tell a leave from an expiry, but it shows what was asked of a member.
    by_log = [*BUMPS[:-1], (6, "leave or expiry", *BUMPS[-1][2:])]
    assert bumps(story.history(journal=False)) == by_log


@pytest.mark.parametrize("journal", [True, False])
def test_handovers_show_who_holds_a_partition_back(journal: bool) -> None:
    """[pipeline/epoch-handovers]"""
    found = handovers(held_back().history(journal=journal))
    left = "leave" if journal else "leave or expiry"
    assert found == [
        (3, 3, "a", "b", 10_000, 4_000, "given up"),
        (3, 4, "a", "b", 10_000, 4_000, "given up"),
        (3, 5, "a", "b", 10_000, 4_000, "given up"),
        (4, 2, "a", "c", 5_000 + REBALANCE_MS, 4_000, "revocation timeout"),
        (4, 5, "b", "c", 9_000, 4_000, "given up"),
        (5, 0, "a", "b", 0, 1_000, "revocation timeout"),
        (5, 1, "a", "c", 0, 0, "revocation timeout"),
        (6, 0, "b", "c", 0, 0, left),
        (6, 3, "b", "c", 0, 0, left),
        (6, 4, "b", "c", 0, 0, left),
    ]


def test_rebalance_lasts_until_all_members_are_stable() -> None:
    """[pipeline/epoch-rebalance]"""
    both, log, journal = (
        held_back().history(log=log, journal=journal)
        for log, journal in ((True, True), (True, False), (False, True))
    )
    spans = [
        (each.from_generation, each.to_generation, each.duration_ms) for each in both.rebalances
    ]
    assert spans == [(None, 2, 0), (2, 3, 14_000), (3, 5, 70_000), (5, 6, 5_000)]
    for history in (log, journal):
        assert spans == [
            (each.from_generation, each.to_generation, each.duration_ms)
            for each in history.rebalances
        ]
    assert [each.moved for each in both.rebalances] == [0, 3, 4, 3]
    # Partitions are in the log only.
    assert [each.unowned_partition_ms for each in both.rebalances] == [0, 27_000, 82_000, 15_000]
    assert {each.unowned_partition_ms for each in journal.rebalances} == {None}
    assert {each.protocol for each in (*both.rebalances, *journal.rebalances)} == {"uniform"}
    assert {each.evidence for each in log.rebalances} == {Evidence.LOG}
    assert {each.evidence for each in both.rebalances} == {Evidence.JOURNAL}


def test_member_owns_what_it_has_yet_to_give_up() -> None:
    """It may commit for it. [pipeline/epoch-handovers]"""
    found = held_back().history()
    assert found.epochs is not None
    kept = [each for each in found.epochs.handovers if each.give_up_ms and each.noticed_ms]
    assert len(kept) == 5
    ends = {(each.partition, each.member_key): each.to_ms for each in found.ownership}
    for each in kept:
        assert ends[each.partition, each.from_member_key] == each.given_up_ms
    times = sorted((each.partition, each.from_ms, each.to_ms) for each in found.ownership)
    for before, after in pairwise(times):
        if before[0] == after[0]:
            assert (before[2] or 0) <= after[1]


def test_sessions_are_not_counted_twice() -> None:
    exits = [(each.member_key, each.exit_kind) for each in held_back().history().sessions]
    assert exits == [("a", "revocation timeout"), ("b", "leave"), ("c", None)]


def test_member_at_the_end_of_the_records_has_its_epochs() -> None:
    story = orders(2)
    story.start("a")
    story.pass_time(10)
    story.silent.add("a")
    story.start("b")
    epochs = story.history().epochs
    assert epochs is not None
    a, b = epochs.members
    assert (a.member_epoch, a.target_epoch, a.group_epoch, a.state) == (2, 3, 3, "Stable")
    assert (b.member_epoch, b.state) == (3, "UnreleasedPartitions")
    assert a.target is not None
    assert len(a.member.assigned) == 2
    assert len(a.target) == 1


def test_other_causes_of_a_bump() -> None:
    """[pipeline/epoch-rebalance]"""
    story = orders(2)
    story.create_topic("bills", 2)
    story.start("a")
    story.pass_time(10)
    story.subscribe("a", "orders", "bills")
    story.pass_time(10)
    story.create_topic("bills", 3)
    story.pass_time(10)
    story.start("b", topics=(), subscribed_topic_regex="b.*")
    story.pass_time(20)
    story.silent.add("a")
    story.pass_time(60)
    causes = [
        ("join", "a"), ("subscription", "a"), ("topics changed", None),
        ("regular expression resolved", None), ("session expiry", "a"),
    ]  # fmt: skip
    assert [each[1:3] for each in bumps(story.history())] == causes
    causes[-1] = ("leave or expiry", "a")
    assert [each[1:3] for each in bumps(story.history(journal=False))] == causes


def test_change_that_raised_no_epoch_does_not_cause_the_next_one() -> None:
    """[pipeline/epoch-rebalance]"""
    story = orders(2)
    story.start("a")
    story.start("idle", topics=())
    story.pass_time(10)
    story.create_topic("orders", 4)
    story.pass_time(10)
    for journal in (True, False):
        causes = [each[1] for each in bumps(story.history(journal=journal))]
        assert causes == ["join", "topics changed"]


def test_member_that_leaves_while_it_is_asked_has_no_timeout() -> None:
    """[pipeline/epoch-rebalance]"""
    story = orders(4)
    story.start("a")
    story.slow.add("a")
    story.pass_time(10)
    story.start("b")
    story.pass_time(20)
    story.stop("a")
    exits = {each.member_key: each.exit_kind for each in story.history(journal=False).sessions}
    assert exits == {"a": "leave or expiry", "b": None}


def test_handover_goes_where_the_newest_target_says() -> None:
    """[pipeline/epoch-handovers]"""
    story = orders(4)
    story.start("a")
    story.slow.add("a")
    story.pass_time(10)
    story.start("b")
    story.pass_time(10)
    story.start("c")
    story.pass_time(10)
    story.slow.clear()
    story.give_up("a")
    story.pass_time(20)
    found = handovers(story.history())
    # It was asked for when the first of them came.
    assert sorted(each[1:5] for each in found) == [(2, "a", "b", 20_000), (3, "a", "c", 20_000)]


def test_handover_ends_when_the_partition_stays() -> None:
    """[pipeline/epoch-handovers]"""
    story = orders(4)
    story.start("a")
    story.slow.add("a")
    story.pass_time(10)
    story.start("b")
    story.pass_time(10)
    assert len(handovers(story.history())) == 2
    story.stop("b")
    story.pass_time(10)
    assert handovers(story.history()) == []


def test_journal_fills_what_compaction_has_removed() -> None:
    """A fact whose record is gone is an event of its own."""
    story = held_back()
    newest = {
        (row["record_type"], row["member_id"], row["regex"]): number
        for number, row in enumerate(story.rows)
    }
    story.rows = [row for number, row in enumerate(story.rows) if number in newest.values()]
    assert len(bumps(story.history(journal=False))) == 1
    found = story.history()
    assert bumps(found) == BUMPS
    assert [each.trigger.cause for each in found.rebalances] == [
        "join", "join", "join", "leave",
    ]  # fmt: skip


def test_deleted_and_created_topic_is_another_topic() -> None:
    story = orders(2)
    story.start("a")
    story.pass_time(10)
    story.delete_topic("orders")
    story.pass_time(20)
    story.put_topic("orders", topic_id("orders", 1), 2)
    story.pass_time(20)
    found = story.history()
    assert [each[1] for each in bumps(found)] == ["join", "topics changed", "topics changed"]
    assert len(found.generations[-1].members[0].assigned) == 2


def kafkas(log: str, group_id: str) -> GroupHistory:
    """Return the history of a group of Kafka 4.3.1, which has no journal."""
    content = (GOLDEN / f"{log}.log").read_bytes()
    epochs, logged = (
        [row for row in plain_rows(content, view) if row["group_id"] == group_id]
        for view in ("consumer_epochs", "groups")
    )
    return group_history(group_id, [], generations_of(logged), epochs, {})


def test_history_of_a_group_of_kafka() -> None:
    found = kafkas("1", "modern")
    _, joined, left, emptied = bumps(found)
    assert joined[:2] == (3, "join")
    assert joined[3:] == (2, 2, 5001)
    assert left[:2] == (4, "leave or expiry")
    assert left[3:] == (1, 0, 662)
    assert emptied[1:4] == ("leave or expiry", "st1", 0)
    assert [each[4:] for each in handovers(found)] == [
        (116, 61, "given up"), (116, 61, "given up"),
        (0, 0, "leave or expiry"), (0, 0, "leave or expiry"),
    ]  # fmt: skip
    assert found.rebalances[1].protocol == "range"


def test_regular_expression_of_a_group_of_kafka_raises_its_epoch() -> None:
    (resolved, left) = bumps(kafkas("0", "regex-group"))
    assert resolved[1:3] == ("regular expression resolved", None)
    assert left[1] == "leave or expiry"


def test_topics_without_known_names_are_not_compared_with_names() -> None:
    """[pipeline/topic-ids]"""
    found = kafkas("1", "mixed")
    assert [each.moved_min for each in found.rebalances[:2]] == [None, None]
    assert found.generations[0].members[0].topics is None


def upgraded() -> ConsumerStory:
    """Two classic members, a consumer that joins them, and the downgrade when it has left."""
    story = ConsumerStory({"foo": 2})
    classic_group(story, "x", "y")
    story.start("a", topics=("foo",))
    story.pass_time(5)
    story.stop("a")
    return story


@pytest.mark.parametrize("journal", [True, False])
def test_members_that_come_along_when_the_type_changes_have_not_joined(journal: bool) -> None:
    """[pipeline/changed-type]"""
    found = upgraded().history(journal=journal)
    assert [len(each.joined) for each in found.rebalances] == [2, 0, 1, 0]


def downgraded() -> ConsumerStory:
    """A group that began as a consumer group, and whose classic member stays alone."""
    story = ConsumerStory({"foo": 4})
    story.start("a", topics=("foo",))
    story.pass_time(10)
    story.join("x", protocols=PROTOCOLS, session_ms=60_000, rebalance_ms=60_000)
    story.pass_time(10)
    story.stop("a")
    return story


def test_downgrade_of_a_group_that_was_never_classic_is_known_from_the_log() -> None:
    """One member leaves with it, and the other one goes on [pipeline/changed-type]."""
    found = downgraded().history(journal=False)
    last = found.rebalances[-1]
    assert (last.group_type, last.trigger.cause) == ("classic", "downgrade")
    assert (last.joined, last.left) == ((), ("a",))
    assert [(each.member_key, each.exit_kind) for each in found.sessions] == [
        ("a", "leave or expiry"), ("1", None)
    ]  # fmt: skip


@pytest.mark.parametrize("journal", [True, False])
def test_downgrade_cuts_a_rebalance_off(journal: bool) -> None:
    """The classic member has not got a partition yet [pipeline/changed-type]."""
    story = ConsumerStory({"foo": 4})
    story.start("a", topics=("foo",))
    story.pass_time(10)
    story.join("x", protocols=PROTOCOLS, session_ms=60_000, rebalance_ms=60_000)
    story.stop("a")
    found = story.history(journal=journal)
    first, cut_off, after = found.rebalances
    assert (first.group_type, first.cut_off_by) == ("consumer", None)
    assert (cut_off.group_type, cut_off.cut_off_by) == ("consumer", "downgrade")
    assert (cut_off.completed_ms, cut_off.to_generation) == (None, None)
    assert (after.group_type, after.cut_off_by) == ("classic", None)


def test_upgrade_cuts_a_rebalance_off() -> None:
    """[pipeline/changed-type]"""
    story = ConsumerStory({"foo": 2})
    classic_group(story, "x", "y")
    story.join("z", protocols=PROTOCOLS, session_ms=60_000, rebalance_ms=60_000)
    story.start("a", topics=("foo",))
    found = story.history()
    assert [(each.group_type, each.cut_off_by) for each in found.rebalances[:3]] == [
        ("classic", None), ("classic", "upgrade"), ("consumer", None)
    ]  # fmt: skip


def test_partition_on_its_way_is_not_waited_for_after_a_downgrade() -> None:
    """[pipeline/changed-type]"""
    handovers = Handovers("g")
    one, two, three = (TopicPartition("t", number) for number in range(3))
    handovers.has("a", {one, two, three}, set(), 10)
    handovers.targeted(2, 20, {one: "b", two: "b", three: "b"})
    handovers.has("a", {two, three}, set(), 30)
    handovers.has("c", {three}, set(), 35)
    handovers.removed("a", 40, "leave or expiry")
    handovers.ended(40, "leave or expiry", "downgrade")
    assert [(each.partition, each.ended_by) for each in handovers.all()] == [
        (1, "downgrade"), (2, "downgrade")
    ]  # fmt: skip


@pytest.mark.parametrize("journal", [True, False])
def test_group_of_another_type_has_one_history(journal: bool) -> None:
    """[pipeline/changed-type]"""
    found = upgraded().history(journal=journal)
    assert [(each.group_type, each.trigger.cause) for each in found.rebalances] == [
        ("classic", "join"), ("consumer", "upgrade"), ("consumer", "join"), ("classic", "downgrade")
    ]  # fmt: skip
    sessions = {each.member_key.split("-")[0]: each for each in found.sessions}
    assert len(sessions) == len(found.sessions)
    assert {name: each.exit_kind for name, each in sessions.items()} == {
        "x": "downgrade" if journal else None,
        "y": "downgrade" if journal else None,
        "a": "leave" if journal else "leave or expiry",
    }
    assert sessions["x"].session_timeout_ms == 10_000
