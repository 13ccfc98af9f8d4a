"""How a member comes to its target: the worked example of Kafka 4.3.1, and each way out of a state.

[consumer-groups/reconciliation]
"""

from typing import Any

import pytest

from coterie.coordinator.groups.config import ConsumerSettings
from coterie.coordinator.groups.consumer.states import MemberState
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from tests.unit.coordinator.consumer.harness import ConsumerHarness, assigned, topic_id

FOO, BAR = topic_id("foo"), topic_id("bar")
_NUMBERS: dict[type, int] = {
    ConsumerGroupMetadataKey: 3,
    ConsumerGroupMemberMetadataKey: 5,
    ConsumerGroupTargetAssignmentMetadataKey: 6,
    ConsumerGroupTargetAssignmentMemberKey: 7,
    ConsumerGroupCurrentMemberAssignmentKey: 8,
}


def own(foo: str = "", bar: str = "") -> dict[bytes, list[int]]:
    """Return partitions of both topics."""
    found = {BAR: [int(each) for each in bar], FOO: [int(each) for each in foo]}
    return {each: indexes for each, indexes in found.items() if indexes}


def numbers(harness: ConsumerHarness) -> str:
    """Return the types of the records since the last call; "-" marks a tombstone."""
    found = [
        f"{_NUMBERS[type(key)]}{'-' if value is None else ''}"
        for batch in harness.written
        for key, value in batch
    ]
    harness.written.clear()
    return " ".join(found)


def test_worked_example() -> None:
    """The steps, answers and records are those of a Kafka 4.3.1."""
    harness = ConsumerHarness({"foo": 6, "bar": 3}, consumer={"assignors": ("range", "uniform")})

    def step(
        answer: Any, epoch: int, told: dict[bytes, list[int]] | None, records: str, state: int
    ) -> None:
        assert (answer.error_code, answer.member_epoch, assigned(answer)) == (0, epoch, told)
        assert numbers(harness) == records
        member = harness.consumer_group().members[answer.member_id]
        assert member.state == state

    beat, both = harness.beat, ("foo", "bar")
    step(harness.enter("m1", *both), 2, own("012345", "012"), "5 3 7 6 8", 0)
    step(harness.enter("m2", *both), 3, {}, "5 3 7 7 6 8", 2)
    step(beat("m1", 2), 2, own("012", "01"), "8", 1)
    step(beat("m1", 2, own("012", "01")), 3, None, "8", 0)
    step(beat("m2", 3), 3, own("345", "2"), "8", 0)
    step(harness.enter("m3", *both), 4, {}, "5 3 7 7 7 6 8", 2)
    step(beat("m3", 4), 4, None, "8", 2)
    step(beat("m3", 4), 4, None, "", 2)
    step(beat("m1", 3), 3, own("01", "0"), "8", 1)
    step(beat("m1", 3), 3, None, "", 1)
    step(beat("m1", 3, own("01", "0")), 4, None, "8", 0)
    step(beat("m3", 4), 4, None, "", 2)
    step(beat("m2", 3, own("345", "2")), 3, own("3"), "8", 1)
    step(beat("m2", 3, own("3")), 4, own("23", "1"), "8", 0)
    step(beat("m3", 4), 4, own("45", "2"), "8", 0)
    assert harness.consumer_group().state_name == "Stable"
    left = beat("m2", -1)
    assert (left.member_epoch, left.heartbeat_interval_ms) == (-1, 0)
    assert numbers(harness) == "8- 7- 5- 3"
    assert harness.consumer_group().state_name == "Assigning"
    step(beat("m1", 4), 5, own("012", "01"), "7 7 6 8", 0)
    assert harness.consumer_group().members["m1"].assigned == {
        BAR: {0: 2, 1: 5},
        FOO: {0: 2, 1: 2, 2: 5},
    }
    step(beat("m1", 4, own("0")), 5, None, "", 0)
    for owned in (own("5"), None):
        assert beat("m1", 4, owned).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    step(beat("m1", 0, subscribed_topic_names=[*both]), 5, own("012", "01"), "", 0)
    assert numbers(harness) == ""


def two_members(**consumer: Any) -> ConsumerHarness:
    """Return a group in which m1 has to give half of its partitions to m2."""
    harness = ConsumerHarness({"foo": 4, "bar": 2}, consumer=consumer)
    harness.enter("m1", "foo", server_assignor="range")
    harness.enter("m2", "foo")
    return harness


def test_member_that_has_given_up_already_goes_on_at_once() -> None:
    harness = two_members()
    answer = harness.beat("m1", 2, own("01"))
    assert (answer.member_epoch, assigned(answer)) == (3, own("01"))


def test_member_that_gives_up_a_part_is_waited_for() -> None:
    harness = two_members()
    harness.beat("m1", 2, own("0123"))
    member = harness.consumer_group().members["m1"]
    assert (member.state, member.pending) == (
        MemberState.UNREVOKED_PARTITIONS, {FOO: {2: 2, 3: 2}}
    )  # fmt: skip
    assert harness.beat("m1", 2, own("012")).member_epoch == 2
    assert harness.beat("m1", 2, own("01")).member_epoch == 3


def test_rejoin_gives_everything_up() -> None:
    """A process that begins again owns nothing, whatever its predecessor had to give up."""
    harness = two_members()
    harness.beat("m1", 2)
    answer = harness.enter("m1", "foo")
    assert (answer.member_epoch, assigned(answer)) == (3, own("01"))


