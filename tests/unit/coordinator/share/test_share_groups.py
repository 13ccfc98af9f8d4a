"""Share groups beside what transcripts show: refused operations, late answers, foreign logs."""

import random
from typing import Any

import pytest

from coterie.coordinator.groups.config import ShareGroupConfig, ShareSettings, ShareSettingsTable
from coterie.coordinator.groups.recorded.heartbeat import unchanged
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.groups.share.state_request import same_answer
from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_protocol import decode_assignment, decode_subscription
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
)
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.unit.coordinator.clients import Clients
from tests.unit.coordinator.consumer.harness import ConsumerHarness, topic_id

NO_TOPICS = TopicsImage({}, {})
# One subscription with so many names is larger than a batch, although it is one record.
TOO_MANY_NAMES = [f"{number:05}{'n' * 200}" for number in range(6_000)]


class ShareHarness(ConsumerHarness):
    """A coordinator with topics, without an interval between assignments of share groups."""

    def __init__(self) -> None:
        settings = ShareSettingsTable(ShareSettings(assignment_interval_ms=0))
        super().__init__({"foo": 2, "bar": 3}, share=ShareGroupConfig(settings=settings))

    def share_beat(self, epoch: int, *topics: str, member_id: str = "m1") -> Any:
        """Send a heartbeat; without topics the subscription stays."""
        request = ShareGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=list(topics) or None,
        )
        return self.send(request, 1, f"beat {member_id}")

    @property
    def share_group(self) -> ShareGroup:
        """A share group that must exist."""
        group = self.coordinator.group("g")
        assert isinstance(group, ShareGroup), group
        return group

    def logged(self) -> dict[str, Any]:
        """Return what the records of share groups add up to."""
        found: dict[str, Any] = {}
        for shard in self.coordinator.shards:
            found |= shard.logged.of_types["share"].values()
        return found


def _beats(seed: int, *, kept: bool) -> list[Any]:
    """Let members join, stay, change and leave at random; return what they were answered."""
    chance, harness = random.Random(seed), ShareHarness()
    harness.client = Clients(kept=kept)  # type: ignore[assignment]  # has what `send` needs
    epochs: dict[str, int] = {}
    seen: list[Any] = []
    for _ in range(150):
        name, roll = f"m{chance.randrange(3)}", chance.random()
        epoch = epochs.get(name, 0)
        topics = chance.sample(["foo", "bar"], 1 + (roll < 0.5)) if not epoch or roll > 0.97 else []
        if epoch and roll < 0.03:
            epoch, topics = -1, []
        answer = harness.share_beat(epoch, *topics, member_id=name)
        epochs[name] = 0 if answer.error_code else max(0, answer.member_epoch)
        if chance.random() < 0.3:
            harness.answer_state()
        if chance.random() < 0.1:
            harness.wait(chance.choice([10, 5_000, 40_000]))
        if chance.random() < 0.02:
            harness.create_topic("foo", harness.topics.image.by_name["foo"].partitions + 1)
        members = harness.share_group.members.values()
        seen += [repr(answer), [(each.member_id, each.deadline_ms) for each in members]]
    return [*seen, harness.written]


@pytest.mark.parametrize("seed", range(6))
def test_the_short_way_of_a_heartbeat_does_what_the_long_one_does(seed: int) -> None:
    assert _beats(seed, kept=True) == _beats(seed, kept=False)


def test_a_heartbeat_at_rest_takes_the_short_way_until_something_changes() -> None:
    harness = ShareHarness()
    harness.client = Clients(kept=True)  # type: ignore[assignment]  # has what `send` needs
    harness.share_beat(0, "foo")
    harness.answer_state()
    for _ in range(3):
        harness.share_beat(harness.share_group.members["m1"].epoch)
    request = ShareGroupHeartbeatRequest(
        group_id="g", member_id="m1", member_epoch=harness.share_group.members["m1"].epoch
    )
    client = harness.client._replace(client_id="beat m1")
    shard = harness.coordinator.shards[0]
    answer = unchanged(shard, harness.now_ms, request, client)
    assert answer is not None
    assert answer.assignment is None
    harness.create_topic("foo", 3)
    assert unchanged(shard, harness.now_ms, request, client) is None


def test_subscription_that_is_larger_than_a_batch_is_refused() -> None:
    harness = ShareHarness()
    harness.share_beat(0, "foo")
    before, since = harness.logged(), harness.share_group.initializing_since
    for epoch, member_id in ((2, "m1"), (0, "m2")):
        answer = harness.share_beat(epoch, *TOO_MANY_NAMES, member_id=member_id)
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    group = harness.share_group
    assert harness.logged() == before
    assert (group.unlogged, group.most_members, list(group.members)) == (0, 1, ["m1"])
    assert group.initializing_since == since
    assert group.members["m1"].deadline_ms == harness.now_ms + 45_000


