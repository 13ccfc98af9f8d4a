"""The description of a group and its members, in the same form for groups of all types."""

from typing import NamedTuple

from coterie.client.nodes import Node
from coterie.protocol.messages.connect_protocol import ConnectWorker

# The type of the groups of KIP-848; the others here are "classic".
CONSUMER_GROUP = "consumer"
# The type of the groups of KIP-932, whose members may have the same partitions.
SHARE_GROUP = "share"
# The epoch of a static member that has left and keeps its place until its session ends.
LEFT_EPOCH = -2


class DescribedMember(NamedTuple):
    """A member of a group.

    Attributes:
        member_id, group_instance_id, client_id, host: as the broker returns them.
        assignment: partitions by topic; None if the bytes are not those of a consumer.
        member_epoch, target_assignment: None in classic groups; only the groups of KIP-848 tell
            the target.
        topics: the subscribed topics; None if they are not known, because the group is rebalancing
            or its members are not consumers.
        subscription_version: the version of its subscription; None if it is not known.
        worker: what a worker of Kafka Connect runs; None for other members.
        regex: the regular expression of its subscription, which the coordinator matches with the
            topics; None without one (KIP-848).
        is_classic: whether it is a member of the classic protocol in a consumer group; False also
            if the broker does not say.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: dict[str, list[int]] | None
    member_epoch: int | None = None
    target_assignment: dict[str, list[int]] | None = None
    topics: list[str] | None = None
    worker: ConnectWorker | None = None
    subscription_version: int | None = None
    regex: str | None = None
    is_classic: bool = False

    @property
    def has_left(self) -> bool:
        """Whether it is a static member that has left and keeps its place (KIP-848)."""
        return self.member_epoch == LEFT_EPOCH

    @property
    def partition_count(self) -> int:
        """The number of assigned partitions."""
        return sum(len(partitions) for partitions in (self.assignment or {}).values())


class GroupDescription(NamedTuple):
    """A group.

    Attributes:
        exists: whether there is a group of this name.
        protocol: the name of the assignor; "" while none is chosen.
        group_epoch, assignment_epoch: None in classic groups.
    """

    group_id: str
    exists: bool
    type: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: Node
    members: list[DescribedMember]
    group_epoch: int | None = None
    assignment_epoch: int | None = None
