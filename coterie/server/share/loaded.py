"""A share partition in the memory of the leader of its partition, and who waits for it."""

from collections.abc import Callable

from coterie.coordinator.share_partition.partition import SharePartition
from coterie.coordinator.share_state.requests import ShareKey
from coterie.protocol.errors import ErrorCode
from coterie.server.logs.partition import Partition

# What the coordinator's answer to a leader means for its client
# [share-partitions/persister-errors].
_ERRORS = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
# After these what is in memory is not what counts any more.
DROPPING = (
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)


def error_of_leader(error: ErrorCode) -> ErrorCode:
    """Return the error for a client when the coordinator has refused its leader."""
    return _ERRORS.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)


class LoadedPartition:
    """A share partition that is loaded or being loaded.

    Attributes:
        key: the share partition.
        partition: the partition of the topic.
        leader_epoch: the epoch in which this broker leads it.
        state_epoch: the epoch of the persisted state.
        share: the records in flight; None while it is being loaded.
        error: why it could not be loaded; the next fetch answers with it and clears it.
        watchers: what is called once after a change by which a fetch may find records.
    """

    __slots__ = ("error", "key", "leader_epoch", "partition", "share", "state_epoch", "watchers")

    def __init__(self, key: ShareKey, partition: Partition) -> None:
        """Begin without records."""
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.state_epoch = 0
        self.share: SharePartition | None = None
        self.error = ErrorCode.NONE
        self.watchers: dict[Callable[[], None], None] = {}

    def wake(self) -> None:
        """Let the fetches that wait look again."""
        watchers, self.watchers = self.watchers, {}
        for watcher in watchers:
            watcher()