def test_refused_first_join_leaves_no_group() -> None:
    harness = ShareHarness()
    assert harness.share_beat(0, *TOO_MANY_NAMES).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert harness.coordinator.group("g") is None
    assert not harness.logged()


def test_request_has_the_epoch_of_the_group_and_no_offset() -> None:
    """[share-groups/initialization]"""
    harness = ShareHarness()
    harness.share_beat(0, "foo")
    (request,) = harness.state_requests
    assert isinstance(request.message, InitializeShareGroupStateRequest)
    (topic,) = request.message.topics
    assert topic.topic_id == topic_id("foo")
    found = [(each.partition, each.state_epoch, each.start_offset) for each in topic.partitions]
    assert found == [(0, 2, -1), (1, 2, -1)]


def test_one_partition_that_fails_fails_all_of_its_request() -> None:
    """[share-groups/initialization]"""
    harness = ShareHarness()
    harness.share_beat(0, "foo", "bar")
    (request,) = harness.state_requests
    answer = same_answer(request.message)
    answer.results[0].partitions[0].error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    harness.state_requests.clear()
    harness.carry_out(harness.coordinator.state_answered(request, answer, harness.now_ms))
    assert harness.share_group.state_partitions.value().initializing_topics == []
    assert harness.share_group.state_partitions.value().initialized_topics == []
    harness.share_beat(2)
    assert len(harness.state_requests) == 1


def test_answer_about_a_topic_that_was_deleted_meanwhile_does_not_bring_it_back() -> None:
    """[share-groups/initialization]"""
    harness = ShareHarness()
    harness.share_beat(0, "foo", "bar")
    harness.delete_topic("foo")
    harness.answer_state()
    initialized = harness.share_group.state_partitions.initialized
    assert list(initialized) == [topic_id("bar")]


def test_answer_about_a_group_that_is_another_one_changes_nothing() -> None:
    harness = ShareHarness()
    harness.share_beat(0, "foo")
    late = harness.state_requests.pop()
    assert isinstance(late.message, InitializeShareGroupStateRequest)
    harness.share_beat(-1)
    harness.send(DeleteGroupsRequest(groups_names=["g"]), 2, "delete")
    harness.answer_state()
    assert harness.coordinator.group("g") is None
    harness.share_beat(0, "bar")
    before = harness.logged()
    answer = same_answer(late.message)
    harness.carry_out(harness.coordinator.state_answered(late, answer, harness.now_ms))
    assert harness.logged() == before


def test_group_without_members_stays_when_offsets_expire() -> None:
    """[share-groups/group-states]"""
    harness = ShareHarness()
    harness.share_beat(0, "foo")
    harness.share_beat(-1)
    harness.wait(30 * 24 * 3_600_000)
    assert harness.share_group.state_name == "Empty"


def test_new_deletion_asks_for_the_topics_of_one_that_failed() -> None:
    """[share-groups/delete]"""
    harness = ShareHarness()
    harness.share_beat(0, "foo")
    harness.answer_state()
    harness.share_beat(-1)
    for error in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE):
        harness.send(DeleteGroupsRequest(groups_names=["g"]), 2, f"delete {error}")
        ((topic,),) = [request.message.topics for request in harness.state_requests]
        assert [each.partition for each in topic.partitions] == [0, 1]
        assert harness.share_group.waits_for(harness.now_ms) is not None
        harness.answer_state(error)
    assert harness.coordinator.group("g") is None


def test_members_are_seen_with_names_of_topics() -> None:
    """A topic that was deleted is named by its id, until the member loses it."""
    harness = ShareHarness()
    harness.share_beat(0, "foo")
    harness.answer_state()
    harness.share_beat(2, "foo")
    (member,) = harness.share_group.seen_members()
    assert (member.member_id, member.instance_id, member.waits_for) == ("m1", None, None)
    assert member.metadata is not None
    assert decode_subscription(member.metadata).topics == ["foo"]
    for name, topics in (("foo", harness.share_group.topics), (topic_id("foo").hex(), NO_TOPICS)):
        harness.share_group.topics = topics
        (member,) = harness.share_group.seen_members()
        (assigned,) = decode_assignment(member.assignment).assigned_partitions
        assert (assigned.topic, assigned.partitions) == (name, [0, 1])
