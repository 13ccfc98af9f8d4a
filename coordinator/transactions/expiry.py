"""What time does: transactions past their timeout are aborted, unused ids are forgotten.

Both are searched for at intervals and not with a timer each, as in Kafka, so a transaction may be
open for its timeout and one interval [transactions/timeout] [transactions/id-expiry].
"""

from collections.abc import Iterator
from typing import Any

from coterie.coordinator.transactions.effects import Change, TransactionEffects
from coterie.coordinator.transactions.fence import fence_and_abort
from coterie.coordinator.transactions.shard import TransactionShard
from coterie.coordinator.transactions.states import DEAD, ONGOING
from coterie.coordinator.transactions.transaction import NO_TIMEOUT_MS


def abort_timed_out(
    shard: TransactionShard, now_ms: int, level: int, effects: TransactionEffects[Any]
) -> None:
    """Abort the transactions of a partition that are open for longer than their timeout.

    Args:
        shard: the partition.
        now_ms: the time.
        level: the protocol of the server.
        effects: receives the appends.
    """
    for transaction in shard.transactions.values():
        if (
            transaction.state is ONGOING
            and transaction.timeout_ms != NO_TIMEOUT_MS
            and transaction.started_ms + transaction.timeout_ms < now_ms
        ):
            # Without a producer id it is tried again in the next round.
            _settle(shard, fence_and_abort(shard, transaction, now_ms, level), effects)


def remove_expired(
    shard: TransactionShard, now_ms: int, expiration_ms: int, effects: TransactionEffects[Any]
) -> None:
    """Forget the ids of a partition that were not used for `expiration_ms`."""
    for change in list(_expired(shard, now_ms - expiration_ms)):
        change.transaction.enter(DEAD, now_ms)
        _settle(shard, change, effects)


def _expired(shard: TransactionShard, before_ms: int) -> Iterator[Change]:
    for transaction in shard.transactions.values():
        if transaction.is_closed and transaction.updated_ms <= before_ms:
            yield Change(transaction, is_removal=True)


def _settle(
    shard: TransactionShard, change: Change | None, effects: TransactionEffects[Any]
) -> None:
    if change is not None:
        effects.change = change
        shard.settle(effects)
        effects.change = None
