"""Transactions over several brokers: who coordinates one, and who leads its partitions."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coterie.protocol.control_records import TransactionMarkers
from coterie.protocol.errors import ErrorCode
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.cluster.image import CoordinatorType
from coterie.server.transactions.markers import Answer, MarkerWriter
from coterie.server.transactions.use import TransactionUse, TransactionUses

if TYPE_CHECKING:
    from coterie.server.cluster.leadership import Leadership


class UsesOfCluster(TransactionUses):
    """Verifies and adds partitions at the broker that coordinates the transaction.

    A broker uses only partitions that it leads: others get NOT_LEADER_OR_FOLLOWER
    [cluster/wrong-transaction-coordinator].
    """

    def __init__(self, leadership: "Leadership", node_id: int) -> None:
        """Ask the leadership for coordinators, on behalf of the broker of this id."""
        self._leadership = leadership
        self._node_id = node_id

    def use_partitions(
        self, use: TransactionUse, done: Callable[[ErrorCode], None]
    ) -> ErrorCode | None:
        """Verify or add partitions; see the base class."""
        image = self._leadership.image
        for name, index in use.partitions:
            where = image.placed(name, index)
            if where is not None and where.leader_id != self._node_id:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
        node_id = image.coordinator(CoordinatorType.TRANSACTION, use.transactional_id)
        member = self._leadership.member(node_id)
        if member is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return member.transaction_runtime.use_partitions(use, done)


class MarkersOfCluster(MarkerWriter):
    """Has each marker appended by the broker that leads its partition."""

    def __init__(self, *parts: Any, leadership: "Leadership", node_id: int) -> None:
        """Take the parts of the base class, and the id of this broker."""
        super().__init__(*parts)
        self._leadership = leadership
        self._node_id = node_id

    def send_one(
        self, markers: TransactionMarkers, name: str, index: int, answered: Answer
    ) -> None:
        """Send a marker to the leader; there may be none, and then it is tried again."""
        where = self._leadership.image.placed(name, index)
        if where is None:
            # It does not exist, which any broker answers.
            self.write_one(markers, name, index, answered)
            return
        member = self._leadership.member(where.leader_id)
        if member is None:
            answered(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            member.markers.write_one(markers, name, index, answered)

    def write_one(
        self, markers: TransactionMarkers, name: str, index: int, answered: Answer
    ) -> None:
        """Append a marker here; a partition without a replica here is unknown.

        With too few replicas in sync it is tried again [cluster/transactions-over-brokers], but in
        the log of groups, which waits.
        """
        where = self._leadership.image.placed(name, index)
        topic = self._logs.topics.find(name)
        found = None if topic is None else topic.partition(index)
        if where is not None and self._node_id not in where.replicas:
            answered(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif name != OFFSETS_TOPIC and found is not None and found.held_end is not None:
            answered(ErrorCode.NOT_ENOUGH_REPLICAS)
        else:
            super().write_one(markers, name, index, answered)
