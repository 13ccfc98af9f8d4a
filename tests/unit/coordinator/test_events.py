"""Events of the coordinator: every cause makes the right facts, in order, and no others.

Rules: [journal/rebalance-began], [journal/members], [sessions/reasons].
"""

from typing import Any

import pytest

from coterie.coordinator.groups.classic.heartbeat import RESPONSES
from coterie.coordinator.groups.classic.subscription_change import LARGEST_METADATA_BYTES
from coterie.coordinator.kernel.append import MAX_BATCH_BYTES
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_subscription,
)
from tests.unit.coordinator.harness import SALES, START_MS, EventHarness, assert_fields


@pytest.fixture
def harness() -> EventHarness:
    return EventHarness()


@pytest.fixture
def pair() -> EventHarness:
    """Return a Stable group of c1, which leads, and c2, with its events taken."""
    harness = EventHarness()
    harness.stable("c1", "c2")
    harness.wait(1_000)
    harness.events.clear()
    return harness


def test_arrival_has_the_software_of_the_client() -> None:
    """[journal/members]"""
    harness = EventHarness()
    harness.join("old")
    assert_fields(harness.take_facts()[0], client_software_name=None, client_software_version=None)
    harness.client = harness.client._replace(software_name="librdkafka", software_version="2.5.0")
    harness.join("new")
    assert_fields(
        harness.take_facts()[0], client_software_name="librdkafka", client_software_version="2.5.0"
    )


def test_arrival_has_the_principal_of_a_login() -> None:
    """[journal/members]"""
    harness = EventHarness()
    harness.join("anonymous")
    assert_fields(harness.take_facts()[0], principal=None)
    harness.client = harness.client._replace(principal="User:alice")
    harness.join("known")
    assert_fields(harness.take_facts()[0], principal="User:alice")


# --- a rebalance from start to end ----------------------------------------------------------------


def test_first_generation_makes_these_facts() -> None:
    """[journal/phases] [journal/format]"""
    harness = EventHarness(group_initial_rebalance_delay_ms=3_000)
    harness.join("c1")
    joined, began = harness.take_facts()
    member_id = harness.group().leader
    assert_fields(
        joined,
        at_ms=START_MS,
        member_id=member_id,
        client_id="c1",
        client_host="/127.0.0.1",
        state="Empty",
    )
    assert_fields(
        joined,
        generation_id=0,
        member_count=1,
        protocols=["range"],
        session_timeout_ms=10_000,
    )
    assert_fields(
        began,
        at_ms=START_MS,
        cause="join",
        previous_state="Empty",
        generation_id=0,
        member_count=1,
    )
    assert_fields(
        began, timeout_ms=60_000, initial_delay_ms=3_000, member_id=member_id, client_id="c1"
    )
    harness.wait(3_000)
    (completed,) = harness.take_facts()
    assert_fields(
        completed,
        at_ms=START_MS + 3_000,
        generation_id=1,
        protocol_name="range",
        leader=member_id,
        ended_by="initial delay",
    )
    assert_fields(completed, began_ms=START_MS, join_ms=3_000)
    harness.wait(40)
    harness.sync("c1 syncs", harness.id_of("c1"), 1, {harness.id_of("c1"): b"assigned"})
    assert harness.take_facts() == [], "the generation is completed when it is durable"
    harness.wait(5)
    harness.store()
    (stable,) = harness.take_facts()
    assert_fields(
        stable,
        at_ms=START_MS + 3_045,
        generation_id=1,
        began_ms=START_MS,
        join_ms=3_000,
        sync_ms=45,
    )
    (member,) = stable.members
    assert_fields(
        member, member_id=member_id, joined_after_ms=0, subscription=SALES, assignment=b"assigned"
    )