def test_revocation_timer_begins_anew_when_there_is_more_to_give_up() -> None:
    harness = two_members()
    harness.beat("m1", 2)
    harness.wait(20_000)
    harness.beat("m1", 2)
    harness.beat("m2", 3)
    assert harness.consumer_group().members["m1"].revocation is not None
    # m3 takes a part of what m1 has kept.
    harness.enter("m3", "foo")
    harness.beat("m1", 2, own("01"))
    member = harness.consumer_group().members["m1"]
    assert (member.state, member.pending) == (MemberState.STABLE, {})
    assert member.revocation is None


@pytest.mark.parametrize("waits", [2, 6])
def test_revocation_timeout_removes_the_member(waits: int) -> None:
    """The heartbeats of a member that gives nothing up do not move the timer."""
    harness = two_members()
    harness.beat("m1", 2, rebalance_timeout_ms=60_000)
    for _ in range(waits):
        harness.wait(59_999 // waits)
        assert harness.beat("m1", 2).member_epoch == 2
        harness.beat("m2", 3)
    harness.wait(60_000 - 59_999 // waits * waits)
    assert list(harness.consumer_group().members) == ["m2"]
    assert assigned(harness.beat("m2", 3)) == own("0123")


def test_member_waits_only_for_partitions_that_others_have() -> None:
    """A partition that comes back before it was given up is taken at the new epoch."""
    harness = two_members()
    harness.beat("m1", 2)
    harness.beat("m2", -1)
    assert harness.beat("m1", 2, own("0123")).member_epoch == 2
    answer = harness.beat("m1", 2, own("01"))
    assert (answer.member_epoch, assigned(answer)) == (4, own("0123"))
    assert harness.consumer_group().members["m1"].assigned == {FOO: {0: 2, 1: 2, 2: 4, 3: 4}}


def test_nobody_waits_for_a_member_that_is_gone() -> None:
    harness = two_members()
    assert harness.consumer_group().members["m2"].state is MemberState.UNRELEASED_PARTITIONS
    harness.beat("m1", -1)
    answer = harness.beat("m2", 3)
    assert (answer.member_epoch, assigned(answer)) == (4, own("0123"))


# -- another subscription before another target ----------------------------------------------------


def interval() -> ConsumerHarness:
    """Return a member with two topics, whose next target has to wait."""
    settings = ConsumerSettings(assignment_interval_ms=10_000)
    harness = ConsumerHarness({"foo": 2, "bar": 1}, settings=settings)
    harness.enter("m1", "foo", "bar")
    return harness


def test_topics_are_lost_with_the_subscription() -> None:
    harness = interval()
    answer = harness.beat("m1", 2, subscribed_topic_names=["foo"])
    assert (answer.member_epoch, assigned(answer)) == (2, own("01"))
    assert harness.consumer_group().state_name == "Assigning"
    member = harness.consumer_group().members["m1"]
    assert (member.state, member.pending) == (MemberState.UNREVOKED_PARTITIONS, {BAR: {0: 2}})
    # It gives up more while it is asked to give up.
    answer = harness.beat("m1", 2, own("01", "0"), subscribed_topic_names=[])
    assert (answer.member_epoch, assigned(answer)) == (2, {})
    assert member.pending == {BAR: {0: 2}, FOO: {0: 2, 1: 2}}
    harness.wait(10_000)
    assert harness.beat("m1", 2, {}).member_epoch == 4


def test_topics_that_were_given_up_already_are_dropped() -> None:
    harness = interval()
    answer = harness.beat("m1", 2, own("01"), subscribed_topic_names=["foo"])
    assert (answer.member_epoch, assigned(answer)) == (2, own("01"))
    assert harness.consumer_group().members["m1"].state is MemberState.STABLE


def test_same_subscription_in_another_order_changes_nothing() -> None:
    harness = interval()
    numbers(harness)
    harness.beat("m1", 2, subscribed_topic_names=["foo", "bar", "foo"])
    assert numbers(harness) == ""


def test_partitions_of_a_deleted_topic_are_given_up() -> None:
    harness = ConsumerHarness({"foo": 2, "bar": 1})
    harness.enter("m1", "foo", "bar")
    harness.delete_topic("bar")
    answer = harness.beat("m1", 2, own("01", "0"))
    assert (answer.member_epoch, assigned(answer)) == (2, own("01"))
    harness.create_topic("bar", 2, life=1)
    answer = harness.beat("m1", 2, own("01"))
    found = {**own("01"), topic_id("bar", 1): [0, 1]}
    assert (answer.member_epoch, assigned(answer)) == (4, found)


def test_member_that_keeps_its_partitions_keeps_what_its_record_lists() -> None:
    harness = ConsumerHarness({"foo": 2, "bar": 1})
    harness.enter("m1", "foo")
    member = harness.consumer_group().members["m1"]
    before, assigned_before = member.current, member.assigned
    harness.enter("m2", "bar")
    assert harness.beat("m1", 2).member_epoch == 3
    assert before is not None
    assert member.current is not None
    assert (member.current.member_epoch, member.current.previous_member_epoch) == (3, 2)
    assert member.current.assigned_partitions is before.assigned_partitions
    assert member.assigned is assigned_before
    assert harness.consumer_group().owner(FOO, 1) == "m1"
    assert harness.live() == harness.replayed()


@pytest.mark.parametrize("back", [False, True])
def test_deleted_topic_is_given_up_although_it_is_in_the_target(back: bool) -> None:
    harness = interval()
    harness.wait(10_000)
    harness.create_topic("baz", 1)
    assert harness.enter("m2", "baz").member_epoch == 3
    harness.delete_topic("bar")
    if back:
        harness.create_topic("bar", 1, life=1)
    target = harness.consumer_group().target("m1")
    assert target == {FOO: (0, 1), BAR: (0,)}
    answer = harness.beat("m1", 2)
    assert (answer.member_epoch, assigned(answer)) == (2, own("01"))
    assert harness.beat("m1", 2, own("01")).member_epoch == 3
