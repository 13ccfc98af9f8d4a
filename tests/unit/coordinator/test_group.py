"""The group as a data structure: transitions, counters, votes, replacement of static members.

The cases are those of Kafka's own unit tests of the classic group (scenarios S45 to S51 of
scenarios.tsv). What clients can observe is shown by transcripts.
"""

import itertools
import re
from pathlib import Path

import pytest

import coterie.conformance
import coterie.coordinator.groups.classic.states
from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.classic.member import Member
from coterie.coordinator.groups.classic.states import TRANSITIONS, GroupState

TRANSCRIPTS = Path(coterie.conformance.__file__).parent

LEGAL = {
    (GroupState.EMPTY, GroupState.PREPARING_REBALANCE),
    (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE),
    (GroupState.PREPARING_REBALANCE, GroupState.EMPTY),
    (GroupState.COMPLETING_REBALANCE, GroupState.STABLE),
    (GroupState.COMPLETING_REBALANCE, GroupState.PREPARING_REBALANCE),
    (GroupState.STABLE, GroupState.PREPARING_REBALANCE),
    *((state, GroupState.DEAD) for state in GroupState),
}


def member(member_id: str, *names: str, instance: str | None = None) -> Member:
    protocols = tuple((name, b"") for name in names or ("range",))
    return Member(member_id, instance, "c", "/127.0.0.1", 60_000, 10_000, protocols)


def group_in(state: GroupState) -> Group:
    """Return a group in a state, with what its present and next state need."""
    group = Group("g", 0)
    if state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        group.add(member("a"), "consumer")
    group.assigned_generation = group.generation_id
    group.state = state
    return group


@pytest.mark.parametrize(("before", "after"), list(itertools.product(GroupState, repeat=2)))
def test_only_the_transitions_of_the_table_are_legal(before: GroupState, after: GroupState) -> None:
    """[joining/states]"""
    group = group_in(before)
    if after is GroupState.COMPLETING_REBALANCE and not group.members:
        group.add(member("a"), "consumer")
    assert (after in TRANSITIONS[before]) == ((before, after) in LEGAL)
    if (before, after) not in LEGAL:
        with pytest.raises(AssertionError):
            group.transition(after, 1)
        return
    group.transition(after, 1)
    assert (group.state, group.previous_state, group.state_timestamp_ms) == (after, before, 1)


def test_empty_group_has_no_members() -> None:
    group = group_in(GroupState.PREPARING_REBALANCE)
    group.add(member("a"), "consumer")
    with pytest.raises(AssertionError, match="has members"):
        group.transition(GroupState.EMPTY, 1)


def test_generation_without_leader_is_refused() -> None:
    with pytest.raises(AssertionError, match="has no leader"):
        group_in(GroupState.PREPARING_REBALANCE).transition(GroupState.COMPLETING_REBALANCE, 1)


def test_group_without_assignment_does_not_become_stable() -> None:
    group = group_in(GroupState.COMPLETING_REBALANCE)
    group.generation_id += 1
    with pytest.raises(AssertionError, match="has no assignment"):
        group.transition(GroupState.STABLE, 1)


def test_group_without_members_has_no_protocol() -> None:
    with pytest.raises(AssertionError):
        Group("g", 0).select_protocol()


def test_protocol_named_twice_counts_once() -> None:
    group = Group("g", 0)
    group.add(member("a", "range", "range"), "consumer")
    group.add(member("b", "sticky"), "consumer")
    group.state = GroupState.PREPARING_REBALANCE
    assert not group.accepts("consumer", ["range"])


def test_absent_leader_is_replaced_by_a_member_that_joined() -> None:
    group = Group("g", 0)
    for name in "abc":
        group.add(member(name), "consumer")
    assert not group.elect_joined_leader()
    assert group.leader == "a"
    group.delay_join(group.members["c"], "address", 1)
    assert group.elect_joined_leader()
    assert group.leader == "c"
    group.delay_join(group.members["a"], "address", 1)
    assert group.elect_joined_leader()
    assert group.leader == "c"


def test_replaced_static_member_keeps_place_leadership_and_assignment() -> None:
    group = Group("g", 0)
    group.add(member("i1-1", instance="i1"), "consumer")
    group.add(member("b"), "consumer")
    group.members["i1-1"].assignment = b"assigned"
    replaced = group.replace_static("i1", "i1-1", "i1-2")
    assert list(group.members) == ["i1-2", "b"]
    assert group.static_members == {"i1": "i1-2"}
    assert group.leader == "i1-2"
    assert replaced.assignment == b"assigned"


def test_replacement_needs_the_member_and_no_delayed_request() -> None:
    group = Group("g", 0)
    with pytest.raises(KeyError):
        group.replace_static("i1", "i1-1", "i1-2")
    group.add(member("i1-1", instance="i1"), "consumer")
    group.delay_join(group.members["i1-1"], "address", 1)
    with pytest.raises(AssertionError):
        group.replace_static("i1", "i1-1", "i1-2")


def test_transcripts_in_the_description_of_the_states_exist() -> None:
    description = coterie.coordinator.groups.classic.states.__doc__ or ""
    names = re.findall(r"\b[a-z_]+/[a-z0-9_]+(?=[),])", description)
    assert len(names) > 15
    assert [name for name in names if not (TRANSCRIPTS / f"{name}.txt").exists()] == []
