"""What Produce and TxnOffsetCommit need of the transaction coordinator."""

from collections.abc import Callable

from coterie.coordinator.transactions.operations import TransactionUse
from coterie.protocol.errors import ErrorCode

__all__ = ["TransactionUse", "TransactionUses"]


class TransactionUses:
    """The part of the transaction coordinator that verifies and adds partitions.

    This class is for a broker without transactions: all transactional ids are unknown.
    """

    def use_partitions(
        self,
        use: TransactionUse,  # noqa: ARG002 - for subclasses
        done: Callable[[ErrorCode], None],  # noqa: ARG002 - for subclasses
    ) -> ErrorCode | None:
        """Verify that partitions belong to the open transaction of a producer, or add them.

        Args:
            use: the partitions and the producer.
            done: called later, in the event loop, when the transaction's record is durable or
                could not be written.

        Returns:
            The error, NONE if all is well; None if `done` is called later, which never happens
            when partitions are only verified. The errors are those of AddPartitionsToTxn:
            TRANSACTION_ABORTABLE for a partition that is not in the transaction, and
            CONCURRENT_TRANSACTIONS while the transaction before it is being ended.
        """
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
