"""The history of a group from its logged generations, alone and together with a journal.

Rules: [pipeline/member-identity], [pipeline/member-sessions].
"""

import pytest

from coterie.pipeline.timeline.combined import group_history
from coterie.pipeline.timeline.from_log import log_history
from coterie.pipeline.timeline.model import Evidence, Generation, RecordedMember, Removed
from tests.pipeline.timeline.facts import began, completed, joined, logged, member_of, partitions


def test_beginning_and_phases_are_unknown() -> None:
    """[pipeline/unknown-is-null]"""
    found = log_history("g", [logged(1, 100, one="a-0 a-1"), logged(2, 900, one="a-0", two="a-1")])
    rebalance = found.rebalances[-1]
    assert (rebalance.started_ms, rebalance.duration_ms, rebalance.join_ms) == (None, None, None)
    assert rebalance.unowned_partition_ms is None
    assert rebalance.completed_ms == 900
    assert (rebalance.moved, rebalance.moved_min) == (1, 1)
    assert found.moves[-1].gap_ms is None


@pytest.mark.parametrize(
    ("after", "cause", "by", "evidence"),
    [
        ({"one": "a-0", "two": "a-1"}, "join", "two", Evidence.LOG),
        ({"two": "a-0 a-1"}, "members changed", None, Evidence.INFERRED),
        ({"one": "a-1", "b": "", "c": ""}, "join", None, Evidence.LOG),
        ({"one": "a-0 a-1 a-2"}, "topic metadata change", None, Evidence.INFERRED),
        ({"one": "a-0 a-1"}, "leader rejoin", None, Evidence.INFERRED),
        ({}, "leave or expiry", "one", Evidence.LOG),
    ],
)
def test_cause_is_inferred_from_the_change(
    after: dict[str, str], cause: str, by: str | None, evidence: Evidence
) -> None:
    """[pipeline/cause-inference]"""
    found = log_history("g", [logged(1, 100, one="a-0 a-1"), logged(2, 900, **after)])
    rebalance = found.rebalances[-1]
    assert (rebalance.trigger.cause, rebalance.trigger.member_key) == (cause, by)
    assert rebalance.evidence is evidence


def test_created_group_has_had_no_rebalance() -> None:
    """[pipeline/skipped-generations]"""
    created, first = logged(0, 90), logged(1, 100, one="a-0")
    found = log_history("g", [created, first])
    assert [each.to_generation for each in found.rebalances] == [1]
    assert found.rebalances[0].from_generation is None
    # Deleted and created again. An empty group with another number has had a rebalance.
    again = log_history("g", [created, first, Removed(150), created, logged(2, 200)])
    assert [each.to_generation for each in again.rebalances] == [1, 2]


def test_missing_numbers_are_skipped_generations() -> None:
    found = log_history("g", [logged(10, 100, one="a-0"), logged(12, 200, one="a-0", two="")])
    assert found.rebalances[-1].skipped_generations == 1


def test_second_half_of_a_cooperative_rebalance_belongs_to_the_first() -> None:
    sticky = "cooperative-sticky"
    found = log_history(
        "g",
        [
            logged(9, 100, sticky, one="a-0 a-1 a-2"),
            logged(10, 4000, sticky, one="a-1 a-2", two=""),
            logged(11, 4500, sticky, one="a-1 a-2", two="a-0"),
        ],
    )
    assert len(found.rebalances) == 2
    rebalance = found.rebalances[-1]
    assert (rebalance.from_generation, rebalance.to_generation, rebalance.generations) == (9, 11, 2)
    assert (rebalance.trigger.cause, rebalance.trigger.member_key) == ("join", "two")
    # Given up in the first half, assigned in the second.
    assert rebalance.unowned_partition_ms == 500
    assert (rebalance.moved, rebalance.moved_min) == (1, 1)


@pytest.mark.parametrize("between", [{}, {"cs-3": ""}])
def test_handover_with_a_rejoin_between_its_halves_is_one_rebalance(
    between: dict[str, str],
) -> None:
    """As with kafka-python, whose leader rejoins [pipeline/logical-rebalance]."""
    sticky = "cooperative-sticky"
    keeps, gives = "a-0 a-1 a-2", "a-3 a-4 a-5"
    found = log_history(
        "g",
        [
            logged(1, 100, sticky, **{"cs-1": f"{keeps} {gives}"}),
            logged(2, 4000, sticky, **{"cs-1": keeps, "cs-2": ""}),
            logged(3, 4600, sticky, **{"cs-1": keeps, "cs-2": ""} | between),
            logged(4, 5900, sticky, **{"cs-1": keeps, "cs-2": gives} | between),
        ],
    )
    first, rebalance = found.rebalances
    assert (first.to_generation, first.excess_moved) == (1, 0)
    assert (rebalance.from_generation, rebalance.to_generation, rebalance.generations) == (1, 4, 3)
    assert (rebalance.trigger.cause, rebalance.trigger.member_key) == ("join", "cs-2")
    # With another member in between, it is not known what was needed.
    assert (rebalance.moved, rebalance.moved_min) == (3, None if between else 3)
    assert rebalance.joined == ("cs-2", *between)
    # Each of the three partitions for 1.9 s.
    assert rebalance.unowned_partition_ms == 3 * 1900


def test_moves_without_need_are_never_negative() -> None:
    """An assignor that moves nothing leaves the group unbalanced [pipeline/moved-without-need]."""
    found = log_history("g", [logged(1, 100, one="a-0 a-1"), logged(2, 900, one="a-0 a-1", two="")])
    assert found.rebalances[-1].excess_moved == 0


def test_rewritten_generation_is_no_rebalance() -> None:
    """[pipeline/static-restart]"""

    def static(member_id: str) -> Generation:
        member = RecordedMember(member_id, "i1", "c", "/h", ("a",), (), partitions("a-0"))
        return Generation(4, 100, "consumer", "range", member_id, (member,))

    found = log_history("g", [static("m1"), static("m2"), static("m3")])
    assert len(found.rebalances) == 1
    assert not found.moves[1:]
    assert [each.member_id for each in found.sessions] == ["m1", "m2", "m3"]


def test_tombstone_ends_the_group() -> None:
    found = log_history("g", [logged(1, 100, one="a-0"), Removed(500), logged(1, 900, one="a-0")])
    assert [each.from_generation for each in found.rebalances] == [None, None]
    assert [each.to_ms for each in found.ownership] == [500, None]


def test_journal_continues_the_history_of_the_log() -> None:
    """[pipeline/journal-then-log]"""
    facts = [
        joined(1000, "two"),
        began(1000, "join", "two", 3),
        completed(1200, 4, 1000, member_of("one", "a-0", after=100), member_of("two", "a-1")),
    ]
    log = [
        logged(2, 100, zero="a-0 a-1"),
        logged(3, 500, one="a-0 a-1"),
        logged(4, 1200, one="a-0", two="a-1"),
    ]
    found = group_history("g", facts, log)
    assert [(each.to_generation, each.evidence) for each in found.rebalances] == [
        (2, Evidence.LOG),
        (3, Evidence.INFERRED),
        (4, Evidence.JOURNAL),
    ]
    last = found.rebalances[-1]
    assert (last.from_generation, last.moved, last.unowned_partition_ms) == (3, 1, 200)
    sessions = [(each.member_key, each.first_seen_ms, each.last_seen_ms) for each in found.sessions]
    assert sessions == [("zero", 100, 500), ("one", 500, None), ("two", 1000, None)]