def test_generation_says_when_each_member_rejoined(pair: EventHarness) -> None:
    pair.rejoin("c1")
    pair.wait(700)
    pair.rejoin("c2")
    assert pair.take_fact_names() == ["rebalance_began", "join_completed"]
    pair.sync("c1 syncs again", pair.id_of("c1"), 2, {})
    pair.store()
    (stable,) = pair.take_facts()
    assert [member.joined_after_ms for member in stable.members] == [0, 700]
    assert stable.join_ms == 700


# --- what starts a rebalance ----------------------------------------------------------------------


def test_new_member_starts_a_rebalance(pair: EventHarness) -> None:
    pair.join("c3", version=8)
    # From version 4 on a first join only receives an id; that is no fact.
    assert pair.take_facts() == []
    pair.rejoin("c3", reason="x" * 1_000)
    joined, began = pair.take_facts()
    assert_fields(began, cause="join", previous_state="Stable", generation_id=1, member_count=3)
    assert began.member_id == joined.member_id == pair.id_of("c3")
    assert began.reason == joined.reason == "x" * 255
    assert began.initial_delay_ms == -1


def test_members_that_join_during_a_rebalance_start_no_second_one(pair: EventHarness) -> None:
    pair.join("c3")
    pair.events.clear()
    pair.join("c4")
    assert pair.take_fact_names() == ["member_joined"]
    pair.rejoin("c2", protocols=(("range", SALES + b"changed"),))
    assert pair.take_fact_names() == []


def owning(*partitions: int, topics: tuple[str, ...] = ("sales",), user: bytes = b"") -> bytes:
    """Return the subscription of a consumer that owns these partitions."""
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
def test_rejoin_says_what_changed(before: Any, now: Any, change: str) -> None:
    """[journal/rebalance-began]"""
    harness = EventHarness()
    harness.join("c1", protocols=before)
    harness.store()
    harness.wait(0)
    harness.sync("c1 syncs", harness.id_of("c1"), 1, {})
    harness.store()
    harness.events.clear()
    harness.rejoin("c1", protocols=now, reason="because")
    began, completed = harness.take_facts()
    assert_fields(
        began,
        cause="rejoin with changed subscription",
        subscription_change=change,
        member_id=harness.id_of("c1"),
        reason="because",
    )
    assert completed.ended_by == "all joined"


def test_changes_of_other_protocol_types_are_opaque() -> None:
    harness = EventHarness()
    harness.join("c1", protocols=(("v1", owning(1)),), protocol_type="connect")
    harness.wait(0)
    harness.sync("c1 syncs", harness.id_of("c1"), 1, {})
    harness.store()
    harness.events.clear()
    harness.rejoin("c1", protocols=(("v1", owning(2)),), protocol_type="connect")
    assert harness.take_facts()[0].subscription_change == "opaque"


def test_leader_that_rejoins_unchanged_starts_a_rebalance(pair: EventHarness) -> None:
    pair.rejoin("c1", reason="cached metadata has changed")
    (began,) = pair.take_facts()
    assert_fields(
        began,
        cause="leader rejoin",
        member_id=pair.id_of("c1"),
        reason="cached metadata has changed",
        subscription_change=None,
    )


def test_follower_that_rejoins_unchanged_makes_no_fact(pair: EventHarness) -> None:
    pair.rejoin("c2")
    assert pair.take_facts() == []


def test_member_that_leaves_starts_a_rebalance(pair: EventHarness) -> None:
    pair.remove((pair.id_of("c1"), None), reason="closed", to="c1 leaves")
    removed, began = pair.take_facts()
    assert_fields(
        removed,
        cause="leave",
        member_id=pair.id_of("c1"),
        state="Stable",
        was_leader=True,
        leader=pair.id_of("c2"),
        reason="closed",
    )
    assert_fields(began, cause="leave", member_id=pair.id_of("c1"), member_count=1, reason="closed")


def test_members_that_leave_together_start_one_rebalance(pair: EventHarness) -> None:
    pair.remove((pair.id_of("c1"), None), (pair.id_of("c2"), None))
    assert pair.take_fact_names() == [
        "member_removed",
        "member_removed",
        "rebalance_began",
        "group_emptied",
    ]


