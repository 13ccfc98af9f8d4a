"""How tasks go from one member to another.

[streams-groups/reconciliation]
"""

from typing import Any

import pytest

from coterie.coordinator.groups.streams.states import MemberState
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
)
from tests.unit.coordinator.streams.harness import (
    STATEFUL,
    StreamsHarness,
    subtopology,
    tasks,
    told,
    topology,
)


def test_second_member_gets_a_task_when_the_first_has_given_it_up() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0)
    joined = harness.stream("m2", 0)
    assert (joined.member_epoch, told(joined)) == (3, {})
    asked = harness.stream("m1", 2)
    assert (asked.member_epoch, told(asked)) == (2, {"active": ["0_0"]})
    assert told(harness.stream("m2", 3)) is None
    harness.record_types()
    # It says nothing, or that it still has the task.
    assert told(harness.stream("m1", 2)) is None
    assert told(harness.stream("m1", 2, tasks(0, 1))) is None
    assert harness.record_types() == []
    confirmed = harness.stream("m1", 2, tasks(0))
    assert (confirmed.member_epoch, told(confirmed)) == (3, None)
    taken = harness.stream("m2", 3)
    assert (taken.member_epoch, told(taken)) == (3, {"active": ["0_1"]})
    assert harness.streams_group.state_name == "Stable"
    assert harness.in_memory() == harness.in_the_log()


def test_member_that_has_nothing_any_more_goes_on_at_once() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0)
    harness.stream("m2", 0)
    answer = harness.stream("m1", 2, tasks(0))
    assert (answer.member_epoch, told(answer)) == (3, {"active": ["0_0"]})


def test_member_that_confirms_after_several_targets_is_one_epoch_further_at_least() -> None:
    harness = StreamsHarness({"in": 4})
    harness.stream("m1", 0)
    harness.stream("m2", 0)
    harness.stream("m1", 2)
    for each in ("m3", "m4"):
        harness.stream(each, 0)
    # Two more are to be given up: it is asked for them at the next epoch.
    answer = harness.stream("m1", 2, tasks(0, 1))
    member = harness.streams_group.members["m1"]
    assert (answer.member_epoch, member.previous_epoch) == (3, 2)
    assert (member.state, told(answer)) == (MemberState.UNREVOKED_TASKS, {"active": ["0_0"]})
    assert harness.stream("m1", 3, tasks(0)).member_epoch == 5


def test_member_that_never_confirms_is_removed_at_its_rebalance_timeout() -> None:
    """[streams-groups/timers]"""
    harness = StreamsHarness()
    harness.stream("m1", 0, rebalance_timeout_ms=20_000)
    harness.stream("m2", 0)
    harness.stream("m1", 2)
    harness.wait(10_000)
    harness.stream("m1", 2)
    harness.stream("m2", 3)
    harness.wait(9_999)
    assert "m1" in harness.streams_group.members
    harness.wait(1)
    assert harness.stream("m1", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert told(harness.stream("m2", 3)) == {"active": ["0_0", "0_1"]}


def test_member_that_confirms_in_time_stays() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0, rebalance_timeout_ms=20_000)
    harness.stream("m2", 0)
    harness.stream("m1", 2)
    harness.stream("m1", 2, tasks(0))
    harness.wait(30_000)
    assert "m1" in harness.streams_group.members


def test_standby_is_on_another_process_than_the_active_task() -> None:
    harness = StreamsHarness({"in": 2, "store": 2}, standbys=1)
    for member_id, process in (("m1", "pa"), ("m2", "pa"), ("m3", "pb")):
        harness.stream(member_id, 0, topology=STATEFUL, process_id=process)
    harness.calm("m1", "m2", "m3")
    group = harness.streams_group
    held: dict[str, set[tuple[str, int]]] = {}
    for member in group.members.values():
        roles = member.assigned.without_epochs()
        for role in roles:
            for subtopology_id, indexes in role.items():
                for index in indexes:
                    task = subtopology_id, index
                    assert task not in held.setdefault(member.process_id, set())
                    held[member.process_id].add(task)
    assert held["pa"] == held["pb"] == {("0", 0), ("0", 1)}


def test_one_process_has_no_standby() -> None:
    harness = StreamsHarness({"in": 2, "store": 2}, standbys=1)
    for member_id in ("m1", "m2"):
        harness.stream(member_id, 0, topology=STATEFUL, process_id="p")
    harness.calm("m1", "m2")
    assert not any(each.assigned.standby for each in harness.streams_group.members.values())


def test_active_task_waits_for_the_standby_of_its_process() -> None:
    """m1 has the standby of a task that is to become the active one of m3, of the same process."""
    harness = StreamsHarness({"in": 1, "store": 1})
    harness.load(
        *harness.written_group(
            members={"m1": "p", "m3": "p"},
            current={"m1": ({}, {"0": [0]})},
            target={"m1": ({}, {}), "m3": ({"0": [0]}, {})},
        )
    )
    waiting = harness.stream("m3", 2)
    assert (waiting.member_epoch, told(waiting)) == (3, None)
    assert harness.streams_group.members["m3"].state is MemberState.UNRELEASED_TASKS
    asked = harness.stream("m1", 2)
    assert (asked.member_epoch, told(asked)) == (2, {})
    harness.stream("m1", 2, [])
    assert told(harness.stream("m3", 3)) == {"active": ["0_0"]}


