"""The operations that change transactional ids, and a request that is not one of a client."""

from typing import NamedTuple

from coterie.coordinator.kernel.append import BatchForm
from coterie.coordinator.kernel.operation import Operation
from coterie.coordinator.transactions.states import DEAD, ENDING_STATES
from coterie.coordinator.transactions.transaction import TopicPartition, Transaction
from coterie.protocol.record_batch_layout import NO_SEQUENCE

# Each record is a batch of its own, without a producer [transactions/log-records].
_OWN_BATCH = BatchForm(0, base_sequence=NO_SEQUENCE)


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


def logging(transaction: Transaction) -> Operation:
    """Return the operation that writes a change of a transactional id, made in memory already.

    Once it is durable that a transaction is to end, its markers are written.
    """
    assert transaction.state is not DEAD, f"{transaction} is forgotten"
    operation = Operation(transaction.transactional_id, [transaction.record()])
    operation.form = _OWN_BATCH
    if transaction.state in ENDING_STATES:
        operation.completion = transaction
    return operation


def removal(transaction: Transaction) -> Operation:
    """Return the operation that forgets a transactional id."""
    assert transaction.state is DEAD, f"{transaction} is in use"
    assert transaction.waiting_end is None, f"an EndTxn waits for {transaction}"
    operation = Operation(transaction.transactional_id, [transaction.tombstone()])
    operation.form = _OWN_BATCH
    operation.removes = transaction
    return operation
