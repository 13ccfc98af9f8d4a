"""The history of a group from facts of its journal, one rule per test.

Rules: [pipeline/journal-then-log].
"""

from coterie.pipeline.timeline.from_journal import journal_history
from coterie.pipeline.timeline.model import Evidence, GroupHistory, Rebalance
from coterie.protocol.messages import journal_records as journal
from tests.pipeline.timeline.facts import (
    began,
    completed,
    first_generation,
    join_done,
    joined,
    member_of,
    partitions,
    removed,
    replaced,
)

FIRST = first_generation("a-0 a-1")


def history(*facts: object) -> GroupHistory:
    return journal_history("g", facts)


def last(found: GroupHistory) -> Rebalance:
    return found.rebalances[-1]


def test_first_rebalance_of_a_group_interrupts_no_partition() -> None:
    rebalance = last(history(*FIRST))
    assert (rebalance.from_generation, rebalance.to_generation) == (None, 1)
    assert (rebalance.started_ms, rebalance.completed_ms) == (0, 100)
    assert (rebalance.join_ms, rebalance.sync_ms, rebalance.initial_delay_ms) == (90, 10, 50)
    assert rebalance.trigger[:4] == ("join", "one", "one", "client-one")
    assert rebalance.joined == ("one",)
    assert rebalance.unowned_partition_ms == 0
    assert (rebalance.members, rebalance.partitions, rebalance.moved) == (1, 2, 0)
    assert rebalance.evidence is Evidence.JOURNAL


def test_eager_member_owns_nothing_from_its_rejoin_on() -> None:
    found = history(
        *FIRST,
        joined(1000, "two"),
        began(1000, "join", "two", 1),
        join_done(1400, 2, 1000),
        completed(1500, 2, 1000, member_of("one", "a-0", after=400), member_of("two", "a-1")),
    )
    rebalance = last(found)
    assert rebalance.unowned_partition_ms == 2 * 100
    assert (rebalance.moved, rebalance.moved_min, rebalance.excess_moved) == (1, 1, 0)
    move = found.moves[-1]
    assert (move.from_member_key, move.to_member_key, move.gap_ms) == ("one", "two", 100)
    held = [(each.partition, each.member_key, each.from_ms, each.to_ms) for each in found.ownership]
    assert sorted(held, key=lambda each: (each[2], each[0])) == [
        (0, "one", 100, 1400),
        (1, "one", 100, 1400),
        (0, "one", 1500, None),
        (1, "two", 1500, None),
    ]


def test_partitions_of_an_expired_member_are_without_owner_until_assigned() -> None:
    found = history(
        *FIRST,
        joined(1000, "two"),
        began(1000, "join", "two", 1),
        completed(1100, 2, 1000, member_of("one", "a-0", after=50), member_of("two", "a-1")),
        removed(9000, "two", "session expiry"),
        began(9000, "session expiry", "two", 2),
        completed(9300, 3, 9000, member_of("one", "a-0 a-1", after=200)),
    )
    rebalance = last(found)
    assert rebalance.trigger[:2] == ("session expiry", "two")
    assert rebalance.left == ("two",)
    # a-1 for 300 ms, and a-0 for the 100 ms after its owner rejoined.
    assert rebalance.unowned_partition_ms == 400
    assert (rebalance.moved, rebalance.moved_min) == (1, 1)
    session = next(each for each in found.sessions if each.member_key == "two")
    assert (session.exit_kind, session.last_seen_ms) == ("session expiry", 9000)
    assert session.rebalances_caused == 2


def test_rejoin_between_the_halves_of_a_cooperative_rebalance_belongs_to_it() -> None:
    """As with kafka-python, whose leader rejoins [pipeline/logical-rebalance]."""
    sticky = "cooperative-sticky"

    def held(*, after: int = 0) -> journal.GenerationMember:
        return member_of("one", "a-1 a-2", after=after, owned="a-0 a-1 a-2")

    found = history(
        joined(0, "one"),
        began(0, "join", "one", 8, state="Empty"),
        completed(100, 9, 0, member_of("one", "a-0 a-1 a-2"), protocol=sticky),
        joined(3000, "two"),
        began(3000, "join", "two", 9),
        completed(4000, 10, 3000, held(after=900), member_of("two"), protocol=sticky),
        began(4100, "leader rejoin", "one", 10),
        completed(4600, 11, 4100, held(after=5), member_of("two"), protocol=sticky),
        began(4700, "rejoin with changed subscription", "one", 11, subscription_change="topics"),
        completed(
            5900, 12, 4700, member_of("one", "a-1 a-2", owned="a-1 a-2"), member_of("two", "a-0"),
            protocol=sticky,
        ),
    )  # fmt: skip
    _, rebalance = found.rebalances
    assert (rebalance.from_generation, rebalance.to_generation, rebalance.generations) == (9, 12, 3)
    assert (rebalance.trigger.cause, rebalance.trigger.member_key) == ("join", "two")
    assert (rebalance.moved, rebalance.excess_moved) == (1, 0)
    assert rebalance.unowned_partition_ms == 1900
    assert [each.rebalances_caused for each in found.sessions] == [1, 1]


