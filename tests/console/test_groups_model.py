"""The rows of the groups page, over looks and facts that a test makes.

Rules: [console/rows].
"""

import sys
from collections.abc import Mapping
from typing import Any

import pytest

from coterie.address import Address
from coterie.client.group_description import DescribedMember, GroupDescription
from coterie.client.groups import ListedGroup
from coterie.client.nodes import Node
from coterie.client.offsets import Committed
from coterie.client.progress import Sample
from coterie.console.model.groups import Changes, GroupsLook, GroupsModel
from coterie.console.model.past import HOUR_MS, Recorded
from coterie.console.model.series import WINDOW_MS
from coterie.protocol.messages.journal_records import (
    Fact,
    GenerationCompleted,
    GenerationMember,
    MemberJoined,
    RebalanceBegan,
)

NODE = Node(1, Address("127.0.0.1", 9092))
T0_MS = 1_795_000_000_000
ORDERS = ("orders", 0)


def look(
    at_s: float,
    groups: Mapping[str, tuple[str, int, int]],
    members: tuple[str, ...] = ("m",),
    *,
    is_whole: bool = True,
) -> tuple[GroupsLook, int]:
    """Return a look at groups and when it ended; each has a state, a committed offset, an end."""
    at_ms = T0_MS + round(at_s * 1000)
    described = {
        name: GroupDescription(
            name, True, "classic", state, "consumer", "range", NODE,
            [DescribedMember(each, None, each, "/h", {"orders": [0]}) for each in members],
        )
        for name, (state, _, _) in groups.items()
    }  # fmt: skip
    listed = [ListedGroup(name, "consumer", each[0], "classic") for name, each in groups.items()]
    committed = {name: {ORDERS: Committed(each[1], -1, "")} for name, each in groups.items()}
    ends = {ORDERS: max((each[2] for each in groups.values()), default=0)}
    sample = Sample(at_s, committed, ends if groups else {})
    return GroupsLook(at_ms, listed, described, sample, is_whole), at_ms


def add(model: GroupsModel, at_s: float, groups: Mapping[str, tuple[str, int, int]]) -> Changes:
    return model.add_look(*look(at_s, groups))


def rebalance(began_ms: int, generation: int, member: str, *, ended: bool = True) -> list[Fact]:
    """Return the facts of a rebalance of one member, which took 40 ms."""
    found: list[Fact] = [
        RebalanceBegan(
            at_ms=began_ms, cause="join", previous_state="Empty", generation_id=generation - 1,
            member_count=1, timeout_ms=60_000, member_id=member, client_id=member,
            client_host="/h",
        )
    ]  # fmt: skip
    if ended:
        logged = GenerationMember(
            member_id=member, client_id=member, client_host="/h", session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000, joined_after_ms=0, subscription=b"", assignment=b"",
        )  # fmt: skip
        found.append(
            GenerationCompleted(
                at_ms=began_ms + 40, generation_id=generation, protocol_type="consumer",
                protocol_name="range", leader=member, began_ms=began_ms, join_ms=20, sync_ms=20,
                members=[logged],
            )
        )  # fmt: skip
    return found


def test_rebalances_of_an_hour_are_those_of_groups_in_trouble_first() -> None:
    model = GroupsModel()
    add(model, 0, dict.fromkeys("abc", ("Stable", 5, 5)))
    for name, ages_min in (("a", [70, 50, 20]), ("b", [40]), ("c", [65])):
        facts = [
            fact
            for number, age_min in enumerate(ages_min)
            for fact in rebalance(T0_MS - age_min * 60_000, number + 1, "m")
        ]
        model.add_facts({name: facts}, T0_MS)
    found = model.strips(T0_MS)
    assert [(each["group"], len(each["strip"])) for each in found] == [("a", 2), ("b", 1)]
    first = T0_MS - 50 * 60_000
    assert found[0]["strip"][0][:3] == [first, first + 40, "join"]
    # The rows that are sent have those of 15 minutes.
    assert [row["strip"] for row in model.rows] == [[], [], []]
    model.set_trouble({"b": 10}, T0_MS)
    assert [each["group"] for each in model.strips(T0_MS)] == ["b", "a"]


def test_rebalances_of_all_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.console.model.groups.MOST_MARKS", 3)
    model = GroupsModel()
    add(model, 0, dict.fromkeys("abc", ("Stable", 5, 5)))
    for name in "abc":
        for number in range(2):
            model.add_facts({name: rebalance(T0_MS + number * 1_000, number + 1, "m")}, T0_MS)
    assert [each["group"] for each in model.strips(T0_MS)] == ["a"]


# --- looks ----------------------------------------------------------------------------------------


