"""Offsets of share groups on a broker: lags, the feature, loaded share partitions, long lists."""

from typing import Any

from coterie.coordinator.groups.share.offsets import MAX_CHANGED
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from coterie.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from coterie.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.unit.server.manual import wait_for_disk
from tests.unit.server.share_clients import GROUP, Sharing

ACCEPT, RELEASE, REJECT = 1, 2, 3


class Administered(Sharing):
    """A share group with an administrator."""

    def durable(self, request: Any, version: int) -> Any:
        """Return the response to a request that may write."""
        self.client.send(request, version)
        wait_for_disk(self.client)
        wait_for_disk(self.client)
        ((_, answer),) = self.client.answers()
        return answer

    def beat(self, epoch: int, topics: list[str] | None = None) -> Any:
        """Send a heartbeat of a member of the group."""
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id="m", member_epoch=epoch, subscribed_topic_names=topics
        )
        return self.durable(request, 1)

    def alter(self, offset: int) -> Any:
        """Let the partition begin at another offset."""
        asked = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)
        topics = [AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[asked])]
        return self.durable(AlterShareGroupOffsetsRequest(group_id=GROUP, topics=topics), 0)

    def delete(self) -> Any:
        """Delete the offset of the partition."""
        topics = [DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
        return self.durable(DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=topics), 0)

    def describe(self, *partitions: int, version: int = 1) -> Any:
        """Describe partitions, or all that there are; return the group of the answer."""
        topics = [DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[*partitions])]
        group = DescribeShareGroupOffsetsRequestGroup(
            group_id=GROUP, topics=topics if partitions else None
        )
        request = DescribeShareGroupOffsetsRequest(groups=[group])
        (found,) = self.durable(request, version).groups
        return found

    def offsets(self, *partitions: int) -> list[tuple[int, int]]:
        """Return start offset and lag of partitions."""
        return [
            (each.start_offset, each.lag)
            for topic in self.describe(*partitions).topics
            for each in topic.partitions
        ]


def test_lag_is_not_known_before_the_first_write_and_counts_what_is_not_done() -> None:
    """[share-groups/describe-offsets]"""
    sharing = Administered(10)
    assert sharing.offsets(0, 7, -1) == [(-1, -1)] * 3
    member = sharing.member("m1")
    assert member.acquire() == [(0, 9, 1)]
    assert sharing.offsets(0) == [(-1, -1)]
    member.acknowledge((2, 3, ACCEPT), (5, 5, REJECT), (7, 7, RELEASE))
    assert sharing.offsets(0) == [(0, 7)]
    member.acknowledge((0, 1, ACCEPT))
    assert sharing.offsets(0) == [(0, 5)]


def test_all_partitions_are_those_of_the_group() -> None:
    sharing = Administered(3)
    assert sharing.describe().topics == []
    sharing.beat(0, ["t"])
    (topic,) = sharing.describe().topics
    assert [each.partition_index for each in topic.partitions] == [0]


def test_loaded_partition_hears_of_an_altered_offset_with_its_next_write() -> None:
    """[share-groups/alter-offsets]"""
    sharing = Administered(10)
    sharing.beat(0, ["t"])
    member = sharing.member("m1")
    assert member.acquire() == [(0, 9, 1)]
    sharing.beat(-1)
    answer = sharing.alter(4)
    assert [each.error_code for topic in answer.responses for each in topic.partitions] == [0]
    assert sharing.offsets() == [(4, 6)]
    error, _ = member.acknowledge((0, 9, ACCEPT))
    assert error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert sharing.member("m2").acquire() == [(4, 9, 1)]


def test_deleted_offset_is_initialized_anew() -> None:
    """[share-groups/delete-offsets]"""
    sharing = Administered(10)
    sharing.beat(0, ["t"])
    sharing.beat(-1)
    sharing.alter(4)
    assert [each.error_code for each in sharing.delete().responses] == [0]
    assert sharing.offsets() == []
    sharing.beat(0, ["t"])
    assert sharing.offsets() == [(-1, -1)]
    assert sharing.member("m1").acquire() == [(0, 9, 1)]


def test_switched_off_groups_have_no_offsets() -> None:
    """[share-groups/switched-off]"""
    sharing = Administered(3)
    sharing.broker.features.start_with({"share.version": 0})
    text = "The version of API is not supported."
    for answer in (sharing.alter(1), sharing.delete()):
        assert (answer.error_code, answer.error_message) == (ErrorCode.UNSUPPORTED_VERSION, text)
    assert sharing.describe(0).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_no_turn_of_a_long_description_is_long() -> None:
    """`Client.send` and the loop fail a test when a turn uses more than 20 ms of a processor."""
    sharing = Administered(3)
    assert len(sharing.offsets(*range(3_000))) == 3_000


def test_no_turn_of_a_long_change_is_long() -> None:
    """As above; what one request may change is limited for that [share-groups/alter-offsets]."""
    sharing = Administered(3)
    sharing.broker.controller.create("large", MAX_CHANGED, {})
    sharing.client.loop.turn()

    def alter(count: int) -> Any:
        asked = [
            AlterShareGroupOffsetsRequestPartition(partition_index=each, start_offset=each)
            for each in range(count)
        ]
        topics = [AlterShareGroupOffsetsRequestTopic(topic_name="large", partitions=asked)]
        request = AlterShareGroupOffsetsRequest(group_id=GROUP, topics=topics)
        sharing.client.send(request, 0)
        while not (answers := sharing.client.answers()):
            sharing.client.loop.advance(1)
            wait_for_disk(sharing.client)
        return answers[0][1]

    answer = alter(MAX_CHANGED - 1)
    assert answer.error_code == ErrorCode.NONE
    assert {each.error_code for each in answer.responses[0].partitions} == {ErrorCode.NONE}
    assert alter(MAX_CHANGED).error_code == ErrorCode.POLICY_VIOLATION