def test_two_generations_of_a_cooperative_rebalance_are_one_rebalance() -> None:
    """Member two joins, and member one keeps reading two of three partitions all the time
    [pipeline/logical-rebalance].
    """
    found = history(
        joined(0, "one"),
        began(0, "join", "one", 8, state="Empty"),
        completed(100, 9, 0, member_of("one", "a-0 a-1 a-2"), protocol="cooperative-sticky"),
        joined(3000, "two"),
        began(3000, "join", "two", 9),
        completed(
            4000,
            10,
            3000,
            member_of("one", "a-1 a-2", after=900, owned="a-0 a-1 a-2"),
            member_of("two"),
            protocol="cooperative-sticky",
        ),
        began(
            4200,
            "rejoin with changed subscription",
            "one",
            10,
            subscription_change="owned partitions",
        ),
        completed(
            4500,
            11,
            4200,
            member_of("one", "a-1 a-2", after=5, owned="a-1 a-2"),
            member_of("two", "a-0", after=200),
            protocol="cooperative-sticky",
        ),
    )
    assert len(found.rebalances) == 2
    rebalance = last(found)
    assert (rebalance.from_generation, rebalance.to_generation) == (9, 11)
    assert (rebalance.generations, rebalance.skipped_generations) == (2, 0)
    assert (rebalance.started_ms, rebalance.completed_ms) == (3000, 4500)
    assert rebalance.trigger[:2] == ("join", "two")
    assert rebalance.unowned_partition_ms == 500
    assert (rebalance.moved, rebalance.moved_min) == (1, 1)
    kept = [each for each in found.ownership if each.member_key == "one" and each.to_ms is None]
    assert [each.partition for each in kept] == [1, 2]


def test_replaced_static_member_moves_nothing() -> None:
    found = history(
        joined(0, "m1", "i1"),
        began(0, "join", "m1", 0, state="Empty", group_instance_id="i1"),
        completed(100, 1, 0, member_of("m1", "a-0", instance="i1")),
        replaced(500, "i1", "m1", "m2"),
    )
    assert len(found.rebalances) == 1
    assert [(each.member_id, each.exit_kind) for each in found.sessions] == [
        ("m1", "replaced"),
        ("m2", None),
    ]
    assert [each.to_ms for each in found.ownership] == [None]


def test_generation_that_was_never_completed_is_skipped_and_its_cause_kept() -> None:
    """[pipeline/skipped-generations]"""
    found = history(
        *FIRST,
        joined(1000, "two"),
        began(1000, "join", "two", 1),
        join_done(1200, 2, 1000),
        joined(1300, "three"),
        began(1300, "join", "three", 2, state="CompletingRebalance"),
        join_done(1500, 3, 1300),
        completed(1600, 3, 1300, member_of("one", "a-0", after=1), member_of("two", "a-1")),
    )
    rebalance = last(found)
    assert len(found.rebalances) == 2
    assert (rebalance.generations, rebalance.skipped_generations) == (1, 1)
    assert rebalance.trigger.member_key == "two"
    assert rebalance.joined == ("two", "three")
    assert rebalance.join_ms == 200 + 200


def test_group_is_empty_after_the_last_member_has_left() -> None:
    found = history(
        *FIRST,
        removed(2000, "one", "leave"),
        began(2000, "leave", "one", 1, members=0),
        journal.GroupEmptied(at_ms=2000, generation_id=2, began_ms=2000, join_ms=0),
    )
    rebalance = last(found)
    assert (rebalance.to_generation, rebalance.members, rebalance.partitions) == (2, 0, 0)
    assert rebalance.unowned_partition_ms == 0
    assert all(each.to_ms == 2000 for each in found.ownership)


def test_moves_without_need_are_counted() -> None:
    """Range moves three partitions, sticky would move one [pipeline/moved-without-need]."""
    before = (
        joined(0, "b"),
        began(0, "join", "b", 0, state="Empty"),
        completed(100, 1, 0, member_of("b", "a-0 a-1"), member_of("c", "a-2 a-3")),
    )
    found = history(
        *before,
        joined(1000, "a"),
        began(1000, "join", "a", 1),
        completed(
            1200, 2, 1000, member_of("a", "a-0 a-1"), member_of("b", "a-2"), member_of("c", "a-3")
        ),
    )
    rebalance = last(found)
    assert (rebalance.moved, rebalance.moved_min, rebalance.excess_moved) == (3, 1, 2)


def test_rebalance_without_a_last_fact_has_no_end() -> None:
    """[pipeline/lost-facts]"""
    rebalance = last(history(*FIRST, began(5000, "leader rejoin", "one", 1)))
    assert (rebalance.started_ms, rebalance.completed_ms, rebalance.duration_ms) == (
        5000,
        None,
        None,
    )
    assert rebalance.to_generation is None
    assert (rebalance.join_ms, rebalance.sync_ms) == (None, None), "its phases have no length yet"
    known = last(history(*FIRST, began(5000, "leader rejoin", "one", 1), join_done(5040, 2, 5000)))
    assert (rebalance.completed_ms, known.join_ms, known.sync_ms) == (None, 40, None)


def test_generation_without_a_first_fact_is_a_rebalance_of_unknown_cause() -> None:
    found = history(completed(700, 5, 600, member_of("one", "a-0")))
    rebalance = last(found)
    assert rebalance.trigger.cause == "unknown"
    assert (rebalance.started_ms, rebalance.completed_ms) == (600, 700)
    assert found.generations[0].owners == {partitions("a-0")[0]: "one"}


def test_generations_of_a_deleted_group_start_again() -> None:
    found = history(
        *FIRST,
        journal.GroupDeleted(at_ms=3000, generation_id=1),
        joined(4000, "x"),
        began(4000, "join", "x", 0, state="Empty"),
        completed(4100, 1, 4000, member_of("x", "a-0")),
    )
    assert last(found).from_generation is None
    assert last(found).moved == 0
