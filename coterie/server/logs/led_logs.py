"""The logs of one process as one of its brokers sees them: some it leads, others it follows.

All brokers use the same logs, so a follower has every record as soon as its leader. What differs is
who answers: only the leader of a partition appends to it and is asked for its offsets. A follower
serves fetches of clients that know followers (KIP-392).

Kafka checks the leader epoch that a client expects before it looks who leads, and answers
NOT_LEADER_OR_FOLLOWER for a partition of which it has no replica.
"""

from typing import TYPE_CHECKING

from coterie.protocol.errors import ErrorCode
from coterie.protocol.records import iterate_batches
from coterie.server.logs.fetching import FetchPartition, Read
from coterie.server.logs.logs import Logs
from coterie.server.logs.partition import Partition

if TYPE_CHECKING:
    from coterie.protocol.messages.fetch import FetchResponsePartition
    from coterie.server.cluster.leadership import Leadership

# From this version of Fetch on followers serve clients.
_FOLLOWERS_SINCE = 11

_NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


class LedLogs(Logs):
    """The logs of a broker of a cluster."""

    def __init__(self, logs: Logs, leadership: "Leadership", node_id: int) -> None:
        """Use the logs of all brokers as the broker of this id, which leads what the image says."""
        super().__init__(logs.opener, logs.data, logs.topics, durable=logs.durable)
        assert node_id in leadership.image.nodes, f"broker {node_id} is not in the cluster"
        self._leadership = leadership
        self._node_id = node_id

    def leads(self, partition: Partition) -> bool:
        """Return whether this broker leads a partition."""
        where = self._leadership.image.placed(partition.topic.name, partition.index)
        return where is not None and where.leader_id == self._node_id

    def led(self, topic: str | bytes, index: int) -> Partition | ErrorCode:
        """Return a partition that this broker leads; see the base class.

        Those of the brokers' own topics are returned by each broker: that no client may write to
        them is the first reason to refuse a request.
        """
        found = super().led(topic, index)
        if isinstance(found, Partition) and not found.topic.is_own and not self.leads(found):
            return _NOT_LEADER
        return found

    def readable(
        self, topic: str | bytes, index: int, leader_epoch: int = -1, *, may_follow: bool = False
    ) -> Partition | ErrorCode:
        """Return a partition that this broker leads and can read; see the base class."""
        found = super().led(topic, index)
        if not isinstance(found, Partition):
            return found
        return self._refusal(found, leader_epoch, may_follow=may_follow) or found

    def fetch_error(self, wanted: FetchPartition, partition: Partition, version: int) -> ErrorCode:
        """Return why a Fetch of some version may not read a partition here, or NONE."""
        epoch = max(wanted.current_leader_epoch, -1)
        return self._refusal(partition, epoch, may_follow=version >= _FOLLOWERS_SINCE)

    def _refusal(self, partition: Partition, leader_epoch: int, *, may_follow: bool) -> ErrorCode:
        where = self._leadership.image.placed(partition.topic.name, partition.index)
        if where is None or self._node_id not in where.replicas:
            return _NOT_LEADER
        error = partition.epoch_error(leader_epoch)
        if not error and where.leader_id != self._node_id:
            is_followed = may_follow and self._node_id in where.isr
            return ErrorCode.NONE if is_followed else _NOT_LEADER
        return error


class ReadOfReplicas(Read):
    """What a request to a broker of a cluster reads."""

    __slots__ = ("_logs", "_version")

    def __init__(
        self,
        logs: LedLogs,
        version: int,
        max_bytes: int,
        min_bytes: int,
        max_wait_ms: int,
        isolation: int,
    ) -> None:
        """Read nothing yet; see the base class for the limits."""
        super().__init__(max_bytes, min_bytes, max_wait_ms, isolation)
        self._logs = logs
        self._version = version

    def read_partition(self, wanted: FetchPartition) -> "FetchResponsePartition":
        """Read one partition, if this broker leads or follows it."""
        partition = wanted.partition
        if partition is not None:
            error = self._logs.fetch_error(wanted, partition, self._version)
            if error:
                return self._error(wanted, error)
        found = super().read_partition(wanted)
        if partition is not None and partition.held_end is not None and not found.error_code:
            self._leave_out_unseen(partition, found)
        return found

    def _leave_out_unseen(self, partition: Partition, found: "FetchResponsePartition") -> None:
        """Leave out what is behind a high watermark that is held [cluster/held-high-watermark]."""
        assert partition.held_end is not None, f"the high watermark of {partition} is not held"
        end = partition.high_watermark
        found.high_watermark = end
        found.last_stable_offset = min(found.last_stable_offset, end)
        records = found.records or b""
        seen = 0
        for position, header in iterate_batches(records):
            if header.base_offset >= end:
                break
            seen = position + header.length_bytes
        found.records = records[:seen]
        self.size_bytes -= len(records) - seen
