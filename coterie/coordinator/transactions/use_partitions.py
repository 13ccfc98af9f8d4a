"""Add partitions to a transaction, or verify that they are in it.

AddPartitionsToTxn and AddOffsetsToTxn do it for producers; Produce and TxnOffsetCommit do it for
the partitions that they write to [transactions/use-partitions].
"""

from coterie.coordinator.kernel.append import (
    BATCH_OVERHEAD_BYTES,
    MAX_BATCH_BYTES,
    RECORD_OVERHEAD_BYTES,
)
from coterie.coordinator.kernel.append_errors import LARGE_OPERATION_ERROR
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.transactions.operations import TransactionUse, logging
from coterie.coordinator.transactions.shard import TransactionShard
from coterie.coordinator.transactions.transaction import (
    LAST_EPOCH,
    TopicPartition,
    Transaction,
    can_be_logged,
)
from coterie.protocol.errors import ErrorCode

# More than what a record has beside its id and its partitions, and a topic beside its name.
_RECORD_BYTES = 200
_TOPIC_BYTES = 8
_PARTITION_BYTES = 4
_MAX_BYTES_PER_CHARACTER = 4
# So many partitions fit, even if each is of another topic with the longest name and the id is the
# longest there is.
_FIT_SURELY = 1000


def use_partitions(
    shard: TransactionShard, now_ms: int, use: TransactionUse, level: int
) -> Effects[ErrorCode]:
    """Add or verify partitions; the response is an error code, or NONE.

    Args:
        shard: the partition of the id.
        now_ms: the time.
        use: the partitions and the producer.
        level: the protocol of the server.
    """
    transaction = shard.to_change(use.transactional_id)
    error = _refusal(transaction, use)
    if error or transaction is None:
        return Effects(error)
    if transaction.has_all(use.partitions):
        return Effects(ErrorCode.NONE)
    if not use.add:
        return Effects(ErrorCode.TRANSACTION_ABORTABLE)
    if not can_be_logged(use.client_transaction_version, level):
        return Effects(ErrorCode.UNSUPPORTED_VERSION)
    if not _fits_record(transaction, use.partitions):
        return Effects(LARGE_OPERATION_ERROR)
    transaction.add(use.partitions, use.client_transaction_version, now_ms)
    assert transaction.has_all(use.partitions), f"{transaction} lacks what was added to it"
    effects = Effects(ErrorCode.NONE)
    effects.operation = logging(transaction)
    return effects


def _refusal(transaction: Transaction | None, use: TransactionUse) -> ErrorCode:
    """Return why a producer may not use the id now, or NONE.

    The order of the checks differs between adding and verifying, as in Kafka.
    """
    if transaction is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_ending = transaction.is_ending
    if use.add and is_ending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if transaction.producer_id != use.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.epoch != use.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if transaction.epoch > LAST_EPOCH:
        # It is the epoch of an abort, and no producer has it.
        return ErrorCode.PRODUCER_FENCED
    if is_ending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.NONE


def _fits_record(transaction: Transaction, partitions: tuple[TopicPartition, ...]) -> bool:
    """Return whether a transaction with more partitions fits into a record of the log."""
    present = transaction.partitions if not transaction.is_closed else {}
    count = len(present) + len(partitions)
    if count <= _FIT_SURELY:
        return True
    left_bytes = MAX_BATCH_BYTES - BATCH_OVERHEAD_BYTES - RECORD_OVERHEAD_BYTES - _RECORD_BYTES
    left_bytes -= _MAX_BYTES_PER_CHARACTER * len(transaction.transactional_id)
    left_bytes -= _PARTITION_BYTES * count
    # Names of topics are ASCII.
    topics = {topic for topic, _ in present} | {topic for topic, _ in partitions}
    return left_bytes >= sum(len(topic) + _TOPIC_BYTES for topic in topics)
