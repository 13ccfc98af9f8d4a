"""Fencing: the coordinator itself aborts an open transaction, under the next epoch.

It does so for a new producer of the id, and for a transaction past its timeout. The markers have
the next epoch, so that nothing that the old producer sends is accepted behind them
[transactions/fence].
"""

from coterie.coordinator.kernel.operation import Operation
from coterie.coordinator.transactions.operations import logging
from coterie.coordinator.transactions.shard import TransactionShard
from coterie.coordinator.transactions.states import ONGOING
from coterie.coordinator.transactions.transaction import (
    BUMPING_LEVEL,
    NO_EPOCH,
    NO_ID,
    Transaction,
)


def fence_and_abort(
    shard: TransactionShard, transaction: Transaction, now_ms: int, level: int
) -> Operation | None:
    """Decide that an open transaction is aborted; return None if no producer id is to be had.

    Args:
        shard: the partition of the id.
        transaction: the id.
        now_ms: the time.
        level: the protocol of the server.
    """
    assert transaction.state is ONGOING, f"{transaction} has no open transaction"
    next_id = next_producer_id(shard, transaction, level)
    if next_id is None:
        return None
    if level < BUMPING_LEVEL:
        # The end itself does not raise the epoch. Level 1 is no protocol of its own.
        transaction.raise_epoch(last_epoch=NO_EPOCH)
        level = 0
    transaction.prepare(commit=False, level=level, next_id=next_id, now_ms=now_ms)
    assert not transaction.commits, f"{transaction} is aborted by the coordinator"
    return logging(transaction)


def next_producer_id(shard: TransactionShard, transaction: Transaction, level: int) -> int | None:
    """Return the producer id with which an id goes on after the end of a transaction.

    Returns:
        -1 to keep the present one; None if a new one is needed and there is none now.
    """
    if level < BUMPING_LEVEL or not transaction.is_exhausted:
        return NO_ID
    producer_id = shard.new_producer_id()
    return None if producer_id == NO_ID else producer_id
