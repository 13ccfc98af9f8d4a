"""One member of a share group: what its records say, and its session."""

from typing import Any

from coterie.protocol.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareTopicPartitions,
)

# The partitions of each topic id, in ascending order. A topic of which a member has lost everything
# stays with none, as in Kafka [share-groups/empty-topics].
Partitions = dict[bytes, tuple[int, ...]]


class ShareMember:
    """One member.

    The first part follows from its records, and only `set_subscription` and `set_current` change
    it. The second part is not logged.

    Attributes:
        subscription: its subscription as it is logged; None if the log has none.
        names: the topics to which it subscribes.
        current: its current assignment as it is logged; None if the log has none.
        epoch, previous_epoch: of `current`.
        assigned: the partitions that it reads.

        deadline_ms: when its session ends. Heartbeats move it and leave the timing wheel alone.
        session_ms: how long it may be silent.
        armed_ms: the deadline that its entry in the timing wheel has; 0 without an entry.
        client: who sent its latest heartbeat.
        settings: those of the group at its latest heartbeat.
        answer: the response to a heartbeat that changes nothing; None if it is not known.
    """

    __slots__ = (
        "answer", "armed_ms", "assigned", "client", "current", "deadline_ms", "epoch", "member_id",
        "names", "previous_epoch", "session_ms", "settings", "subscription",
    )  # fmt: skip

    # What members of consumer groups have, and these never.
    instance_id: str | None = None
    rebalance_timeout_ms = -1

    def __init__(self, member_id: str) -> None:
        """Create a member without records and without a session."""
        self.member_id = member_id
        self.subscription: ShareGroupMemberMetadataValue | None = None
        self.names: frozenset[str] = frozenset()
        self.current: ShareGroupCurrentMemberAssignmentValue | None = None
        self.epoch = 0
        self.previous_epoch = -1
        self.assigned: Partitions = {}
        self.deadline_ms = 0
        self.session_ms = 0
        self.armed_ms = 0
        self.client: Any = None
        self.settings: Any = None
        self.answer: Any = None

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

    def take_records(self, other: "ShareMember") -> None:
        """Take over what the log says of a member that has taken the place of this one."""
        assert other.member_id == self.member_id, f"{other} is another member than {self}"
        if other is not self:
            self.set_subscription(other.subscription)
            self.set_current(other.current)

    @property
    def is_blank(self) -> bool:
        """Whether the log says nothing of it."""
        return self.subscription is None and self.current is None

    @property
    def client_id(self) -> str:
        """The client id of its latest heartbeat."""
        return "" if self.subscription is None else self.subscription.client_id

    @property
    def client_host(self) -> str:
        """The host of its client as Java prints it."""
        return "" if self.subscription is None else self.subscription.client_host

    @property
    def rack_id(self) -> str | None:
        """Its rack."""
        return None if self.subscription is None else self.subscription.rack_id

    # -- the session -------------------------------------------------------------------------------

    def last_heard_ms(self) -> int:
        """Return when its session was last started."""
        return self.deadline_ms - self.session_ms


def partitions_of(topics: list[ShareTopicPartitions]) -> Partitions:
    """Return logged partitions by their topics, each topic's in order."""
    return {topic.topic_id: tuple(sorted(topic.partitions)) for topic in topics}


def logged_partitions(partitions: Partitions) -> list[ShareTopicPartitions]:
    """Return partitions as the log has them."""
    return [
        ShareTopicPartitions(topic_id=topic_id, partitions=list(indexes))
        for topic_id, indexes in sorted(partitions.items())
    ]