def test_administrator_removes_a_static_member() -> None:
    harness = EventHarness()
    harness.stable("c1", "c2", instances={"c2": "i2"})
    harness.events.clear()
    harness.client = harness.client._replace(principal="User:admin")
    harness.remove(("", "i2"), reason="decommissioned")
    removed, began = harness.take_facts()
    assert_fields(
        removed,
        cause="admin removal",
        group_instance_id="i2",
        was_leader=False,
        reason="decommissioned",
        requester_principal="User:admin",
    )
    assert_fields(
        began,
        cause="admin removal",
        group_instance_id="i2",
        requester_principal="User:admin",
    )


def test_expired_session_starts_a_rebalance(pair: EventHarness) -> None:
    assert pair.heartbeat(pair.id_of("c1"), 1) is ErrorCode.NONE
    assert pair.heartbeat(pair.id_of("c2"), 1) is ErrorCode.NONE
    heard_ms = pair.now_ms
    pair.wait(6_000)
    pair.heartbeat(pair.id_of("c1"), 1)
    pair.wait(4_000)
    removed, began = pair.take_facts()
    assert_fields(
        removed,
        cause="session expiry",
        member_id=pair.id_of("c2"),
        last_heard_ms=heard_ms,
        at_ms=heard_ms + 10_000,
    )
    assert_fields(began, cause="session expiry", member_id=pair.id_of("c2"))


def test_members_that_do_not_sync_are_removed(pair: EventHarness) -> None:
    pair.rejoin("c1")
    pair.rejoin("c2")
    pair.sync("c1 syncs again", pair.id_of("c1"), 2, {})
    pair.events.clear()
    for _ in range(20):
        pair.wait(3_000)
        pair.heartbeat(pair.id_of("c2"), 2)
    removed, began = pair.take_facts()
    assert_fields(
        removed, cause="sync timeout", member_id=pair.id_of("c2"), state="CompletingRebalance"
    )
    assert_fields(
        began,
        cause="sync timeout",
        previous_state="CompletingRebalance",
        generation_id=2,
        member_id=pair.id_of("c2"),
    )


def test_assignment_that_fits_no_batch_starts_a_rebalance(pair: EventHarness) -> None:
    pair.rejoin("c1")
    pair.rejoin("c2")
    pair.events.clear()
    pair.sync("c1 syncs again", pair.id_of("c1"), 2, {pair.id_of("c1"): bytes(MAX_BATCH_BYTES)})
    (began,) = pair.take_facts()
    assert_fields(
        began, cause="large assignment", member_id=None, previous_state="CompletingRebalance"
    )


def test_group_that_is_too_large_at_load_starts_a_rebalance() -> None:
    harness = EventHarness()
    harness.stable("c1", "c2")
    harness.config = harness.config._replace(group_max_size=1)
    harness.events.clear()
    harness.restart()
    facts = {event.name: event.fact for event in harness.events}
    assert facts.keys() == {"rebalance_began", "partition_loaded"}
    assert_fields(facts["rebalance_began"], cause="load", member_id=None, member_count=2)
    assert_fields(facts["partition_loaded"], partition=0, group_count=1, member_count=2)


# --- what ends a join phase -----------------------------------------------------------------------


def test_absent_member_is_removed_at_the_rebalance_timeout(
    pair: EventHarness,
) -> None:
    pair.rejoin("c1")
    pair.events.clear()
    for _ in range(20):
        pair.wait(3_000)
        pair.heartbeat(pair.id_of("c2"), 1)
    removed, completed = pair.take_facts()
    assert_fields(
        removed,
        cause="rebalance timeout",
        member_id=pair.id_of("c2"),
        state="PreparingRebalance",
        last_heard_ms=removed.at_ms - 3_000,
    )
    assert_fields(completed, ended_by="rebalance timeout", join_ms=60_000, member_count=1)


