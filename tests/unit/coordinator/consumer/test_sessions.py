"""The timers of consumer groups, and what changes their type [consumer-groups/timers]."""

import pytest

from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.config import ConsumerSettings
from coterie.coordinator.groups.epochs import MAX_EPOCH
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.journal_records import MemberRemoved
from tests.unit.coordinator.consumer.harness import ConsumerHarness, assigned, topic_id

FOO = topic_id("foo")
SUBSCRIPTION = encode_subscription(ConsumerProtocolSubscription(topics=["foo"]), 1)
PROTOCOLS = (("range", SUBSCRIPTION),)


def classic_group(
    harness: ConsumerHarness, *names: str, session_ms: int = 10_000, same: bool = False
) -> list[str]:
    """Bring classic members with one partition each into a generation; return their ids.

    If `same` is set, all of them have the same partition.
    """
    for name in names:
        harness.join(name, protocols=PROTOCOLS, session_ms=session_ms)
    harness.wait(0)
    ids = [harness.id_of(name) for name in names]
    leader = next(each for each in names if harness.responses[each].members)
    assignments = {
        member_id: encode_assignment(
            ConsumerProtocolAssignment(
                assigned_partitions=[TopicPartition(topic="foo", partitions=[0 if same else index])]
            ),
            1,
        )
        for index, member_id in enumerate(ids)
    }
    order = [leader, *(each for each in names if each != leader)]
    for name in order:
        generation = harness.responses[leader].generation_id
        given = assignments if name == leader else None
        harness.sync(f"{name} syncs", harness.id_of(name), generation, given)
    assert harness.group().state is GroupState.STABLE
    return ids


