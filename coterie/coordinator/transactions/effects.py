"""What the transaction coordinator returns: appends, replies and timers, and markers to write."""

from collections.abc import Sequence
from typing import NamedTuple

from coterie.coordinator.kernel.machine import Outcome, R
from coterie.coordinator.transactions.transaction import TopicPartition, Transaction
from coterie.protocol.control_records import TransactionMarkers


class TransactionUse(NamedTuple):
    """A request to use partitions in a transaction, from a producer or from this broker itself.

    Attributes:
        transactional_id, producer_id, producer_epoch: the producer.
        partitions: the topics and numbers of the partitions.
        add: whether the partitions are added; otherwise they have to be in the transaction.
        client_transaction_version: the level of the request [transactions/levels].
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    add: bool
    client_transaction_version: int


class Change:
    """A change of a transactional id, which is made in memory already.

    Attributes:
        transaction: the id; its present state is written.
        is_removal: whether it is forgotten.
    """

    __slots__ = ("is_removal", "transaction")

    def __init__(self, transaction: Transaction, *, is_removal: bool = False) -> None:
        self.transaction = transaction
        self.is_removal = is_removal


class TransactionEffects(Outcome[R]):
    """What a verb returns, and then what the server has to do.

    Attributes:
        markers: the markers to write; `markers_written` is to be called when they are durable.
        change: what the verb has changed; the shard makes an append of it.
    """

    __slots__ = ("change", "markers")

    def __init__(self, response: R | None = None) -> None:
        """Start without effects but the response."""
        super().__init__(response)
        self.markers: Sequence[TransactionMarkers] = ()
        self.change: Change | None = None

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to carry out but the response."""
        return not (self.replies or self.appends or self.timers or self.markers)
