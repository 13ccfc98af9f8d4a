"""What a rebalancing group waits for, from descriptions and facts."""

from typing import Any

import pytest

from coterie.address import Address
from coterie.client.group_description import (
    DescribedMember,
    DescribedSubtopology,
    DescribedTopology,
    GroupDescription,
)
from coterie.client.nodes import Node
from coterie.client.waiting import Phase, Wait, phase_of
from coterie.protocol.messages import consumer_group_facts as epochs
from coterie.protocol.messages import journal_records as facts

T_MS = 1_000_000
POLL_MS = 300_000


def member(name: str, **more: Any) -> DescribedMember:
    """A member whose ids and client have one name."""
    return DescribedMember(name, None, name, "/127.0.0.1", {}, **more)


def group(state: str, *members: DescribedMember, **more: Any) -> GroupDescription:
    """A group with members."""
    node = Node(1, Address("127.0.0.1", 9092))
    group_type, protocol_type = "consumer" if "group_epoch" in more else "classic", "consumer"
    return GroupDescription(
        "g", True, group_type, state, protocol_type, "range", node, list(members), **more
    )


def joined(name: str, at_ms: int) -> facts.MemberJoined:
    """A member joined."""
    return facts.MemberJoined(
        at_ms=at_ms, member_id=name, client_id=name, client_host="/127.0.0.1", state="Stable",
        generation_id=1, member_count=3, session_timeout_ms=45_000, rebalance_timeout_ms=POLL_MS,
        protocols=["range"],
    )  # fmt: skip


def began(at_ms: int, cause: str = "join", **more: Any) -> facts.RebalanceBegan:
    """A rebalance began."""
    return facts.RebalanceBegan(
        at_ms=at_ms, cause=cause, previous_state="Stable", generation_id=1, member_count=3,
        timeout_ms=POLL_MS, **more,
    )  # fmt: skip


def waits(phase: Phase) -> list[Wait]:
    """Return what is waited for, which is known."""
    assert phase.waits_for is not None
    return phase.waits_for


def test_the_only_one_that_has_not_joined_is_certain() -> None:
    found = phase_of(
        group("PreparingRebalance", member("a"), member("b")),
        [joined("b", T_MS), began(T_MS, member_id="b")],
    )
    assert (found.name, found.since_ms, found.joined) == ("PreparingRebalance", T_MS, ["b"])
    (wait,) = waits(found)
    assert (wait.member_id, wait.what, wait.until_ms, wait.is_certain) == (
        "a", "JoinGroup", T_MS + POLL_MS, True,
    )  # fmt: skip


