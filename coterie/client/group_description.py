"""The description of a group and its members, in the same form for groups of all types."""

from typing import NamedTuple

from coterie.client.nodes import Node
from coterie.protocol.messages.connect_protocol import ConnectWorker

# The type of the groups of KIP-848; the others here are "classic".
CONSUMER_GROUP = "consumer"
# The type of the groups of KIP-932, whose members may have the same partitions.
SHARE_GROUP = "share"
# The type of the groups of KIP-1071, whose members are assigned tasks.
STREAMS_GROUP = "streams"
# The epoch of a static member that has left and keeps its place until its session ends.
LEFT_EPOCH = -2


class StreamsTasks(NamedTuple):
    """Tasks by their roles: the numbers of partitions by subtopology."""

    active: dict[str, list[int]]
    standby: dict[str, list[int]]
    warmup: dict[str, list[int]]


class StreamsWork(NamedTuple):
    """What a member of a streams group runs (KIP-1071).

    Attributes:
        process_id: the process that it belongs to.
        endpoint: host and port at which it answers interactive queries; None without one.
        topology_epoch: the epoch of the topology that it has.
        tasks, target: what it has, and what it is to have.
    """

    process_id: str
    endpoint: str | None
    topology_epoch: int
    tasks: StreamsTasks
    target: StreamsTasks


class DescribedSubtopology(NamedTuple):
    """A part of a topology whose tasks are assigned together.

    Attributes:
        source_topics, repartition_source_topics, state_changelog_topics: the number of partitions
            of each; None if it is not known, because the topic does not exist or the topology is
            not ready.
        repartition_sink_topics: the repartition topics that it writes to.
    """

    subtopology_id: str
    source_topics: dict[str, int | None]
    repartition_source_topics: dict[str, int | None]
    repartition_sink_topics: list[str]
    state_changelog_topics: dict[str, int | None]

    @property
    def read_topics(self) -> dict[str, int | None]:
        """The topics that its tasks read, with the numbers of their partitions."""
        return self.source_topics | self.repartition_source_topics

    @property
    def task_count(self) -> int | None:
        """The number of its tasks, that of the largest topic; None if it is not known."""
        known = [count for count in self.read_topics.values() if count is not None]
        return max(known, default=0) if len(known) == len(self.read_topics) else None


class DescribedTopology(NamedTuple):
    """The topology of a streams group (KIP-1071)."""

    epoch: int
    subtopologies: list[DescribedSubtopology]


class DescribedMember(NamedTuple):
    """A member of a group.

    Attributes:
        member_id, group_instance_id, client_id, host: as the broker returns them.
        assignment: partitions by topic; None if the bytes are not those of a consumer. In streams
            groups what the active tasks read.
        member_epoch, target_assignment: None in classic groups; only the groups of KIP-848 and of
            KIP-1071 tell the target.
        topics: the subscribed topics; None if they are not known, because the group is rebalancing
            or its members are not consumers. In streams groups what the topology reads.
        subscription_version: the version of its subscription; None if it is not known.
        worker: what a worker of Kafka Connect runs; None for other members.
        regex: the regular expression of its subscription, which the coordinator matches with the
            topics; None without one (KIP-848).
        is_classic: whether it is a member of the classic protocol in a consumer group; False also
            if the broker does not say.
        streams: its process and its tasks; None outside of streams groups.
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
    streams: StreamsWork | None = None

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
        protocol: the name of the assignor; "" while none is chosen, and in streams groups.
        group_epoch, assignment_epoch: None in classic groups.
        topology: None outside of streams groups.
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
    topology: DescribedTopology | None = None