def test_standby_waits_for_the_active_task_of_its_process() -> None:
    harness = StreamsHarness({"in": 1, "store": 1})
    harness.load(
        *harness.written_group(
            members={"m1": "p", "m2": "q", "m3": "p"},
            current={"m1": ({"0": [0]}, {})},
            target={"m1": ({}, {}), "m2": ({"0": [0]}, {}), "m3": ({}, {"0": [0]})},
        )
    )
    for each in ("m2", "m3"):
        assert told(harness.stream(each, 2)) is None
        assert harness.streams_group.members[each].state is MemberState.UNRELEASED_TASKS
    harness.stream("m1", 2)
    harness.stream("m1", 2, [])
    assert told(harness.stream("m3", 3)) == {"standby": ["0_0"]}
    assert told(harness.stream("m2", 3)) == {"active": ["0_0"]}


@pytest.mark.parametrize(("process", "wanted"), [("r", {"standby": ["0_0"]}), ("p", {})])
def test_held_tasks_count_for_the_process_before(process: str, wanted: dict[str, Any]) -> None:
    """A member that names another process in a join holds nothing of that process yet."""
    harness = StreamsHarness({"in": 1, "store": 1}, standbys=1)
    harness.load(
        *harness.written_group(
            members={"m1": "p", "m2": "q"},
            current={"m1": ({"0": [0]}, {})},
            target={"m1": ({}, {"0": [0]}), "m2": ({"0": [0]}, {})},
        )
    )
    assert told(harness.stream("m1", 2)) == {}
    joined = harness.stream("m1", 0, [], topology=STATEFUL, process_id=process)
    assert told(joined) == wanted


def test_member_in_an_unknown_state_has_to_begin_without_tasks() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0)
    key = StreamsGroupCurrentMemberAssignmentKey(group_id="g", member_id="m1")
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=2, previous_member_epoch=1, state=9, active_tasks=[], standby_tasks=[],
        warmup_tasks=[], active_tasks_pending_revocation=[], standby_tasks_pending_revocation=[],
        warmup_tasks_pending_revocation=[],
    )  # fmt: skip
    harness.streams_group.apply(key, value)
    refused = harness.stream("m1", 2)
    assert refused.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert "unknown state" in refused.error_message
    assert told(harness.stream("m1", 0)) == {"active": ["0_0", "0_1"]}


def test_two_subtopologies_are_shared() -> None:
    harness = StreamsHarness({"in": 2, "other": 1})
    both = topology(subtopology("0", "in"), subtopology("1", "other"))
    for member_id in ("m1", "m2"):
        harness.stream(member_id, 0, topology=both)
    harness.calm("m1", "m2")
    members = harness.streams_group.members.values()
    found = sorted(
        (name, index)
        for each in members
        for name, indexes in each.assigned.active.items()
        for index in indexes
    )
    assert found == [("0", 0), ("0", 1), ("1", 0)]
    assert sorted(sum(map(len, each.assigned.active.values())) for each in members) == [1, 2]
    assert not harness.streams_group.holders.is_empty
    for member_id in ("m1", "m2"):
        harness.stream(member_id, -1)
    assert harness.streams_group.holders.is_empty


def test_journal_notes_the_steps_and_that_all_have_their_target() -> None:
    """[journal/consumer-groups]"""
    harness = StreamsHarness()
    harness.stream("m1", 0)
    harness.stream("m2", 0)
    harness.events.clear()
    harness.wait(500)
    harness.stream("m1", 2)
    harness.stream("m1", 2, tasks(0))
    harness.stream("m2", 3)
    names = [each.name for each in harness.events]
    assert names == ["member_reconciled"] * 3 + ["group_converged"]
    steps: list[Any] = [each.fact for each in harness.events]
    assert [(each.previous_state, each.state) for each in steps[:3]] == [
        ("STABLE", "UNREVOKED_TASKS"),
        ("UNREVOKED_TASKS", "STABLE"),
        ("UNRELEASED_TASKS", "STABLE"),
    ]
    assert [(each.added, each.revoked) for each in steps[:3]] == [(0, 1), (0, 0), (1, 0)]
    assert (steps[3].epoch, steps[3].member_count, steps[3].converged_ms) == (3, 2, 500)


def test_people_are_told_what_a_group_waits_for() -> None:
    harness = StreamsHarness(delay_ms=3_000)
    harness.stream("m1", 0)
    group = harness.streams_group
    assert group.waits_for(harness.now_ms) == "more members (3.0 s of the initial rebalance delay)"
    harness.wait(3_000)
    assert group.waits_for(harness.now_ms) == "a heartbeat of beat m1"
    harness.stream("m1", 1)
    assert group.waits_for(harness.now_ms) is None
    harness.stream("m2", 0)
    harness.wait(1_000)
    harness.stream("m1", 2)
    assert group.waits_for(harness.now_ms) == "beat m1 to give up 1 tasks (0.0 s)"
    harness.delete_topic("in")
    harness.stream("m1", 2)
    assert group.waits_for(harness.now_ms) == "its topics: Source topics in are missing."
