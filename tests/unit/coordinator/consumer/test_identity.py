"""Which requests are from a member, by its id, its epoch and its instance id.

[consumer-groups/member-epochs] [consumer-groups/static-members]
"""

from collections.abc import Mapping

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_facts import StaticMemberLeft
from coterie.protocol.messages.journal_records import MemberFenced
from tests.unit.coordinator.consumer.harness import ConsumerHarness, assigned, image, topic_id

FOO = topic_id("foo")
NONE, FENCED = ErrorCode.NONE, ErrorCode.FENCED_MEMBER_EPOCH


def at_epoch_4() -> ConsumerHarness:
    """Return a group whose member m1 went from epoch 3 to 4, with the partitions 0 and 1."""
    harness = ConsumerHarness({"foo": 4})
    harness.enter("m1", "foo")
    harness.enter("m2", "foo")
    harness.settle("m1", "m2")
    harness.create_topic("foo", 5)
    harness.settle("m1", "m2")
    member = harness.consumer_group().members["m1"]
    assert (member.epoch, member.previous_epoch) == (4, 3)
    return harness


@pytest.mark.parametrize(
    ("epoch", "owned", "error"),
    [
        (0, {}, NONE),
        (5, None, FENCED),
        (4, None, NONE),
        (3, {}, NONE),
        (3, {0: "all"}, NONE),
        (3, {0: "other"}, FENCED),
        (3, None, FENCED),
        (2, {}, FENCED),
    ],
)
def test_epoch_of_a_member(epoch: int, owned: Mapping[int, str] | None, error: ErrorCode) -> None:
    harness = at_epoch_4()
    group = harness.consumer_group()
    before = image(group)
    mine = {topic: list(each) for topic, each in group.members["m1"].assigned.items()}
    others = {topic: list(each) for topic, each in group.members["m2"].assigned.items()}
    told = None if owned is None else {"all": mine, "other": others, None: {}}[owned.get(0)]
    names = ["foo"] if epoch == 0 else None
    answer = harness.beat("m1", epoch, told, subscribed_topic_names=names)
    assert answer.error_code == error
    assert image(group) == before
    if error:
        size = "greater" if epoch > 4 else "smaller"
        assert f"has a {size} member epoch ({epoch})" in answer.error_message
    else:
        assert answer.member_epoch == 4


def test_refused_heartbeat_does_not_prolong_the_session() -> None:
    harness = at_epoch_4()
    harness.wait(44_000)
    harness.beat("m1", 9)
    harness.beat("m2", 4)
    harness.wait(1_000)
    assert list(harness.consumer_group().members) == ["m2"]


def test_unknown_members_and_groups() -> None:
    harness = at_epoch_4()
    assert harness.beat("m9", 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.beat("m9", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    for epoch in (4, -1):
        answer = harness.beat("m1", epoch, group_id="other")
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def static() -> ConsumerHarness:
    """Return a group with one static member."""
    harness = ConsumerHarness({"foo": 4})
    harness.enter("m1", "foo", instance_id="i1")
    return harness


def test_instance_of_a_live_member_is_refused() -> None:
    harness = static()
    for name in ("m2", "m1"):
        answer = harness.enter(name, "foo", instance_id="i1")
        assert answer.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert harness.beat("m2", 2, instance_id="i1").error_code == ErrorCode.FENCED_INSTANCE_ID
    for epoch in (-1, -2):
        answer = harness.beat("m2", epoch, instance_id="i1")
        assert answer.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert harness.beat("m1", 2, instance_id="i2").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.beat("m1", 2).error_code == NONE


def fences(harness: ConsumerHarness) -> list[tuple[str, str | None, str, int, int, int]]:
    """Return who was fenced: id and instance, who it is, the error, the epochs said and known."""
    return [
        (
            each.member_id,
            each.group_instance_id,
            each.holder,
            each.error_code,
            each.said_epoch,
            each.known_epoch,
        )
        for each in (event.fact for event in harness.events)
        if isinstance(each, MemberFenced)
    ]


def test_journal_says_who_was_fenced() -> None:
    """[journal/members] [journal/consumer-groups]"""
    harness = static()
    harness.enter("m2", "foo", instance_id="i1")
    harness.beat("m2", 2, instance_id="i1")
    harness.beat("m2", -2, instance_id="i1")
    harness.beat("m1", 7)
    harness.beat("m9", 2)
    harness.beat("m1", 2, group_id="other")
    assert fences(harness) == [
        ("m2", "i1", "m1", ErrorCode.UNRELEASED_INSTANCE_ID, 0, 2),
        ("m2", "i1", "m1", ErrorCode.FENCED_INSTANCE_ID, 2, 2),
        ("m2", "i1", "m1", ErrorCode.FENCED_INSTANCE_ID, -2, 2),
        ("m1", None, "m1", FENCED, 7, 2),
    ]


def test_journal_says_how_long_the_place_of_a_static_member_is_kept() -> None:
    """[journal/consumer-groups]"""
    harness = static()
    harness.wait(40_000)
    harness.beat("m1", -2, instance_id="i1")
    left = [each.fact for each in harness.events if isinstance(each.fact, StaticMemberLeft)]
    assert [(each.group_instance_id, each.epoch, each.kept_ms) for each in left] == [
        ("i1", 2, 5_000)
    ]


@pytest.mark.parametrize("successor", ["m1", "m2"])
def test_successor_takes_the_place_without_another_epoch(successor: str) -> None:
    harness = static()
    harness.enter("m3", "foo")
    harness.settle("m1", "m3")
    group = harness.consumer_group()
    had = {topic: sorted(each) for topic, each in group.members["m1"].assigned.items()}
    assert harness.beat("m1", -2, instance_id="i1").member_epoch == -2
    assert group.members["m1"].assigned == {FOO: dict.fromkeys(had[FOO], 0)}
    # The others do not get its partitions while it is away.
    assert harness.beat("m3", 3).assignment is None
    assert harness.beat("m1", 3, instance_id="i1").error_code == FENCED
    answer = harness.enter(successor, "foo", instance_id="i1")
    assert (answer.member_epoch, assigned(answer)) == (3, had)
    assert group.static_members == {"i1": successor}
    assert set(group.members) == {successor, "m3"}
    assert harness.live() == harness.replayed()


def test_member_that_stays_away_is_removed() -> None:
    harness = static()
    harness.wait(40_000)
    harness.beat("m1", -2, instance_id="i1")
    harness.wait(5_000)
    assert not harness.consumer_group().members
    assert harness.enter("m2", "foo", instance_id="i1").member_epoch == 4


def test_dynamic_member_gains_an_instance() -> None:
    harness = ConsumerHarness({"foo": 4})
    harness.enter("m1", "foo")
    answer = harness.enter("m1", "foo", instance_id="i1")
    assert (answer.error_code, answer.member_epoch) == (NONE, 2)
    assert harness.consumer_group().static_members == {"i1": "m1"}


def test_sessions_of_the_old_id_do_not_end_the_new_one() -> None:
    harness = static()
    harness.wait(40_000)
    harness.beat("m1", -2, instance_id="i1")
    harness.enter("m2", "foo", instance_id="i1")
    harness.wait(44_999)
    assert list(harness.consumer_group().members) == ["m2"]
    harness.wait(1)
    assert not harness.consumer_group().members
