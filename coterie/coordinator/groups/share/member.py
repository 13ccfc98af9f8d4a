"""One member of a share group: what its records say, and its session."""

from coterie.coordinator.groups.recorded.member import RecordedMember
from coterie.protocol.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareTopicPartitions,
)

# The partitions of each topic id, in ascending order. A topic of which a member has lost everything
# stays with none, as in Kafka [share-groups/reconciliation].
Partitions = dict[bytes, tuple[int, ...]]


class ShareMember(RecordedMember):
    """One member.

    Attributes:
        names: the topics to which it subscribes.
        assigned: the partitions that it reads.
    """

    __slots__ = ("assigned", "names")

    # What members of consumer groups have, and these never.
    instance_id: str | None = None
    rebalance_timeout_ms = -1

    def __init__(self, member_id: str) -> None:
        """Create a member without records and without a session."""
        super().__init__(member_id)
        self.names: frozenset[str] = frozenset()
        self.assigned: Partitions = {}

    def __repr__(self) -> str:
        return f"ShareMember({self.member_id!r}, {self.epoch}, {self.assigned})"

    # -- records -----------------------------------------------------------------------------------

    def set_subscription(self, value: ShareGroupMemberMetadataValue | None) -> None:
        """Take over what the log says of the subscription."""
        self.subscription = value
        self.answer = None
        self.names = frozenset() if value is None else frozenset(value.subscribed_topic_names)

    def set_current(self, value: ShareGroupCurrentMemberAssignmentValue | None) -> None:
        """Take over what the log says of the current assignment."""
        self.current = value
        self.answer = None
        if value is None:
            self.epoch, self.previous_epoch, self.assigned = 0, -1, {}
        else:
            self.epoch, self.previous_epoch = value.member_epoch, value.previous_member_epoch
            self.assigned = partitions_of(value.assigned_partitions)

    @property
    def client_id(self) -> str:
        """The client id of its latest heartbeat."""
        client_id: str = "" if self.subscription is None else self.subscription.client_id
        return client_id

    @property
    def rack_id(self) -> str | None:
        """Its rack."""
        rack_id: str | None = None if self.subscription is None else self.subscription.rack_id
        return rack_id


def partitions_of(topics: list[ShareTopicPartitions]) -> Partitions:
    """Return logged partitions by their topics, each topic's in order."""
    return {topic.topic_id: tuple(sorted(topic.partitions)) for topic in topics}


def logged_partitions(partitions: Partitions) -> list[ShareTopicPartitions]:
    """Return partitions as the log has them."""
    return [
        ShareTopicPartitions(topic_id=topic_id, partitions=list(indexes))
        for topic_id, indexes in sorted(partitions.items())
    ]
