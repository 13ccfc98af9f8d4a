"""Consumer groups are what the records of a log add up to, in whatever order they stand there.

Rules: [group-log/two-types].
"""

from itertools import permutations
from typing import Any

import pytest

from coterie.coordinator.groups.consumer.states import GroupState, MemberState
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartitions,
)
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
)
from coterie.protocol.wire import Message
from tests.unit.coordinator.consumer.harness import ConsumerHarness, assigned, image, topic_id

FOO = topic_id("foo")
UNKNOWN_TYPE = b"\0\x63\0\x01g", b"any"

Pair = tuple[Message, Message | None]


def epoch(value: int) -> Pair:
    """Return record 3."""
    return ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=value)


def subscription(member_id: str = "m1", **fields: Any) -> Pair:
    """Return record 5."""
    value: dict[str, Any] = {
        "instance_id": None,
        "rack_id": None,
        "client_id": "c",
        "client_host": "/127.0.0.1",
        "subscribed_topic_names": ["foo"],
        "subscribed_topic_regex": "",
        "rebalance_timeout_ms": 300_000,
        "server_assignor": None,
        "classic_member_metadata": None,
    }
    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id=member_id)
    return key, ConsumerGroupMemberMetadataValue(**{**value, **fields})


def target_epoch(value: int) -> Pair:
    """Return record 6."""
    return (
        ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=value),
    )


def target(member_id: str, *partitions: int) -> Pair:
    """Return record 7."""
    key = ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id=member_id)
    topics = [TargetTopicPartitions(topic_id=FOO, partitions=list(partitions))]
    return key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)


def current(
    member_id: str,
    at: int,
    *partitions: int,
    state: int = 0,
    epochs: list[int] | None = None,
    pending: list[int] | None = None,
) -> Pair:
    """Return record 8."""
    given_up = CurrentTopicPartitions(topic_id=FOO, partitions=pending or [])
    return (
        ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id=member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=at,
            previous_member_epoch=at,
            state=state,
            assigned_partitions=[
                CurrentTopicPartitions(
                    topic_id=FOO, partitions=list(partitions), assignment_epochs=epochs
                )
            ],
            partitions_pending_revocation=[given_up] if pending else [],
        ),
    )


def regex(text: str = "f.*") -> Pair:
    """Return record 16."""
    return (
        ConsumerGroupRegularExpressionKey(group_id="g", regular_expression=text),
        ConsumerGroupRegularExpressionValue(topics=["foo"], version=1, timestamp=1),
    )


def old_topics() -> Pair:
    """Return record 4, which only Kafka 4.0 has written."""
    return (
        ConsumerGroupPartitionMetadataKey(group_id="g"),
        ConsumerGroupPartitionMetadataValue(topics=[]),
    )


def generation(*member_ids: str, protocol_type: str = "consumer") -> Pair:
    """Return record 2."""
    members = [
        GroupMetadataMember(
            member_id=each,
            group_instance_id=None,
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout=60_000,
            session_timeout=10_000,
            subscription=b"",
            assignment=b"",
        )
        for each in member_ids
    ]
    value = GroupMetadataValue(
        protocol_type=protocol_type,
        generation=7,
        protocol="range" if members else None,
        leader=member_ids[0] if members else None,
        current_state_timestamp=1,
        members=members,
    )
    return GroupMetadataKey(group="g"), value


def offset() -> Pair:
    """Return record 1."""
    key = OffsetCommitKey(group="g", topic="foo", partition=0)
    return key, OffsetCommitValue(offset=5, metadata="", commit_timestamp=1)


def without_value(pair: Pair) -> Pair:
    """Return a tombstone."""
    return pair[0], None


def loaded(*records: Any) -> ConsumerHarness:
    """Return a coordinator that was started from these records."""
    harness = ConsumerHarness({"foo": 6})
    harness.load(*records)
    return harness


WHOLE = (
    epoch(9),
    subscription(),
    target("m1", 0, 1),
    target_epoch(9),
    current("m1", 9, 0, 1, epochs=[8, 9]),
)


def test_a_target_of_epoch_0_of_other_software_counts_no_member() -> None:
    records = target_epoch(0), current("m1", 9, 0), subscription(), without_value(subscription())
    harness = loaded(*records, subscription("m2"), without_value(subscription("m2")))
    group = harness.consumer_group()
    assert (list(group.members), group.settled) == (["m1"], 0)


def test_order_of_the_records_does_not_matter() -> None:
    expected = image(loaded(*WHOLE).consumer_group())
    for order in permutations(WHOLE):
        assert image(loaded(*order).consumer_group()) == expected