def test_a_row_is_sent_when_it_has_changed_and_only_then() -> None:
    model = GroupsModel()
    first = add(model, 0, {"a": ("Stable", 5, 5), "b": ("Empty", 5, 5)})
    assert [row["group"] for row in first.changed] == ["a", "b"]
    # The second look adds rates, of which nothing was known.
    second = add(model, 1, {"a": ("Stable", 5, 5), "b": ("Empty", 5, 5)})
    assert [row["records_per_s"] for row in second.changed] == [0, 0]
    assert add(model, 2, {"a": ("Stable", 5, 5), "b": ("Empty", 5, 5)}) == Changes([], [])
    changed = add(model, 2.5, {"a": ("Stable", 3, 5), "b": ("Empty", 5, 5)}).changed
    assert [(row["group"], row["lag"]) for row in changed] == [("a", 2)]
    assert add(model, 3, {"b": ("Empty", 5, 5)}) == Changes([], ["a"])
    assert [row["group"] for row in model.rows] == ["b"]


def test_a_look_at_some_groups_removes_none() -> None:
    model = GroupsModel()
    add(model, 0, {"a": ("Stable", 5, 5), "b": ("Empty", 5, 5)})
    some, at_ms = look(1, {"b": ("Dead", 5, 5)}, is_whole=False)
    changes = model.add_look(some, at_ms)
    assert ([row["group"] for row in changes.changed], changes.removed) == (["b"], [])


def test_rates_are_those_of_the_last_ten_seconds() -> None:
    model = GroupsModel()
    for second in range(31):
        # Two records a second are written; after 20 s the group reads ten a second.
        read = 0 if second <= 20 else 10 * (second - 20)
        add(model, second, {"a": ("Stable", read, 100 + 2 * second)})
    (row,) = model.rows
    assert row["records_per_s"] == row["consumed_per_s"] == 10
    assert row["produced_per_s"] == 2
    assert row["lag"] == 100 + 60 - 100
    assert row["catch_up_s"] == 60 / 8
    assert row["last_commit_ms"] == T0_MS + 30_000


def test_the_lag_in_time_is_the_age_of_the_oldest_record_that_is_not_read() -> None:
    model = GroupsModel()
    add(model, 0, {"a": ("Stable", 10, 10)})
    assert model.rows[0]["lag_ms"] == 0
    add(model, 10, {"a": ("Stable", 10, 30)})
    add(model, 20, {"a": ("Stable", 20, 30)})
    # The record at 20 was written between the looks at 0 and 10 s, half-way.
    assert model.rows[0]["lag_ms"] == 15_000
    late = GroupsModel()
    add(late, 0, {"a": ("Stable", 10, 30)})
    assert late.rows[0]["lag_ms"] is None


# --- the past -------------------------------------------------------------------------------------


def test_without_a_journal_a_rebalance_is_what_was_seen_and_has_no_cause() -> None:
    model = GroupsModel()
    add(model, 0, {"a": ("Stable", 5, 5)})
    add(model, 1, {"a": ("PreparingRebalance", 5, 5)})
    row = model.rows[0]
    assert row["strip"] == [[T0_MS + 1_000, None, None, None]]
    assert row["trouble"] > 0
    add(model, 2, {"a": ("CompletingRebalance", 5, 5)})
    add(model, 3, {"a": ("Stable", 5, 5)})
    row = model.rows[0]
    assert row["strip"] == [[T0_MS + 1_000, T0_MS + 3_000, None, None]]
    assert row["last_rebalance"] == {"at_ms": T0_MS + 3_000, "cause": None, "who": None}
    assert row["trouble"] == 0
    # Another member, and no rebalance was seen: it was between the looks.
    model.add_look(*look(4, {"a": ("Stable", 5, 5)}, ("m", "n")))
    assert model.rows[0]["strip"][1:] == [[T0_MS + 3_000, T0_MS + 4_000, None, None]]
    assert model.rows[0]["rebalances_1h"] == 2


