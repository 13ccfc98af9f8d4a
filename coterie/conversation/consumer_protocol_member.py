"""A member of a group that speaks the consumer protocol (KIP-848), without input and output.

Its first heartbeat, and the first one after a lost answer or an error, says everything. Otherwise
it says what it owns only after that has changed. It chooses its member id.
"""

from collections.abc import Iterable, Mapping, Sequence

from coterie.assignors import TopicPartition
from coterie.conversation.member import Member, carried
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatTopicPartitions,
)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
# After these errors a member has lost its partitions and joins again under the same id.
FENCED = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
)


class ConsumerProtocolMember(Member):
    """One member.

    Attributes:
        names: the topics to which it subscribes.
        topic_ids: the ids of these topics, by name.
        interval_ms: the time between two heartbeats, as the latest answer said.
        says_all: whether the next heartbeat says everything.
    """

    def __init__(
        self,
        group_id: str,
        member_id: str,
        *,
        names: Sequence[str],
        topic_ids: Mapping[str, bytes],
        rebalance_ms: int,
        instance_id: str | None = None,
    ) -> None:
        """Describe a member that has not joined."""
        super().__init__(group_id, rebalance_ms=rebalance_ms, instance_id=instance_id)
        self.member_id = member_id
        self.generation_id = JOIN_EPOCH
        self.names = names
        self.topic_ids = topic_ids
        self.interval_ms = 0
        self.says_all = True
        self._said: frozenset[TopicPartition] | None = None

    def heartbeat_request(
        self, owned: Iterable[TopicPartition], version: int
    ) -> ConsumerGroupHeartbeatRequest:
        """Return its next heartbeat.

        Args:
            owned: the partitions that it has.
            version: of the request.
        """
        has = frozenset(owned)
        is_full = self.says_all or self.generation_id == JOIN_EPOCH
        values: dict[str, object] = {}
        if is_full:
            values["rebalance_timeout_ms"] = self.rebalance_ms
            values["subscribed_topic_names"] = list(self.names)
        if is_full or has != self._said:
            values["topic_partitions"] = self._listed(has)
            self._said = has
        return self._request(self.generation_id, version, **values)

    def leave_request(self, version: int) -> ConsumerGroupHeartbeatRequest:
        """Return the heartbeat of a member that leaves; a static one keeps its place."""
        epoch = LEAVE_EPOCH if self.instance_id is None else STATIC_LEAVE_EPOCH
        return self._request(epoch, version)

    def take(self, response: ConsumerGroupHeartbeatResponse) -> frozenset[TopicPartition] | None:
        """Take the answer to a heartbeat.

        Returns:
            The partitions that it shall have; None if the answer does not say.
        """
        error = response.error_code
        self.says_all = bool(error)
        if error:
            if error in FENCED:
                self.generation_id = JOIN_EPOCH
            return None
        assert response.member_id is not None, "an accepted heartbeat is answered with the id"
        self.member_id, self.generation_id = response.member_id, response.member_epoch
        self.interval_ms = response.heartbeat_interval_ms
        if response.assignment is None:
            return None
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        return frozenset(
            TopicPartition(names[topic.topic_id], index)
            for topic in response.assignment.topic_partitions
            for index in topic.partitions
        )

    def _request(self, epoch: int, version: int, **values: object) -> ConsumerGroupHeartbeatRequest:
        return carried(
            ConsumerGroupHeartbeatRequest,
            version,
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
            **values,
        )

    def _listed(self, partitions: Iterable[TopicPartition]) -> list[HeartbeatTopicPartitions]:
        indexes: dict[str, list[int]] = {}
        for topic, index in sorted(partitions):
            indexes.setdefault(topic, []).append(index)
        return [
            HeartbeatTopicPartitions(topic_id=self.topic_ids[topic], partitions=each)
            for topic, each in indexes.items()
        ]
