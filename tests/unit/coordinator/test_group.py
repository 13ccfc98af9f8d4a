"""The group as a value: the table of transitions, counters, votes, replacement of an instance.

Sources are Kafka's own unit tests of the classic group (scenarios S45 to S51 of the conformance
table); what can be seen from outside is told in transcripts.
"""

import itertools

import pytest

from coterie.coordinator.group import TRANSITIONS, Group, GroupState, Member

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


@pytest.mark.parametrize(("before", "after"), list(itertools.product(GroupState, repeat=2)))
def test_every_transition_is_legal_or_not(before: GroupState, after: GroupState) -> None:
    group = Group("g", 0)
    group.state = before
    assert (after in TRANSITIONS[before]) == ((before, after) in LEGAL)
    if (before, after) not in LEGAL:
        with pytest.raises(AssertionError):
            group.transition(after, 1)
        return
    group.transition(after, 1)
    assert (group.state, group.previous_state, group.state_timestamp_ms) == (after, before, 1)


def test_a_protocol_cannot_be_chosen_without_members() -> None:
    with pytest.raises(AssertionError):
        Group("g", 0).select_protocol()


def test_counters_follow_adds_updates_and_removals() -> None:
    group = Group("g", 0)
    assert group.accepts("consumer", ["anything"])
    assert not group.accepts("consumer", [])
    assert not group.accepts("", ["range"])
    group.add(member("a", "range", "sticky"), "consumer")
    group.state = GroupState.PREPARING_REBALANCE
    group.add(member("b", "range"), "consumer")
    assert group.accepts("consumer", ["range", "other"])
    assert not group.accepts("consumer", ["sticky"])
    assert not group.accepts("connect", ["range"])
    group.update(group.members["b"], (("sticky", b""),), 1, 1)
    assert group.accepts("consumer", ["sticky"])
    assert not group.accepts("consumer", ["range"])
    group.remove("b")
    assert group.accepts("consumer", ["range"])
    group.remove("a")
    assert group.supported_protocols == {}


def test_a_protocol_named_twice_counts_once() -> None:
    group = Group("g", 0)
    group.add(member("a", "range", "range"), "consumer")
    group.add(member("b", "sticky"), "consumer")
    group.state = GroupState.PREPARING_REBALANCE
    assert not group.accepts("consumer", ["range"])


def test_the_first_member_leads_and_the_next_first_joined_succeeds() -> None:
    group = Group("g", 0)
    for name in "abc":
        group.add(member(name), "consumer")
    assert group.leader == "a"
    group.remove("a")
    assert group.leader == "b"
    group.remove("c")
    group.remove("b")
    assert group.leader is None


def test_a_leader_that_joined_is_kept_and_an_absent_one_replaced() -> None:
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


def test_replacing_an_instance_keeps_its_place_and_its_lead() -> None:
    group = Group("g", 0)
    group.add(member("i1-1", instance="i1"), "consumer")
    group.add(member("b"), "consumer")
    group.members["i1-1"].assignment = b"what it had"
    replaced = group.replace_static("i1", "i1-1", "i1-2")
    assert list(group.members) == ["i1-2", "b"]
    assert group.static_members == {"i1": "i1-2"}
    assert group.leader == "i1-2"
    assert replaced.assignment == b"what it had"


def test_replacing_an_instance_needs_its_member_and_nothing_parked() -> None:
    group = Group("g", 0)
    with pytest.raises(KeyError):
        group.replace_static("i1", "i1-1", "i1-2")
    group.add(member("i1-1", instance="i1"), "consumer")
    group.delay_join(group.members["i1-1"], "address", 1)
    with pytest.raises(AssertionError):
        group.replace_static("i1", "i1-1", "i1-2")


def test_all_joined_waits_for_members_and_handed_out_ids() -> None:
    group = Group("g", 0)
    group.add(member("a"), "consumer")
    assert not group.all_joined()
    group.delay_join(group.members["a"], "address", 1)
    assert group.all_joined()
    group.pending_joins.add("x")
    assert not group.all_joined()