def test_facts_change_a_row_before_the_next_look_and_an_older_look_does_not_undo_it() -> None:
    model = GroupsModel()
    add(model, 0, {"a": ("Empty", 5, 5)})
    now_ms = T0_MS + 1_000
    changes, ended = model.add_facts({"a": rebalance(now_ms, 1, "m", ended=False)}, now_ms)
    assert [row["state"] for row in changes.changed] == ["PreparingRebalance"]
    assert ended == []
    begun_before, _ = look(0.5, {"a": ("Empty", 5, 5)})
    model.add_look(begun_before, T0_MS + 1_100)
    assert model.rows[0]["state"] == "PreparingRebalance"
    changes, ended = model.add_facts({"a": rebalance(now_ms, 1, "m")[1:]}, now_ms + 50)
    (row,) = changes.changed
    assert (row["state"], row["members"]) == ("Stable", 1)
    assert ended == [{"group": "a", "at_ms": now_ms + 40, "cause": "join", "who": "m at h"}]
    assert row["last_rebalance"] == {"at_ms": now_ms + 40, "cause": "join", "who": "m at h"}
    assert [each[:3] for each in row["strip"]] == [[now_ms, now_ms + 40, "join"]]
    # With the journal, what is seen between looks is no rebalance of its own.
    add(model, 5, {"a": ("Stable", 5, 5)})
    assert model.rows[0]["rebalances_1h"] == 1


def test_facts_of_a_group_that_no_look_has_seen_are_kept_for_it() -> None:
    model = GroupsModel()
    changes, ended = model.add_facts({"a": rebalance(T0_MS, 1, "m")}, T0_MS)
    assert (changes.changed, len(ended)) == ([], 1)
    add(model, 1, {"a": ("Stable", 5, 5)})
    assert model.rows[0]["last_rebalance"]["cause"] == "join"


def test_strips_end_after_fifteen_minutes_and_counts_after_an_hour() -> None:
    model = GroupsModel()
    add(model, 0, {"a": ("Stable", 5, 5)})
    model.add_facts({"a": rebalance(T0_MS, 1, "m")}, T0_MS)
    assert len(model.rows[0]["strip"]) == 1
    (row,) = add(model, WINDOW_MS / 1000 + 1, {"a": ("Stable", 5, 5)}).changed
    assert (row["strip"], row["rebalances_1h"]) == ([], 1)
    (row,) = add(model, HOUR_MS / 1000 + 1, {"a": ("Stable", 5, 5)}).changed
    assert row["rebalances_1h"] == 0


# --- memory ---------------------------------------------------------------------------------------


def test_facts_are_bounded_and_those_of_quiet_groups_go_first() -> None:
    most = 100
    recorded = Recorded(most)
    for number in range(most):
        name = f"g{number}"
        recorded.add(name, rebalance(T0_MS, 1, "m"), (), T0_MS)
    assert most - 2 < sum(map(len, recorded.facts.values())) <= most
    assert "g0" not in recorded.facts
    assert name in recorded.facts


def test_a_storm_is_counted_though_not_all_of_its_facts_are_kept() -> None:
    model = GroupsModel()
    add(model, 0, {"a": ("Stable", 5, 5)})
    for number in range(25):
        facts = [
            fact
            for n in range(12)
            for fact in rebalance(T0_MS + 1000 * (12 * number + n), 12 * number + n + 1, "m")
        ]
        model.add_facts({"a": facts}, T0_MS + 1000 * (12 * number + 12))
    (row,) = model.rows
    assert row["rebalances_1h"] == 200, "as many as are kept"


def test_memory_stays_level_over_hours_of_looks() -> None:
    names = [f"g{number}" for number in range(4)]

    def hours(model: GroupsModel, begin_s: int, count: int) -> int:
        for second in range(begin_s, begin_s + 3600 * count, 15):
            add(model, second, dict.fromkeys(names, ("Stable", second, 3 * second)))
            if second % 60 == 0:
                facts = rebalance(T0_MS + 1000 * second, second, "m")
                model.add_facts({"g3": facts}, T0_MS + 1000 * second)
        return _size(model)

    model = GroupsModel()
    after_one = hours(model, 0, 1)
    assert hours(model, 3600, 2) <= 1.1 * after_one


def _size(root: Any) -> int:
    """Return the bytes of an object and of everything that it alone has."""
    seen: set[int] = set()
    todo, size = [root], 0
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, type):
            continue
        seen.add(id(each))
        size += sys.getsizeof(each)
        if isinstance(each, dict):
            todo += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple | set | frozenset) or hasattr(each, "popleft"):
            todo += list(each)
        todo += [vars(each)] if hasattr(each, "__dict__") else []
    return size


def test_a_member_that_only_joins_is_no_rebalance() -> None:
    fact = MemberJoined(
        at_ms=T0_MS, member_id="m", client_id="m", client_host="/h", state="Stable",
        generation_id=1, member_count=2, session_timeout_ms=1, rebalance_timeout_ms=1,
        protocols=["range"],
    )  # fmt: skip
    model = GroupsModel()
    add(model, 0, {"a": ("Stable", 5, 5)})
    changes, ended = model.add_facts({"a": [fact]}, T0_MS)
    assert ended == []
    assert [row["members"] for row in changes.changed] == [2]
