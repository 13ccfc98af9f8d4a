"""What the coordinator says happened: every cause makes the right facts, in order, no others."""

from typing import Any

import pytest

from coterie.coordinator.heartbeat import ANSWERS
from coterie.coordinator.subscription_change import LARGEST_METADATA_BYTES
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_subscription,
)
from tests.unit.coordinator.desk import SALES, START_MS
from tests.unit.coordinator.listener import Listener, told


@pytest.fixture
def desk() -> Listener:
    return Listener()


@pytest.fixture
def pair() -> Listener:
    """c1, who leads, and c2, in a Stable generation; nothing heard of it."""
    desk = Listener()
    desk.stable("c1", "c2")
    desk.wait(1_000)
    desk.events.clear()
    return desk


# --- a rebalance from its beginning to its end ----------------------------------------------------


def test_a_first_generation_from_its_beginning_to_its_end() -> None:
    desk = Listener(group_initial_rebalance_delay_ms=3_000)
    desk.join("c1")
    joined, began = desk.heard()
    member_id = desk.group().leader
    assert told(joined, "at_ms", "member_id", "client_id", "client_host", "state") == {
        "at_ms": START_MS,
        "member_id": member_id,
        "client_id": "c1",
        "client_host": "/127.0.0.1",
        "state": "Empty",
    }
    assert told(joined, "generation_id", "member_count", "protocols", "session_timeout_ms") == {
        "generation_id": 0,
        "member_count": 1,
        "protocols": ["range"],
        "session_timeout_ms": 10_000,
    }
    assert told(began, "at_ms", "cause", "previous_state", "generation_id", "member_count") == {
        "at_ms": START_MS,
        "cause": "join",
        "previous_state": "Empty",
        "generation_id": 0,
        "member_count": 1,
    }
    assert told(began, "timeout_ms", "initial_delay_ms", "member_id", "client_id") == {
        "timeout_ms": 60_000,
        "initial_delay_ms": 3_000,
        "member_id": member_id,
        "client_id": "c1",
    }
    desk.wait(3_000)
    (completed,) = desk.heard()
    assert told(completed, "at_ms", "generation_id", "protocol_name", "leader", "ended_by") == {
        "at_ms": START_MS + 3_000,
        "generation_id": 1,
        "protocol_name": "range",
        "leader": member_id,
        "ended_by": "initial delay",
    }
    assert told(completed, "began_ms", "join_ms") == {"began_ms": START_MS, "join_ms": 3_000}
    desk.wait(40)
    desk.sync("c1 syncs", desk.id_of("c1"), 1, {desk.id_of("c1"): b"all of it"})
    assert desk.heard() == [], "nothing is settled before it is durable"
    desk.wait(5)
    desk.store()
    (stable,) = desk.heard()
    assert told(stable, "at_ms", "generation_id", "began_ms", "join_ms", "sync_ms") == {
        "at_ms": START_MS + 3_045,
        "generation_id": 1,
        "began_ms": START_MS,
        "join_ms": 3_000,
        "sync_ms": 45,
    }
    (member,) = stable.members
    assert told(member, "member_id", "joined_after_ms", "subscription", "assignment") == {
        "member_id": member_id,
        "joined_after_ms": 0,
        "subscription": SALES,
        "assignment": b"all of it",
    }


def test_each_member_of_a_generation_says_how_long_it_was_waited_for(pair: Listener) -> None:
    pair.rejoin("c1")
    pair.wait(700)
    pair.rejoin("c2")
    assert pair.names() == ["rebalance_began", "join_completed"]
    pair.sync("c1 syncs again", pair.id_of("c1"), 2, {})
    pair.store()
    (stable,) = pair.heard()
    assert [member.joined_after_ms for member in stable.members] == [0, 700]
    assert stable.join_ms == 700


# --- what begins a rebalance ----------------------------------------------------------------------


def test_a_newcomer(pair: Listener) -> None:
    pair.join("c3", version=8)
    # From version 4 on a first join only gets an id: nothing has happened yet.
    assert pair.heard() == []
    pair.rejoin("c3", reason="x" * 1_000)
    joined, began = pair.heard()
    assert told(began, "cause", "previous_state", "generation_id", "member_count") == {
        "cause": "join",
        "previous_state": "Stable",
        "generation_id": 1,
        "member_count": 3,
    }
    assert began.member_id == joined.member_id == pair.id_of("c3")
    assert began.reason == joined.reason == "x" * 255
    assert began.initial_delay_ms == -1


