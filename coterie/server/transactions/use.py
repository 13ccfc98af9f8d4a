"""What Produce and TxnOffsetCommit need of the transaction coordinator."""

from collections.abc import Callable
from typing import NamedTuple

from coterie.protocol.errors import ErrorCode


class TransactionUse(NamedTuple):
    """Partitions that a transactional producer writes to.

    Attributes:
        transactional_id, producer_id, producer_epoch: as the producer names them.
        partitions: the names and numbers of the partitions.
        add: whether partitions that are not in the transaction are added to it, as
            AddPartitionsToTxn would; otherwise they are verified.
        client_transaction_version: the level of the request [transactions/levels].
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[tuple[str, int], ...]
    add: bool
    client_transaction_version: int


class TransactionUses:
    """The part of the transaction coordinator that verifies and adds partitions.

    This class is for a broker without transactions: all transactional ids are unknown.
    """

    def use_partitions(
        self,
        use: TransactionUse,  # noqa: ARG002 - for the coordinator
        done: Callable[[ErrorCode], None],  # noqa: ARG002
    ) -> ErrorCode | None:
        """Verify that partitions belong to the open transaction of a producer, or add them.

        Args:
            use: the partitions and the producer.
            done: called later, in the event loop, when the transaction's record is durable or
                could not be written.

        Returns:
            The error, NONE if all is well; None if `done` is called later, which never happens
            when partitions are only verified. The errors are those of AddPartitionsToTxn:
            TRANSACTION_ABORTABLE for a partition that is not in the transaction.
        """
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
