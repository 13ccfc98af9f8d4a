"""An operation that does not fit a batch leaves the group as it was, with its members' sessions."""

from typing import Any

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.step import Step
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from tests.unit.coordinator.consumer.harness import ConsumerHarness, image, topic_id

FOO = topic_id("foo")
# One subscription with so many names is larger than a batch, although it is one record.
TOO_MANY_NAMES = [f"{number:05}{'n' * 200}" for number in range(6_000)]


def soft(group: ConsumerGroup) -> dict[str, Any]:
    """Return what is not logged, the order of the members included."""
    return {
        "members": [
            (each.member_id, each.deadline_ms, each.armed_ms, each.session_ms, each.awaits_join)
            for each in group.members.values()
        ],
        "most_members": group.most_members,
        "bumped_ms": group.bumped_ms,
    }


def joined() -> ConsumerHarness:
    harness = ConsumerHarness({"foo": 6})
    harness.enter("m1", "foo", instance_id="i1")
    harness.enter("m2", "foo")
    harness.settle("m1", "m2")
    harness.beat("m1", -2, instance_id="i1")
    return harness


def test_subscription_that_is_larger_than_a_batch_is_refused() -> None:
    harness = joined()
    group = harness.consumer_group()
    before, soft_before, written = image(group), soft(group), len(harness.written)
    answer = harness.beat("m2", 3, subscribed_topic_names=TOO_MANY_NAMES)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (image(group), soft(group)) == (before, soft_before)
    assert len(harness.written) == written
    assert harness.replayed() == harness.live()


def test_joiner_that_is_refused_for_its_size_leaves_no_group() -> None:
    harness = ConsumerHarness({"foo": 6})
    answer = harness.enter("m1", *TOO_MANY_NAMES)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert harness.coordinator.group("g") is None
    assert harness.live() == harness.replayed() == {}
    assert harness.enter("m1", "foo").member_epoch == 2


def test_static_member_keeps_its_place_if_its_successor_is_refused() -> None:
    harness = joined()
    group = harness.consumer_group()
    before, soft_before = image(group), soft(group)
    for successor in ("m3", "m1"):
        answer = harness.enter(successor, *TOO_MANY_NAMES, instance_id="i1")
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (image(group), soft(group)) == (before, soft_before)
    # Its session goes on and ends when it would have ended.
    harness.wait(44_999)
    assert "m1" in group.members
    harness.wait(1)
    assert "m1" not in group.members


def test_step_that_is_taken_back_leaves_the_group_as_it_was() -> None:
    harness = joined()
    group = harness.consumer_group()
    before, soft_before = image(group), soft(group)
    step = Step(harness.coordinator.shards[0], group, harness.now_ms)
    step.remove(list(group.keys(group.ordered_ids())))
    assert group.is_blank
    step.undo()
    assert (image(group), soft(group)) == (before, soft_before)
    assert step.effects.operation is None


def test_static_member_that_returns_under_its_id_has_one_session() -> None:
    harness = joined()
    harness.wait(1_000)
    answer = harness.enter("m1", "foo", instance_id="i1")
    assert (answer.error_code, answer.member_epoch) == (0, 3)
    member = harness.consumer_group().members["m1"]
    assert member.deadline_ms == member.armed_ms == harness.now_ms + 45_000
    assert harness.replayed() == harness.live()


def test_downgrade_that_is_larger_than_a_batch_does_not_happen() -> None:
    """The last member of the consumer protocol expires, and classic ones are too large a record."""
    subscription = encode_subscription(
        ConsumerProtocolSubscription(topics=["foo"], user_data=bytes(700_000)), 1
    )
    harness = ConsumerHarness({"foo": 6})
    harness.enter("m1", "foo")
    for name in ("c1", "c2"):
        harness.join(name, protocols=(("range", subscription),), session_ms=300_000)
    ids = [harness.id_of("c1"), harness.id_of("c2")]
    harness.wait(45_000)
    assert harness.heartbeat(ids[0], harness.consumer_group().members[ids[0]].epoch) in (0, 27)
    assert list(harness.consumer_group().members) == ids
    assert harness.replayed() == harness.live()
    # A smaller group is downgraded.
    harness.leave("c2 leaves", ids[1])
    assert harness.group().generation_id == 5