def test_who_comes_while_a_rebalance_runs_begins_none(pair: Listener) -> None:
    pair.join("c3")
    pair.events.clear()
    pair.join("c4")
    assert pair.names() == ["member_joined"]
    pair.rejoin("c2", protocols=(("range", SALES + b"changed"),))
    assert pair.names() == []


def owning(*partitions: int, topics: tuple[str, ...] = ("sales",), user: bytes = b"") -> bytes:
    return encode_subscription(
        ConsumerProtocolSubscription(
            topics=list(topics),
            user_data=user,
            owned_partitions=[TopicPartition(topic="sales", partitions=list(partitions))],
            generation_id=1,
        )
    )


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        ((("range", owning()),), (("range", owning(topics=("sales", "more"))),), "topics"),
        ((("range", owning(1, 2)),), (("range", owning(2)),), "owned partitions"),
        ((("range", owning(1)),), (("range", owning(1, user=b"x")),), "user data"),
        ((("range", owning(1, 2)),), (("range", owning(2, topics=("t",))),), "topics"),
        ((("range", SALES),), (("range", SALES), ("sticky", SALES)), "protocols"),
        ((("range", SALES),), (("range", b"\xff"),), "opaque"),
        (
            (("range", owning(1)),),
            (("range", owning(1, user=bytes(LARGEST_METADATA_BYTES))),),
            "opaque",
        ),
    ],
)
def test_a_member_that_comes_back_changed(before: Any, now: Any, change: str) -> None:
    desk = Listener()
    desk.join("c1", protocols=before)
    desk.store()
    desk.wait(0)
    desk.sync("c1 syncs", desk.id_of("c1"), 1, {})
    desk.store()
    desk.events.clear()
    desk.rejoin("c1", protocols=now, reason="because")
    began, completed = desk.heard()
    assert told(began, "cause", "subscription_change", "member_id", "reason") == {
        "cause": "rejoin with changed subscription",
        "subscription_change": change,
        "member_id": desk.id_of("c1"),
        "reason": "because",
    }
    assert completed.ended_by == "all joined"


def test_what_other_types_than_consumers_change_can_not_be_told() -> None:
    desk = Listener()
    desk.join("c1", protocols=(("v1", owning(1)),), protocol_type="connect")
    desk.wait(0)
    desk.sync("c1 syncs", desk.id_of("c1"), 1, {})
    desk.store()
    desk.events.clear()
    desk.rejoin("c1", protocols=(("v1", owning(2)),), protocol_type="connect")
    assert desk.heard()[0].subscription_change == "opaque"


def test_a_leader_that_comes_back_unchanged(pair: Listener) -> None:
    pair.rejoin("c1", reason="cached metadata has changed")
    (began,) = pair.heard()
    assert told(began, "cause", "member_id", "reason", "subscription_change") == {
        "cause": "leader rejoin",
        "member_id": pair.id_of("c1"),
        "reason": "cached metadata has changed",
        "subscription_change": None,
    }


def test_a_follower_that_comes_back_unchanged_is_nothing_to_tell(pair: Listener) -> None:
    pair.rejoin("c2")
    assert pair.heard() == []


def test_a_member_that_leaves(pair: Listener) -> None:
    pair.remove((pair.id_of("c1"), None), reason="closed", to="c1 leaves")
    removed, began = pair.heard()
    assert told(removed, "cause", "member_id", "state", "was_leader", "leader", "reason") == {
        "cause": "leave",
        "member_id": pair.id_of("c1"),
        "state": "Stable",
        "was_leader": True,
        "leader": pair.id_of("c2"),
        "reason": "closed",
    }
    assert told(began, "cause", "member_id", "member_count", "reason") == {
        "cause": "leave",
        "member_id": pair.id_of("c1"),
        "member_count": 1,
        "reason": "closed",
    }


