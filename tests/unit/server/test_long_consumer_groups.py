"""Consumer groups with as many partitions as a broker may have: no turn of the event loop is long.

`ManualLoop` and `Client.send` fail a test when a turn uses more than 20 ms of a processor.
"""

from typing import Any

import pytest

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.unit.coordinator.consumer.harness import told
from tests.unit.server.manual import Client, make_broker

TOPICS = ["big-0", "big-1"]
PARTITIONS = 9_500
MEMBERS = 600
VERSION = 1


class LargeGroup(Client):
    """The members of a group, on one connection."""

    def __init__(self) -> None:
        super().__init__(make_broker())
        for topic in TOPICS:
            self.broker.controller.create(topic, PARTITIONS, {})
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
            subscribed_topic_names=TOPICS,
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


@pytest.fixture
def client() -> LargeGroup:
    client = LargeGroup()
    for number in range(MEMBERS):
        client.enter(f"m{number}")
    return client


def test_group_comes_to_rest_and_is_described(client: LargeGroup) -> None:
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
    owned = {
        (topic.topic_name, index)
        for member in described.members
        for topic in member.assignment.topic_partitions
        for index in topic.partitions
    }
    assert owned == {(topic, index) for topic in TOPICS for index in range(PARTITIONS)}
    assert len(described.members) == MEMBERS