def test_tombstones_offsets_and_unknown_types_may_stand_among_them() -> None:
    tombstones = [without_value(each) for each in (*WHOLE, old_topics(), regex())]
    harness = loaded(*tombstones, offset(), UNKNOWN_TYPE, *WHOLE)
    group = harness.consumer_group()
    assert image(group) == image(loaded(*WHOLE).consumer_group())
    assert group.members["m1"].assigned == {FOO: {0: 8, 1: 9}}
    assert harness.fetch("reads") == {("foo", 0): 5}


def test_member_without_a_current_assignment_has_to_rejoin() -> None:
    harness = loaded(subscription(), epoch(9))
    group = harness.consumer_group()
    assert group.derived_state() is GroupState.ASSIGNING
    member = group.members["m1"]
    assert (member.epoch, member.previous_epoch, member.state) == (0, -1, MemberState.STABLE)
    assert harness.beat("m1", 9).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert harness.enter("m1", "foo").member_epoch == 10  # no hash was logged


def test_target_without_an_epoch_of_the_group_is_not_computed_before_it_has_passed() -> None:
    harness = loaded(subscription(), target("m1", 0), target_epoch(5), current("m1", 5, 0))
    group = harness.consumer_group()
    assert (group.epoch, group.target_epoch) == (1, 5)
    assert group.derived_state() is GroupState.STABLE
    for bumped in range(2, 8):
        harness.beat(f"n{bumped}", 0, subscribed_topic_names=["foo"])
        assert group.epoch == bumped
        assert group.target_epoch == max(5, bumped)


@pytest.mark.parametrize("left", [target("m1", 0), regex(), old_topics()], ids=["7", "16", "4"])
def test_leftovers_without_members_are_an_empty_group(left: Pair) -> None:
    harness = loaded(epoch(4), left)
    group = harness.consumer_group()
    assert group.derived_state() is GroupState.EMPTY
    assert harness.enter("m2", "foo").member_epoch == 5
    assert group.members["m2"].assigned == {FOO: dict.fromkeys(range(6), 5)}
    if left[0] == old_topics()[0]:
        assert group.has_old_metadata is None
    assert harness.live() == harness.replayed()


def test_record_without_the_mark_is_a_classic_member() -> None:
    absent = ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=[])
    harness = loaded(*WHOLE, subscription(classic_member_metadata=absent))
    group = harness.consumer_group()
    assert group.classic_count == 1
    assert harness.sync("syncs", "m1", 9).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert not harness.beat("m1", 9).error_code
    assert group.classic_count == 0
    assert group.members["m1"].classic is None


def test_members_without_protocols_are_not_downgraded() -> None:
    absent = ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=[])
    harness = loaded(*WHOLE, subscription("m2", classic_member_metadata=absent))
    assert harness.beat("m1", -1).member_epoch == -1
    assert list(harness.consumer_group().members) == ["m2"]


def test_assignment_without_epochs_was_received_at_the_epoch_of_the_member() -> None:
    for epochs in (None, [1]):
        group = loaded(subscription(), current("m1", 4, 0, 1, epochs=epochs)).consumer_group()
        assert group.members["m1"].assigned == {FOO: {0: 4, 1: 4}}
    group = loaded(subscription(), current("m1", -2, 0)).consumer_group()
    assert group.members["m1"].assigned == {FOO: {0: 0}}


@pytest.mark.parametrize("epochs", [None, [1], [7, 8]])
def test_epochs_of_partitions_stay_when_the_member_comes_to_a_later_epoch(
    epochs: list[int] | None,
) -> None:
    at = current("m1", 8, 0, 1, epochs=epochs)
    harness = ConsumerHarness({"foo": 2})
    harness.load(epoch(9), subscription(), target("m1", 0, 1), target_epoch(9), at)
    group = harness.consumer_group()
    assert harness.beat("m1", 8).member_epoch == group.epoch == 10  # no hash was logged
    received = [8, 8] if epochs is None or len(epochs) == 1 else epochs
    assert group.members["m1"].assigned == {FOO: dict(enumerate(received))}
    _, value = harness.written[-1][-1]
    assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
    assert [each.assignment_epochs for each in value.assigned_partitions] == [received]
    assert harness.live() == harness.replayed()


def test_member_in_an_unknown_state_begins_without_partitions() -> None:
    harness = loaded(*WHOLE, current("m1", 9, 0, 1, state=7))
    group = harness.consumer_group()
    assert group.members["m1"].state is MemberState.UNKNOWN
    before = image(group)
    for owned in (None, {FOO: [0]}):
        answer = harness.beat("m1", 9, owned)
        assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert "unknown state" in answer.error_message
    assert image(group) == before
    answer = harness.beat("m1", 9, {})
    assert not answer.error_code
    assert group.state_name == "Stable"