def test_several_that_leave_at_once_are_one_rebalance(pair: Listener) -> None:
    pair.remove((pair.id_of("c1"), None), (pair.id_of("c2"), None))
    assert pair.names() == ["member_removed", "member_removed", "rebalance_began", "group_emptied"]


def test_an_administrator_removes_an_instance() -> None:
    desk = Listener()
    desk.stable("c1", "c2", instances={"c2": "i2"})
    desk.events.clear()
    desk.remove(("", "i2"), reason="host gone")
    removed, began = desk.heard()
    assert told(removed, "cause", "group_instance_id", "was_leader", "reason") == {
        "cause": "admin removal",
        "group_instance_id": "i2",
        "was_leader": False,
        "reason": "host gone",
    }
    assert told(began, "cause", "group_instance_id") == {
        "cause": "admin removal",
        "group_instance_id": "i2",
    }


def test_a_session_that_runs_out(pair: Listener) -> None:
    assert pair.heartbeat(pair.id_of("c1"), 1) is ErrorCode.NONE
    assert pair.heartbeat(pair.id_of("c2"), 1) is ErrorCode.NONE
    heard_ms = pair.now_ms
    pair.wait(6_000)
    pair.heartbeat(pair.id_of("c1"), 1)
    pair.wait(4_000)
    removed, began = pair.heard()
    assert told(removed, "cause", "member_id", "last_heard_ms", "at_ms") == {
        "cause": "session expiry",
        "member_id": pair.id_of("c2"),
        "last_heard_ms": heard_ms,
        "at_ms": heard_ms + 10_000,
    }
    assert told(began, "cause", "member_id") == {
        "cause": "session expiry",
        "member_id": pair.id_of("c2"),
    }


def test_members_that_do_not_sync(pair: Listener) -> None:
    pair.rejoin("c1")
    pair.rejoin("c2")
    pair.sync("c1 syncs again", pair.id_of("c1"), 2, {})
    pair.events.clear()
    for _ in range(20):
        pair.wait(3_000)
        pair.heartbeat(pair.id_of("c2"), 2)
    removed, began = pair.heard()
    assert told(removed, "cause", "member_id", "state") == {
        "cause": "sync timeout",
        "member_id": pair.id_of("c2"),
        "state": "CompletingRebalance",
    }
    assert told(began, "cause", "previous_state", "generation_id", "member_id") == {
        "cause": "sync timeout",
        "previous_state": "CompletingRebalance",
        "generation_id": 2,
        "member_id": pair.id_of("c2"),
    }


def test_an_assignment_that_could_not_be_written(pair: Listener) -> None:
    pair.rejoin("c1")
    pair.rejoin("c2")
    pair.sync("c1 syncs again", pair.id_of("c1"), 2, {})
    pair.events.clear()
    pair.lose()
    (began,) = pair.heard()
    assert told(began, "cause", "member_id", "previous_state") == {
        "cause": "append failure",
        "member_id": None,
        "previous_state": "CompletingRebalance",
    }


def test_a_group_that_is_too_large_when_it_is_loaded() -> None:
    desk = Listener()
    desk.stable("c1", "c2")
    desk.config = desk.config._replace(group_max_size=1)
    desk.events.clear()
    desk.restart()
    facts = {event.name: event.fact for event in desk.events}
    assert facts.keys() == {"rebalance_began", "partition_loaded"}
    assert told(facts["rebalance_began"], "cause", "member_id", "member_count") == {
        "cause": "load",
        "member_id": None,
        "member_count": 2,
    }
    assert told(facts["partition_loaded"], "partition", "group_count", "member_count") == {
        "partition": 0,
        "group_count": 1,
        "member_count": 2,
    }


# --- what ends a join phase -----------------------------------------------------------------------


def test_a_straggler_is_removed_when_the_time_is_up(pair: Listener) -> None:
    pair.rejoin("c1")
    pair.events.clear()
    for _ in range(20):
        pair.wait(3_000)
        pair.heartbeat(pair.id_of("c2"), 1)
    removed, completed = pair.heard()
    assert told(removed, "cause", "member_id", "state", "last_heard_ms") == {
        "cause": "rebalance timeout",
        "member_id": pair.id_of("c2"),
        "state": "PreparingRebalance",
        "last_heard_ms": removed.at_ms - 3_000,
    }
    assert told(completed, "ended_by", "join_ms", "member_count") == {
        "ended_by": "rebalance timeout",
        "join_ms": 60_000,
        "member_count": 1,
    }