def test_unused_member_id_expires(pair: EventHarness) -> None:
    pair.join("c3", version=8)
    pair.rejoin("c1")
    pair.rejoin("c2")
    assert pair.take_fact_names() == ["rebalance_began"]
    pair.wait(10_000)
    expired, completed = pair.take_facts()
    assert_fields(expired, member_id=pair.id_of("c3"), state="PreparingRebalance", generation_id=1)
    assert completed.ended_by == "all joined"


def test_join_phase_with_absent_static_members_only_is_extended() -> None:
    harness = EventHarness()
    harness.stable("c1", "c2", instances={"c2": "i2"})
    harness.remove((harness.id_of("c1"), None))
    harness.events.clear()
    for _ in range(20):
        harness.wait(3_000)
        harness.heartbeat(harness.id_of("c2"), 1, "i2")
    (extended,) = harness.take_facts()
    assert_fields(extended, generation_id=1, member_count=1, wait_ms=60_000)


def test_member_that_the_size_gate_refuses_is_removed() -> None:
    harness = EventHarness()
    harness.stable("c1", "c2")
    harness.config = harness.config._replace(group_max_size=1)
    harness.restart()
    harness.rejoin("c1")
    harness.events.clear()
    assert harness.rejoin("c2").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    (removed,) = harness.take_facts()
    assert_fields(removed, cause="group full", member_id=harness.id_of("c2"))


# --- the end of a group ---------------------------------------------------------------------------


def test_deletion_is_a_fact_once_it_is_durable(pair: EventHarness) -> None:
    """[journal/phases]"""
    from coterie.protocol.messages.delete_groups import DeleteGroupsRequest

    pair.commit("c1 commits", 7, member_id=pair.id_of("c1"), generation_id=1, partitions=(0, 1))
    pair.store()
    pair.remove((pair.id_of("c1"), None), (pair.id_of("c2"), None))
    pair.store()
    pair.events.clear()
    pair.send(DeleteGroupsRequest(groups_names=["g"]), 2, "operator deletes")
    assert pair.take_facts() == []
    pair.store()
    (deleted,) = pair.take_facts()
    assert_fields(deleted, generation_id=2, offset_count=2)


def test_expired_offsets_and_group_are_facts() -> None:
    harness = EventHarness(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=5_000)
    harness.commit("commits", 41, partitions=(3, 1))
    harness.store()
    harness.wait(5_000)
    harness.store()
    offsets, group = harness.take_facts()
    assert offsets.offset_count == 2
    (topic,) = offsets.topics
    assert topic.topic == "sales"
    assert {part.partition: part.committed_offset for part in topic.partitions} == {3: 41, 1: 41}
    assert group.generation_id == 0
    assert harness.coordinator.group("g") is None


def test_unload_says_why(harness: EventHarness) -> None:
    """[journal/partition-facts]"""
    harness.stable("c1")
    harness.events.clear()
    harness.take(harness.coordinator.unload(0, None, harness.now_ms))
    (unloaded,) = harness.take_facts()
    assert_fields(unloaded, partition=0, group_count=1, cause="closed")
    harness.restart()
    harness.take(harness.coordinator.fail(0, harness.now_ms))
    assert harness.take_facts()[-1].cause == "failed"


# --- no facts -------------------------------------------------------------------------------------


def test_heartbeats_and_commits_make_no_events(pair: EventHarness) -> None:
    """[journal/phases]"""
    for _ in range(10):
        pair.heartbeat(pair.id_of("c1"), 1)
        pair.heartbeat("unknown", 1)
        pair.heartbeat(pair.id_of("c2"), 1, "no instance")
    pair.commit("c1 commits", 7, member_id=pair.id_of("c1"), generation_id=1)
    pair.store()
    assert pair.take_facts() == []
    assert not any(effects.events for effects in RESPONSES.values())
