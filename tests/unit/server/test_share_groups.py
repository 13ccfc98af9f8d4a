"""Share groups on a broker: handlers, settings, the feature, state."""

from typing import Any

import pytest

from coterie.coordinator.groups.share.group import ShareGroup
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from coterie.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from coterie.server.config.config import Config
from coterie.server.config.keys import InvalidValue
from tests.unit.server.manual import Client, make_broker, wait_for_disk

GROUP_RESOURCE = 32


class Members(Client):
    """The members of the share group g, on one connection; nothing is synced."""

    def __init__(self) -> None:
        super().__init__(make_broker())
        self.broker.controller.create("foo", 2, {})
        # Otherwise the state of the first group comes a second later.
        self.broker.share_state.create_topic()
        wait_for_disk(self)

    @property
    def group(self) -> ShareGroup | None:
        group = self.broker.coordinator.group("g")
        assert group is None or isinstance(group, ShareGroup)
        return group

    def beat(self, epoch: int, topics: list[str] | None = None, member_id: str = "m1") -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id="g", member_id=member_id, member_epoch=epoch, subscribed_topic_names=topics
        )
        return self.durable(request, 1)

    def durable(self, request: Any, version: int) -> Any:
        """Return the response to a request that may write."""
        self.send(request, version)
        wait_for_disk(self)
        wait_for_disk(self)
        ((_, answer),) = self.answers()
        return answer

    def computed(self, epoch: int, topics: list[str]) -> Any:
        """Return the answer to a heartbeat after a large target was computed."""
        assert self.group is not None
        assert self.group.computation is not None
        while self.group.computation is not None:
            self.loop.advance(1)
        wait_for_disk(self)
        return self.beat(epoch, topics)

    def described(self, *group_ids: str) -> list[Any]:
        request = ShareGroupDescribeRequest(group_ids=list(group_ids))
        self.send(request, 1)
        wait_for_disk(self)
        ((_, answer),) = self.answers()
        groups: list[Any] = answer.groups
        return groups


def test_member_is_assigned_partitions_after_their_state_exists() -> None:
    """[share-groups/initialization]"""
    members = Members()
    first = members.beat(0, ["foo"])
    assert (first.member_epoch, first.assignment.topic_partitions) == (2, [])
    assert members.group is not None
    assert [each.partitions for each in members.group.state_partitions.initialized.values()] == [
        frozenset({0, 1})
    ]
    members.loop.advance(1_000)
    second = members.beat(2)
    (topic,) = second.assignment.topic_partitions
    assert (second.member_epoch, topic.partitions) == (3, [0, 1])
    assert members.beat(3).assignment is None


def test_many_groups_are_described_in_parts_and_once() -> None:
    members = Members()
    members.beat(0, ["foo"])
    asked = ["", "g", *(f"absent-{number}" for number in range(20)), "g"]
    groups = members.described(*asked)
    assert [each.group_id for each in groups] == list(dict.fromkeys(["", *asked]))
    found = {each.group_id: each for each in groups}
    assert found[""].error_code == ErrorCode.INVALID_GROUP_ID
    assert found["absent-3"].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert [each.member_id for each in found["g"].members] == ["m1"]


def test_switched_off_groups_are_there_and_answer_nothing() -> None:
    """[share-groups/switched-off]"""
    members = Members()
    members.beat(0, ["foo"])
    members.broker.features.start_with({"share.version": 0})
    assert members.beat(2).error_code == ErrorCode.UNSUPPORTED_VERSION
    (group,) = members.described("g")
    assert group.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert members.group is not None


def test_group_is_deleted_when_its_state_is() -> None:
    """[share-groups/delete]"""
    members = Members()
    members.beat(0, ["foo"])
    members.beat(-1)
    answer = members.durable(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert [each.error_code for each in answer.results] == [ErrorCode.NONE]
    assert members.group is None


def test_state_of_a_deleted_topic_is_forgotten() -> None:
    """[share-groups/initialization]"""
    members = Members()
    members.beat(0, ["foo"])
    request = DeleteTopicsRequest(
        topics=[DeleteTopicsRequestTopic(name="foo")], topic_names=[], timeout_ms=1_000
    )
    members.send(request, 6)
    wait_for_disk(members)
    members.loop.advance(100)
    wait_for_disk(members)
    assert members.group is not None
    assert not members.group.state_partitions.initialized


def test_settings_of_a_group_hold_from_the_next_heartbeat_on() -> None:
    members = Members()
    assert members.beat(0, ["foo"]).heartbeat_interval_ms == 5_000
    config = IncrementalAlterConfigsRequestConfig(
        name="share.heartbeat.interval.ms", config_operation=0, value="6000"
    )
    resource = IncrementalAlterConfigsRequestResource(
        resource_type=GROUP_RESOURCE, resource_name="g", configs=[config]
    )
    members.send(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    wait_for_disk(members)
    members.answers()
    assert members.beat(2).heartbeat_interval_ms == 6_000


@pytest.mark.parametrize(
    "values",
    [
        {"group.share.session.timeout.ms": "44999"},
        {"group.share.heartbeat.interval.ms": "15001"},
        {"group.share.assignment.interval.ms": "15001"},
        {"group.share.assignors": "org.example.Own"},
        {
            "group.share.min.session.timeout.ms": "5000",
            "group.share.session.timeout.ms": "5000",
        },
    ],
)
def test_settings_that_contradict_are_refused_at_the_start(values: dict[str, str]) -> None:
    """[settings/groups]"""
    with pytest.raises(InvalidValue, match=r"group\.share"):
        Config(values)


def test_no_turn_of_a_large_group_is_long() -> None:
    """`Client.send` and the loop fail a test when a turn uses more than 20 ms of a processor."""
    members = Members()
    for number in range(2):
        members.broker.controller.create(f"big-{number}", 9_500, {})
    members.loop.turn()
    topics = ["big-0", "big-1", "foo"]
    members.beat(0, topics)
    members.loop.advance(1_000)
    members.beat(2)
    assert _count(members.computed(2, topics)) == 19_002
    for number in range(20):
        members.beat(0, topics, f"more-{number}")
    members.loop.advance(1_000)
    members.beat(3)
    assert _count(members.computed(3, topics)) in (904, 905)


def _count(answer: Any) -> int:
    return sum(len(each.partitions) for each in answer.assignment.topic_partitions)