def test_an_id_that_is_never_used_is_told_when_it_is_forgotten(pair: Listener) -> None:
    pair.join("c3", version=8)
    pair.rejoin("c1")
    pair.rejoin("c2")
    assert pair.names() == ["rebalance_began"]
    pair.wait(10_000)
    expired, completed = pair.heard()
    assert told(expired, "member_id", "state", "generation_id") == {
        "member_id": pair.id_of("c3"),
        "state": "PreparingRebalance",
        "generation_id": 1,
    }
    assert completed.ended_by == "all joined"


def test_a_phase_that_only_static_members_could_end() -> None:
    desk = Listener()
    desk.stable("c1", "c2", instances={"c2": "i2"})
    desk.remove((desk.id_of("c1"), None))
    desk.events.clear()
    for _ in range(20):
        desk.wait(3_000)
        desk.heartbeat(desk.id_of("c2"), 1, "i2")
    (extended,) = desk.heard()
    assert told(extended, "generation_id", "member_count", "wait_ms") == {
        "generation_id": 1,
        "member_count": 1,
        "wait_ms": 60_000,
    }


def test_a_straggler_that_finds_the_group_full() -> None:
    desk = Listener()
    desk.stable("c1", "c2")
    desk.config = desk.config._replace(group_max_size=1)
    desk.restart()
    desk.rejoin("c1")
    desk.events.clear()
    assert desk.rejoin("c2").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    (removed,) = desk.heard()
    assert told(removed, "cause", "member_id") == {
        "cause": "group full",
        "member_id": desk.id_of("c2"),
    }


# --- the end of a group ---------------------------------------------------------------------------


def test_a_group_is_deleted_when_that_is_durable(pair: Listener) -> None:
    from coterie.protocol.messages.delete_groups import DeleteGroupsRequest

    pair.commit("c1 commits", 7, member_id=pair.id_of("c1"), generation_id=1, partitions=(0, 1))
    pair.store()
    pair.remove((pair.id_of("c1"), None), (pair.id_of("c2"), None))
    pair.store()
    pair.events.clear()
    pair.send(DeleteGroupsRequest(groups_names=["g"]), 2, "operator deletes")
    assert pair.heard() == []
    pair.store()
    (deleted,) = pair.heard()
    assert told(deleted, "generation_id", "offset_count") == {"generation_id": 2, "offset_count": 2}


def test_offsets_and_the_group_expire() -> None:
    desk = Listener(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=5_000)
    desk.commit("a tool commits", 41, partitions=(3, 1))
    desk.store()
    desk.wait(5_000)
    desk.store()
    offsets, group = desk.heard()
    assert offsets.offset_count == 2
    (topic,) = offsets.topics
    assert topic.topic == "sales"
    assert {part.partition: part.committed_offset for part in topic.partitions} == {3: 41, 1: 41}
    assert group.generation_id == 0
    assert desk.coordinator.group("g") is None


def test_who_is_given_up_and_why(desk: Listener) -> None:
    desk.stable("c1")
    desk.events.clear()
    desk.take(desk.coordinator.unload(0, None, desk.now_ms))
    (unloaded,) = desk.heard()
    assert told(unloaded, "partition", "group_count", "cause") == {
        "partition": 0,
        "group_count": 1,
        "cause": "closed",
    }
    desk.restart()
    desk.take(desk.coordinator.fail(0, desk.now_ms))
    assert desk.heard()[-1].cause == "failed"


# --- what costs nothing ---------------------------------------------------------------------------


def test_heartbeats_and_commits_make_no_events(pair: Listener) -> None:
    for _ in range(10):
        pair.heartbeat(pair.id_of("c1"), 1)
        pair.heartbeat("nobody", 1)
        pair.heartbeat(pair.id_of("c2"), 1, "no instance")
    pair.commit("c1 commits", 7, member_id=pair.id_of("c1"), generation_id=1)
    pair.store()
    assert pair.heard() == []
    assert not any(effects.events for effects in ANSWERS.values())
