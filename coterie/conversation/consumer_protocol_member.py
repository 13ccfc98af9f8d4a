"""A member of a group that speaks the consumer protocol (KIP-848), without input and output.

Its first heartbeat, and the first one after a lost answer or an error, says everything. Otherwise
it says what it owns only after that has changed. It chooses its member id.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from coterie.assignors.model import TopicPartition
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

# How a member names a partition: a topic or its id, and a number.
P = TypeVar("P", bound=tuple[Any, int])


class HeartbeatMember(Member, Generic[P]):
    """One member, whatever it calls partitions.

    Attributes:
        names, regex: the topics to which it subscribes, and a regular expression; None to say
            nothing of them.
        assignor: the assignor that it asks for; None for any.
        interval_ms: the time between two heartbeats, as the latest answer said.
        says_all: whether the next heartbeat says everything.
    """

    def __init__(
        self,
        group_id: str,
        member_id: str,
        *,
        names: Sequence[str] | None,
        regex: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int,
        instance_id: str | None = None,
    ) -> None:
        """Describe a member that has not joined."""
        super().__init__(group_id, rebalance_ms=rebalance_ms, instance_id=instance_id)
        self.member_id = member_id
        self.generation_id = JOIN_EPOCH
        self.names = names
        self.regex = regex
        self.assignor = assignor
        self.interval_ms = 0
        self.says_all = True
        self._said: frozenset[P] | None = None
        # The subscription that its newest full heartbeat had.
        self._subscribed = names, regex

    def id_of(self, partition: P) -> bytes:
        """Return the id of the topic of a partition."""
        raise NotImplementedError

    def partitions(self, topic_id: bytes, indexes: Iterable[int]) -> Iterable[P]:
        """Return partitions of a topic as this member names them."""
        raise NotImplementedError

    def heartbeat_request(self, owned: Iterable[P], version: int) -> ConsumerGroupHeartbeatRequest:
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
            values["subscribed_topic_names"] = None if self.names is None else list(self.names)
            values["subscribed_topic_regex"] = self.regex
            values["server_assignor"] = self.assignor
            self._subscribed = self.names, self.regex
        if is_full or has != self._said:
            values["topic_partitions"] = self._listed(has)
            self._said = has
        return self._request(self.generation_id, version, **values)

    def leave_request(
        self, version: int, *, for_good: bool = False
    ) -> ConsumerGroupHeartbeatRequest:
        """Return the heartbeat of a member that leaves; a static one keeps its place.

        Args:
            version: of the request.
            for_good: whether a static member gives its place up.
        """
        stays = self.instance_id is not None and not for_good
        return self._request(STATIC_LEAVE_EPOCH if stays else LEAVE_EPOCH, version)

    def take(self, response: ConsumerGroupHeartbeatResponse) -> frozenset[P] | None:
        """Take the answer to a heartbeat.

        Returns:
            The partitions that it shall have; None if the answer does not say.
        """
        error = response.error_code
        self.says_all = bool(error) or self._subscribed != (self.names, self.regex)
        if error:
            if error in FENCED:
                self.generation_id = JOIN_EPOCH
            return None
        assert response.member_id is not None, "an accepted heartbeat is answered with the id"
        self.member_id, self.generation_id = response.member_id, response.member_epoch
        self.interval_ms = response.heartbeat_interval_ms
        if response.assignment is None:
            return None
        return frozenset(
            partition
            for topic in response.assignment.topic_partitions
            for partition in self.partitions(topic.topic_id, topic.partitions)
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

    def _listed(self, partitions: Iterable[P]) -> list[HeartbeatTopicPartitions]:
        indexes: dict[bytes, list[int]] = {}
        for each in sorted(partitions):
            indexes.setdefault(self.id_of(each), []).append(each[1])
        return [
            HeartbeatTopicPartitions(topic_id=topic_id, partitions=each)
            for topic_id, each in indexes.items()
        ]


class ConsumerProtocolMember(HeartbeatMember[TopicPartition]):
    """One member that names its topics.

    Attributes:
        topic_ids: the ids of these topics, by name.
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
        super().__init__(
            group_id, member_id, names=names, rebalance_ms=rebalance_ms, instance_id=instance_id
        )
        self.topic_ids = topic_ids

    def id_of(self, partition: TopicPartition) -> bytes:
        """Return the id of the topic; see `HeartbeatMember`."""
        return self.topic_ids[partition.topic]

    def partitions(self, topic_id: bytes, indexes: Iterable[int]) -> Iterable[TopicPartition]:
        """Return partitions of a topic; see `HeartbeatMember`."""
        name = next(name for name, each in self.topic_ids.items() if each == topic_id)
        return [TopicPartition(name, index) for index in indexes]
