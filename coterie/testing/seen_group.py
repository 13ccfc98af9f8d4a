"""A group as its coordinator has it at a moment, in the thread of the brokers."""

from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.offsets import fetch
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.groups.streams.group import StreamsGroup
from coterie.near_names import did_you_mean
from coterie.server.broker import Broker
from coterie.server.present import MemberSession, sessions_of
from coterie.server.share.seen_records import SharePartition
from coterie.testing.in_charge import node_of
from coterie.testing.members import Member, Partition, member_of, picture
from coterie.testing.share_partitions import share_lines, share_partitions
from coterie.testing.streams_tasks import Task, task_lines, tasks_of

_DEAD = "Dead"
_STABLE = "Stable"


class SeenGroup:
    """A group at its coordinator.

    Attributes:
        server: the broker that coordinates it.
        group: the group; None if it does not exist.
    """

    def __init__(self, server: Broker, group_id: str) -> None:
        """Look at a group of a broker."""
        self.server = server
        self.group: GroupLike | None = server.coordinator.group(group_id)
        self._group_id = group_id

    @property
    def state(self) -> str:
        """Kafka's name of its state."""
        return _DEAD if self.group is None else self.group.state_name

    @property
    def is_stable(self) -> bool:
        """Whether it is Stable."""
        return self.state == _STABLE

    @property
    def is_share(self) -> bool:
        """Whether it is a share group."""
        return isinstance(self.group, ShareGroup)

    @property
    def refuses_expulsion(self) -> bool:
        """Whether it is of a type from which nobody but a member itself removes the member."""
        return isinstance(self.group, ShareGroup | StreamsGroup)

    @property
    def generation(self) -> int:
        """Its generation or epoch; -1 if it does not exist."""
        return -1 if self.group is None else self.group.logged_generation()

    @property
    def member_count(self) -> int:
        """The number of its members."""
        return 0 if self.group is None else self.group.member_count

    @property
    def members(self) -> tuple[Member, ...]:
        """Its members, in the order in which they joined."""
        return () if self.group is None else tuple(map(member_of, self.group.seen_members()))

    @property
    def sessions(self) -> tuple[MemberSession, ...]:
        """The sessions of its members, in the same order."""
        return () if self.group is None else sessions_of(self.group, self.server.now_ms())

    @property
    def offsets(self) -> dict[Partition, int]:
        """Its committed offsets."""
        coordinator = self.server.coordinator
        shard = coordinator.shards[coordinator.partition_for(self._group_id)]
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in fetch(shard, self._group_id, None, stable=False)
            for each in topic.partitions
        }

    @property
    def share_partitions(self) -> dict[Partition, SharePartition]:
        """The partitions that it reads, if it is a share group."""
        return share_partitions(self.server, self._group_id)

    @property
    def tasks(self) -> dict[str, Task]:
        """Its tasks by their names, if it is a streams group."""
        return tasks_of(self.group)

    @property
    def lag(self) -> dict[Partition, int]:
        """How many records follow each committed offset, or are not done in a share group."""
        if self.is_share:
            lags = {key: each.lag for key, each in self.share_partitions.items()}
            return {key: each for key, each in lags.items() if each is not None}
        return {
            partition: max(0, end - offset)
            for partition, offset in self.offsets.items()
            if (end := self.end(partition)) is not None
        }

    def end(self, partition: Partition) -> int | None:
        """Return the end of a partition's log, whichever broker leads it.

        None while it is being opened or if it has failed; 0 if it is not there.
        """
        topic = self.server.topics.find(partition[0])
        found = None if topic is None else topic.partition(partition[1])
        if found is None:
            return 0
        self.server.logs.opener.open_now(found)
        log = found.opened_log
        return None if log is None else log.log_end_offset

    def partitions(self, topic: str) -> list[Partition]:
        """Return the partitions of a topic."""
        found = self.server.topics.find(topic)
        count = 0 if found is None else len(found.partitions)
        return [(topic, index) for index in range(count)]

    def pictured(self) -> str:
        """Describe why it makes no progress: what it waits for, and until when."""
        if self.group is None:
            groups = self.server.coordinator.groups()
            others = did_you_mean(self._group_id, (each.group_id for each in groups), "groups")
            text = f"group '{self._group_id}' does not exist: no client has joined or committed"
            return text + others
        lag = {} if self.is_share else self.lag
        tasks = task_lines(self.group)
        text = picture(self.group, lag, tasks, self.server.now_ms(), node_of(self.server))
        found = self.share_partitions if self.is_share else {}
        return "\n".join([text, *share_lines(self.server, self._group_id, found, self.members)])