def test_members_of_an_upgraded_group_expire() -> None:
    """Their classic group has cancelled its timers; a member that is silent is removed."""
    harness = ConsumerHarness({"foo": 4})
    silent, lively = classic_group(harness, "c1", "c2")
    answer = harness.enter("m1", "foo")
    assert (answer.error_code, answer.member_epoch) == (0, 2)
    assert set(harness.consumer_group().members) == {silent, lively, "m1"}
    harness.wait(9_000)
    assert harness.heartbeat(lively, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    harness.wait(1_000)
    assert set(harness.consumer_group().members) == {lively, "m1"}
    harness.wait(9_000)
    assert list(harness.consumer_group().members) == ["m1"]
    assert harness.live() == harness.replayed()


def test_partitions_stay_where_they_were_in_an_upgrade() -> None:
    harness = ConsumerHarness({"foo": 4})
    first, second = classic_group(harness, "c1", "c2")
    harness.enter("m1", "foo")
    group = harness.consumer_group()
    assert [group.owner(FOO, index) for index in range(4)] == [first, second, "m1", None]


def test_group_in_which_two_members_own_a_partition_is_not_upgraded() -> None:
    harness = ConsumerHarness({"foo": 4})
    ids = classic_group(harness, "c1", "c2", same=True)
    answer = harness.enter("m1", "foo")
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "a partition is assigned to two members" in answer.error_message
    assert list(harness.group().members) == ids
    assert harness.heartbeat(ids[0], 1) == ErrorCode.NONE


def test_upgrade_with_the_id_of_a_classic_member_bumps_nothing() -> None:
    harness = ConsumerHarness({"foo": 4})
    (only,) = classic_group(harness, "c1")
    answer = harness.enter(only, "foo")
    assert (answer.member_epoch, assigned(answer)) == (1, {FOO: [0]})
    assert harness.consumer_group().classic_count == 0
    # Its session is one of the consumer protocol.
    harness.wait(44_999)
    assert harness.beat(only, 1).error_code == 0


def test_last_member_of_the_consumer_protocol_leaves_a_classic_group() -> None:
    harness = ConsumerHarness({"foo": 4})
    (only,) = classic_group(harness, "c1", session_ms=100_000)
    harness.enter("m1", "foo")
    harness.events.clear()
    harness.wait(45_000)
    assert harness.group().generation_id == 2
    assert harness.group().state is GroupState.PREPARING_REBALANCE
    (removed,) = [e.fact for e in harness.events if isinstance(e.fact, MemberRemoved)]
    assert (removed.generation_id, removed.member_count) == (2, 1)
    assert harness.heartbeat(only, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.replayed() == {}
    # The session and the rebalance of the classic group end in time.
    harness.wait(100_000)
    assert not harness.group().members


def test_session_timeout_that_changes_counts_from_the_next_heartbeat_on() -> None:
    harness = ConsumerHarness({"foo": 4})
    harness.enter("m1", "foo")
    table = harness.config.consumer.settings
    table.own["g"] = ConsumerSettings(session_timeout_ms=10_000, assignment_interval_ms=0)
    assert harness.beat("m1", 2).error_code == 0
    harness.wait(9_999)
    assert harness.beat("m1", 2).error_code == 0
    harness.wait(10_000)
    assert not harness.consumer_group().members
    harness.enter("m1", "foo")
    table.own["g"] = ConsumerSettings(session_timeout_ms=60_000, assignment_interval_ms=0)
    harness.beat("m1", 4)
    harness.wait(59_999)
    assert harness.beat("m1", 4).error_code == 0


def test_epoch_does_not_pass_the_largest() -> None:
    key = ConsumerGroupMetadataKey(group_id="g")
    harness = ConsumerHarness({"foo": 4})
    harness.load((key, ConsumerGroupMetadataValue(epoch=MAX_EPOCH - 1)))
    assert harness.enter("m1", "foo").member_epoch == MAX_EPOCH
    assert harness.enter("m2", "foo").member_epoch == MAX_EPOCH
    harness.wait(45_000)
    group = harness.consumer_group()
    assert (group.epoch, group.members) == (MAX_EPOCH, {})
    assert harness.live() == harness.replayed()


# -- regular expressions ---------------------------------------------------------------------------


def test_timer_of_a_resolution_does_not_touch_the_next_group_of_the_name() -> None:
    harness = ConsumerHarness({"foo": 4})
    harness.beat("m1", 0, subscribed_topic_regex="f.*")
    harness.beat("m1", -1)
    harness.send(DeleteGroupsRequest(groups_names=["g"]), 2, "delete")
    assert harness.enter("m2", "foo").member_epoch == 2
    harness.wait(1_000)
    assert harness.consumer_group().epoch == 2


def test_regex_is_resolved_and_follows_new_topics() -> None:
    harness = ConsumerHarness({"foo": 2, "bar": 1})
    harness.beat("m1", 0, subscribed_topic_regex="f.*")
    harness.wait(0)
    answer = harness.beat("m1", 1)
    assert (answer.member_epoch, assigned(answer)) == (2, {FOO: [0, 1]})
    harness.create_topic("fob", 1)
    harness.wait(9_000)
    assert harness.beat("m1", 2).member_epoch == 2
    harness.wait(1_001)
    harness.beat("m1", 2)
    harness.wait(0)
    assert harness.beat("m1", 2).member_epoch == 3
    harness.beat("m1", -1)
    assert not harness.consumer_group().regexes
    assert harness.live() == harness.replayed()


def test_result_that_is_larger_than_a_batch_is_asked_for_again_after_a_while() -> None:
    names = {f"t{number:04}{'n' * 230}": 1 for number in range(5_000)}
    harness = ConsumerHarness(names)
    harness.beat("m1", 0, subscribed_topic_regex="t.*")
    group = harness.consumer_group()
    for _ in range(3):
        assert group.resolution is not None
        harness.wait(0)
        assert (group.resolution, group.regexes, group.epoch) == (None, {}, 1)
        harness.wait(5_000)
        harness.beat("m1", 1)
        assert group.resolution is None
        harness.wait(5_001)
        harness.beat("m1", 1)
    for name in list(names)[10:]:
        harness.delete_topic(name)
    harness.wait(10_001)
    harness.beat("m1", 1)
    harness.wait(0)
    assert harness.beat("m1", 1).member_epoch == 2
    assert harness.live() == harness.replayed()


def test_many_names_are_matched_in_parts() -> None:
    names = {f"t{number:04}": 1 for number in range(1_200)}
    harness = ConsumerHarness(names)
    harness.beat("m1", 0, subscribed_topic_regex="t0.*")
    harness.wait(0)
    assert len(harness.consumer_group().regexes["t0.*"].topics) == 1_000


@pytest.mark.parametrize("successor", ["m2", "m1"])
def test_the_timers_of_a_static_member_end_with_its_place(successor: str) -> None:
    """Nothing would cancel them when the coordinator gives the group up."""
    harness = ConsumerHarness({"foo": 4})
    harness.enter("m1", "foo", instance_id="i")
    session = harness.coordinator.purgatory.deadline_ms(("consumer session", "g", "m1"))
    assert session == harness.now_ms + 45_000
    harness.wait(1_000)
    assert not harness.beat("m1", -2, instance_id="i").error_code
    assert not harness.enter(successor, "foo", instance_id="i").error_code
    armed = {
        member_id: harness.coordinator.purgatory.deadline_ms(("consumer session", "g", member_id))
        for member_id in ("m1", "m2")
    }
    other = {"m1": "m2", "m2": "m1"}[successor]
    assert armed == {successor: harness.now_ms + 45_000, other: None}


def test_the_timers_of_a_static_classic_member_end_with_its_place() -> None:
    harness = ConsumerHarness({"foo": 4})
    harness.enter("m1", "foo")
    for name in ("c1", "c2"):
        harness.join(name, instance="i", protocols=PROTOCOLS)
    first, second = harness.id_of("c1"), harness.id_of("c2")
    assert set(harness.consumer_group().members) == {"m1", second}
    purgatory = harness.coordinator.purgatory
    assert purgatory.deadline_ms(("consumer session", "g", first)) is None
    assert purgatory.deadline_ms(("consumer session", "g", second)) is not None