def test_one_of_several_is_not_certain() -> None:
    """The journal has no fact for a member that rejoins."""
    found = phase_of(
        group("PreparingRebalance", member("a"), member("b"), member("c")),
        [joined("c", T_MS), began(T_MS, member_id="c")],
    )
    assert found.joined == ["c"]
    assert [(each.member_id, each.is_certain) for each in waits(found)] == [
        ("a", False), ("b", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cause", "known"),
    [("leader rejoin", ["a"]), ("rejoin with changed subscription", ["a"]), ("leave", [])],
)
def test_who_began_by_joining_has_joined(cause: str, known: list[str]) -> None:
    found = phase_of(
        group("PreparingRebalance", member("a"), member("b")),
        [began(T_MS, cause, member_id="a")],
    )
    assert found.joined == known


def test_an_extended_phase_ends_later() -> None:
    extended = facts.JoinPhaseExtended(
        at_ms=T_MS + POLL_MS, generation_id=1, member_count=1, wait_ms=5_000
    )
    history: list[facts.Fact] = [began(T_MS, "leave"), extended]
    found = phase_of(group("PreparingRebalance", member("a")), history)
    assert [each.until_ms for each in waits(found)] == [T_MS + POLL_MS + 5_000]


def test_an_empty_group_waits_for_more_members() -> None:
    delayed = began(T_MS, member_id="a", initial_delay_ms=3_000)
    found = phase_of(group("PreparingRebalance", member("a")), [joined("a", T_MS), delayed])
    (wait,) = waits(found)
    assert (wait.member, wait.what, wait.until_ms) == (None, "more members", T_MS + 3_000)
    # A member that joins meanwhile extends the delay, at most to the timeout.
    more: list[facts.Fact] = [joined("a", T_MS), delayed, joined("b", T_MS + 1)]
    found = phase_of(group("PreparingRebalance", member("a"), member("b")), more)
    assert [each.until_ms for each in waits(found)] == [T_MS + POLL_MS]


def test_a_member_with_an_id_that_has_not_joined_is_waited_for() -> None:
    found = phase_of(
        group("PreparingRebalance", member("b")), [joined("b", T_MS), began(T_MS, member_id="b")]
    )
    (wait,) = waits(found)
    assert (wait.member, wait.what) == (None, "JoinGroup")
    assert "has not joined with it yet" in wait.why


def test_then_the_leader_is_waited_for() -> None:
    completed = facts.JoinCompleted(
        at_ms=T_MS + 5, generation_id=2, protocol_type="consumer", protocol_name="range",
        leader="a", member_count=2, began_ms=T_MS, join_ms=5, ended_by="all joined",
    )  # fmt: skip
    history: list[facts.Fact]
    history = [joined("a", T_MS), joined("b", T_MS), began(T_MS), completed]
    found = phase_of(group("CompletingRebalance", member("a"), member("b")), history)
    assert (found.since_ms, found.joined) == (T_MS + 5, ["a", "b"])
    (wait,) = waits(found)
    assert (wait.member_id, wait.what, wait.until_ms) == ("a", "SyncGroup", T_MS + 5 + POLL_MS)


def test_nothing_is_said_that_is_not_recorded() -> None:
    rebalancing = group("PreparingRebalance", member("a"))
    assert phase_of(rebalancing, None) == Phase("PreparingRebalance", None, None, None)
    # The journal is written a moment later: its last state is another one.
    ended = facts.GroupEmptied(at_ms=T_MS, generation_id=1, began_ms=T_MS, join_ms=0)
    assert phase_of(rebalancing, [began(T_MS - 5), ended]).waits_for is None
    assert phase_of(group("Stable", member("a")), []) == Phase("Stable", None, None, [])


def test_members_of_a_consumer_group_wait_for_partitions() -> None:
    owner = member("a", member_epoch=6)._replace(
        assignment={"t": [0, 1]}, target_assignment={"t": [0]}
    )
    other = member("b", member_epoch=7, target_assignment={"t": [1]})
    late = member("c", member_epoch=6, target_assignment={})
    seen = group("Reconciling", owner, other, late, group_epoch=7, assignment_epoch=7)
    target = epochs.TargetComputed(
        at_ms=T_MS, epoch=7, assignor="uniform", member_count=3, changed_members=2,
        moved_partitions=1,
    )  # fmt: skip
    asked = epochs.MemberReconciled(
        at_ms=T_MS + 9, member_id="a", client_id="a", epoch=6, previous_epoch=6,
        state="UNREVOKED_PARTITIONS", previous_state="STABLE", added=0, revoked=1,
    )  # fmt: skip
    found = phase_of(seen, [joined("a", T_MS), target, asked])
    assert (found.since_ms, found.joined) == (T_MS, ["b"])
    first, second = waits(found)
    assert (first.member_id, first.what, first.until_ms) == ("a", "revocation", T_MS + 9 + POLL_MS)
    assert "give up t-1 by epoch 7, for b" in first.why
    assert (second.member_id, second.what) == ("c", "ConsumerGroupHeartbeat")
    assert "at epoch 6" in second.why
    # The owner has given it up: the other takes it with its next heartbeat.
    free = owner._replace(assignment={"t": [0]}, member_epoch=7)
    seen = seen._replace(members=[free, other])
    (wait,) = waits(phase_of(seen, []))
    assert (wait.member_id, wait.what) == ("b", "ConsumerGroupHeartbeat")
    assert "t-1" in wait.why


def test_no_task_is_called_free_while_a_member_is_behind() -> None:
    """[client/streams-groups]: what it has yet to give up is not described."""
    owner = member("a", member_epoch=6, target_assignment={"t": [0]})._replace(
        assignment={"t": [0]}
    )
    other = member("b", member_epoch=7, target_assignment={"t": [1]})
    seen = group("Reconciling", owner, other, group_epoch=7, assignment_epoch=7)
    seen = seen._replace(type="streams")
    (wait,) = waits(phase_of(seen, []))
    assert (wait.member_id, wait.what) == ("a", "StreamsGroupHeartbeat")
    seen = seen._replace(members=[owner._replace(member_epoch=7), other])
    (wait,) = waits(phase_of(seen, []))
    assert (wait.member_id, wait.what) == ("b", "StreamsGroupHeartbeat")


def test_a_target_that_is_due_waits_for_any_heartbeat() -> None:
    seen = group("Assigning", member("a"), group_epoch=8, assignment_epoch=7)
    (wait,) = waits(phase_of(seen, None))
    assert (wait.member, wait.what) == (None, "ConsumerGroupHeartbeat")
    assert "epoch 8" in wait.why


def test_what_members_are_owed_says_who_has_joined() -> None:
    """The broker itself knows which JoinGroups wait for their answers."""
    owed = {"a": None, "b": "JoinGroup", "c": "JoinGroup"}
    found = phase_of(
        group("PreparingRebalance", member("a"), member("b"), member("c")),
        [joined("c", T_MS), began(T_MS, member_id="c")],
        owed,
    )
    assert found.joined == ["b", "c"]
    assert [(each.member_id, each.until_ms, each.is_certain) for each in waits(found)] == [
        ("a", T_MS + POLL_MS, True),
    ]
    # The first facts of a journal come after the first looks.
    unrecorded = phase_of(group("PreparingRebalance", member("a"), member("b")), None, owed)
    assert unrecorded.joined == ["b"]
    assert [(each.member_id, each.until_ms) for each in waits(unrecorded)] == [("a", None)]


def test_what_members_are_owed_says_who_has_synced() -> None:
    found = phase_of(
        group("CompletingRebalance", member("a"), member("b")),
        [
            joined("b", T_MS),
            began(T_MS),
            facts.JoinCompleted(
                at_ms=T_MS + 1, generation_id=2, protocol_type="consumer", protocol_name="range",
                leader="a", member_count=2, began_ms=T_MS, join_ms=1, ended_by="all joined",
            ),
        ],
        {"a": None, "b": "SyncGroup"},
    )  # fmt: skip
    assert (found.joined, found.synced) == (["a", "b"], ["b"])
    assert [(each.member_id, each.what) for each in waits(found)] == [("a", "SyncGroup")]


def test_a_streams_group_that_is_not_ready_waits_for_its_topics() -> None:
    part = DescribedSubtopology("0", {"here": 3, "missing": None}, {}, [], {})
    described = group(
        "NotReady", member("a", member_epoch=1), group_epoch=2, assignment_epoch=2
    )._replace(type="streams", topology=DescribedTopology(0, [part]))
    assert [each[2:5] for each in waits(phase_of(described, None))] == [
        ("its topics", None, "the partitions of missing are not known"),
    ]