def test_member_that_has_to_give_partitions_up_has_its_timeout_again() -> None:
    harness = loaded(
        epoch(9), target_epoch(9), subscription(rebalance_timeout_ms=30_000),
        current("m1", 8, 0, state=1, pending=[1]),
    )  # fmt: skip
    harness.wait(29_999)
    assert "m1" in harness.consumer_group().members
    harness.wait(1)
    assert "m1" not in harness.consumer_group().members


@pytest.mark.parametrize("reverse", [False, True])
def test_of_two_owners_the_one_of_the_larger_epoch_counts(reverse: bool) -> None:
    owners = [current("m1", 4, 0), current("m2", 5, 0)]
    harness = loaded(
        epoch(5), target_epoch(5), target("m1", 1), target("m2", 0), subscription("m1"),
        subscription("m2"), *(owners[::-1] if reverse else owners),
    )  # fmt: skip
    group = harness.consumer_group()
    assert group.owner(FOO, 0) == "m2"
    assert harness.beat("m1", 4, {FOO: [0]}).error_code == 0
    assert harness.beat("m1", 4, {}).error_code == 0
    assert group.owner(FOO, 0) == "m2"
    harness.settle("m1", "m2")


def test_old_record_of_a_compacted_log_does_not_disown_a_member_that_is_away() -> None:
    """The record by which m1 gave the partition up was cleaned, because m1 has a later one."""
    harness = loaded(
        epoch(9), target_epoch(9), target("m1", 1), target("m2", 0), subscription("m1"),
        subscription("m2", instance_id="i2"), current("m1", 8, 0), current("m2", -2, 0),
        current("m1", 9, 1),
    )  # fmt: skip
    assert harness.consumer_group().owner(FOO, 0) == "m2"


@pytest.mark.parametrize(
    "gone",
    [
        [without_value(subscription())],
        [without_value(target_epoch(9))],
        [without_value(epoch(9))],
        [without_value(subscription()), without_value(epoch(9))],
    ],
    ids=["5", "6", "3", "5 and 3"],
)
def test_log_without_one_of_the_records_is_loaded(gone: list[Pair]) -> None:
    """Kafka refuses such a log; a cleaner never leaves it, but an editor may."""
    harness = loaded(*WHOLE, *gone)
    assert harness.live() == harness.replayed()
    answer = harness.enter("m1", "foo")
    assert not answer.error_code
    assert assigned(answer) is not None
    harness.settle("m1")
    assert harness.live() == harness.replayed()


def test_value_of_an_unknown_version_fails_the_partition() -> None:
    with pytest.raises(MalformedFrame):
        loaded((encode_key(epoch(1)[0]), b"\0\x07rest"))


# -- groups of two types ---------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 1])
def test_classic_group_with_members_wins_over_consumer_records(first: int) -> None:
    logs = [[generation("c1")], list(WHOLE)]
    harness = loaded(*logs[first], *logs[1 - first])
    assert list(harness.group().members) == ["c1"]
    assert harness.replayed() == {}, "its records are removed from the log"
    harness.restart()
    assert list(harness.group().members) == ["c1"]


def test_stray_record_does_not_take_the_place_of_a_classic_group() -> None:
    harness = loaded(target("m1", 0), generation("c1"))
    assert list(harness.group().members) == ["c1"]


def test_simple_classic_group_yields() -> None:
    harness = loaded(*WHOLE, generation(protocol_type=""), offset())
    assert list(harness.consumer_group().members) == ["m1"]
    assert harness.fetch("reads") == {("foo", 0): 5}


# -- sessions after a load -------------------------------------------------------------------------


def test_every_member_has_one_session_timeout_to_return() -> None:
    harness = loaded(*WHOLE)
    harness.wait(44_999)
    assert "m1" in harness.consumer_group().members
    harness.wait(1)
    group = harness.consumer_group()
    assert not group.members
    assert group.epoch == 10


def test_stable_group_does_not_rebalance_after_a_load() -> None:
    harness = ConsumerHarness({"foo": 6})
    harness.enter("m1", "foo")
    written = len(harness.written)
    harness.restart()
    assert harness.beat("m1", 2).error_code == 0
    assert len(harness.written) == written


def test_group_whose_topics_changed_while_it_was_down_rebalances() -> None:
    harness = ConsumerHarness({"foo": 6})
    harness.enter("m1", "foo")
    harness.create_topic("foo", 7)
    harness.restart()
    answer = harness.beat("m1", 2)
    assert (answer.member_epoch, assigned(answer)) == (3, {FOO: list(range(7))})
