"""Consumer groups with as many partitions as a broker may have: no turn of the event loop is long.

`ManualLoop` and `Client.send` fail a test when a turn uses more than 20 ms of a processor.
"""

from collections.abc import Callable
from typing import Any

import pytest

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.unit.coordinator.consumer.harness import told
from tests.unit.server.manual import Client, make_broker

TOPICS = {"big-0": 9_497, "big-1": 9_500, "small": 3}
MEMBERS = 600
VERSION = 1


class LargeGroup(Client):
    """The members of a group, on one connection."""

    def __init__(self) -> None:
        super().__init__(make_broker())
        for topic, count in TOPICS.items():
            self.broker.controller.create(topic, count, {})
        self.epochs: dict[str, int] = {}

    @property
    def group(self) -> ConsumerGroup:
        group = self.broker.coordinator.group("g")
        assert isinstance(group, ConsumerGroup)
        return group

    def enter(self, member_id: str) -> None:
        self.beat(
            member_id,
            0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=list(TOPICS),
            topic_partitions=[],
        )

    def beat(self, member_id: str, epoch: int, **fields: Any) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=member_id, member_epoch=epoch, **fields
        )
        answer = self.call(request, VERSION)
        assert not answer.error_code, answer
        self.epochs[member_id] = answer.member_epoch

    def round(self) -> None:
        """Let all members heartbeat after the interval between two assignments."""
        self.loop.advance(1_001)
        for member_id, epoch in list(self.epochs.items()):
            self.beat(
                member_id, epoch, topic_partitions=told(self.group.members[member_id].assigned)
            )


def large_group(members: int) -> LargeGroup:
    client = LargeGroup()
    for number in range(members):
        client.enter(f"m{number}")
    return client


def test_group_comes_to_rest_and_is_described() -> None:
    client = large_group(MEMBERS)
    group, rounds = client.group, 0
    client.loop.advance(1_001)
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m0", member_epoch=client.epochs["m0"]
    )
    client.send(request, VERSION)
    assert group.computation is not None, "the target is computed in parts"
    client.loop.advance(1)
    assert group.computation is None
    assert len(client.answers()) == 1
    while group.state_name != "Stable":
        client.round()
        rounds += 1
        assert rounds < 8, group
    assert sum(map(len, group.owners.values())) == 19_000
    described, absent = client.call(
        ConsumerGroupDescribeRequest(group_ids=["g", "absent"]), VERSION
    ).groups
    assert absent.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    everything = {(topic, index) for topic, count in TOPICS.items() for index in range(count)}
    assert owned_in(described) == everything
    assert len(described.members) == MEMBERS


def owned_in(described: Any) -> set[tuple[str, int]]:
    return {
        (topic.topic_name, index)
        for member in described.members
        for topic in member.assignment.topic_partitions
        for index in topic.partitions
    }


def heartbeats(client: LargeGroup) -> None:
    client.beat("m1", client.epochs["m1"], topic_partitions=[])


def leaves(client: LargeGroup) -> None:
    client.beat("m1", -1)


def commits(client: LargeGroup) -> None:
    offset = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=5, committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name="big-0", partitions=[offset])
    commit = OffsetCommitRequest(
        group_id="g",
        member_id="m1",
        generation_id_or_member_epoch=client.epochs["m1"],
        topics=[topic],
    )
    (answer,) = client.call(commit, 9).topics
    assert not answer.partitions[0].error_code


def deletes_a_topic(client: LargeGroup) -> None:
    client.send(
        DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="small")], timeout_ms=1_000), 6
    )


def empties_and_deletes(client: LargeGroup) -> None:
    for member_id in list(client.epochs):
        client.beat(member_id, -1)
    client.call(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert client.broker.coordinator.group("g") is None


def is_unloaded(client: LargeGroup) -> None:
    broker = client.broker
    broker.groups.unload_partition(broker.coordinator.partition_for("g"))


@pytest.mark.parametrize(
    "event", [heartbeats, leaves, commits, deletes_a_topic, empties_and_deletes, is_unloaded]
)
def test_group_is_described_as_it_was_when_it_was_asked_for(
    event: Callable[[LargeGroup], None],
) -> None:
    # More members than are described at once.
    client = large_group(120)
    client.round()
    before = client.call(ConsumerGroupDescribeRequest(group_ids=["g"]), VERSION).groups[0]
    admin = Client(client.broker)
    admin.send(ConsumerGroupDescribeRequest(group_ids=["g"]), VERSION)
    for _ in range(3):
        client.loop.turn_once()
    assert not admin.answers(), "it takes several slices"
    assert not client.broker.slices.idle
    event(client)
    client.loop.turn()
    ((_, answer),) = admin.answers()
    assert answer.groups == [before]
    assert len(owned_in(before)) > 1_000


def test_slices_of_a_description_are_dropped_with_their_connection() -> None:
    client = large_group(120)
    admin = Client(client.broker)
    admin.send(ConsumerGroupDescribeRequest(group_ids=["g"]), VERSION)
    client.loop.turn_once()
    admin.connection.connection_lost(None)
    client.loop.turn()
    assert client.broker.slices.idle
    assert not admin.answers()
