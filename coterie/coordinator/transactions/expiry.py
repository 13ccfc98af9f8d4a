"""What time does: transactions past their timeout are aborted, unused ids are forgotten.

Both are searched for at intervals and not with a timer each, as in Kafka, so a transaction may be
open for its timeout and one interval [transactions/timeout]. A search goes
over all ids in steps, between which requests are handled.
"""

from collections.abc import Callable, Sequence
from typing import Any

from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.operation import Operation
from coterie.coordinator.transactions.fence import fence_and_abort
from coterie.coordinator.transactions.operations import removal
from coterie.coordinator.transactions.shard import TransactionShard
from coterie.coordinator.transactions.states import DEAD, ONGOING
from coterie.coordinator.transactions.transaction import NO_TIMEOUT_MS, Transaction

# How many ids are looked at in a step, which takes half a millisecond, and how many are changed: an
# abort is a record and then markers, 0.15 ms of a processor with the disk.
_LOOKED_AT_TOGETHER = 2_000
_CHANGED_TOGETHER = 16


class Search:
    """A search over the ids of all partitions."""

    __slots__ = ("_due", "_ids", "_next", "_shard", "_shards")

    def __init__(self) -> None:
        """Start without anything to search."""
        self._shards: list[TransactionShard] = []
        self._shard: TransactionShard | None = None
        # The ids of the present partition, the next one to look at, and those that are due.
        self._ids: list[Transaction] = []
        self._next = 0
        self._due: list[Transaction] = []

    @property
    def busy(self) -> bool:
        """Whether the search has not ended."""
        return bool(self._shards or self._due) or self._next < len(self._ids)

    def begin(self, shards: Sequence[TransactionShard]) -> None:
        """Begin to search some partitions; a search that has not ended is given up."""
        self._shards = list(shards[::-1])
        self._ids, self._next, self._due = [], 0, []

    def step(self, is_due: Callable[[Transaction], bool]) -> list[Transaction]:
        """Look at some ids, and return those to be changed now, all of one partition: `shard`.

        Nothing is changed while too few replicas of the partition are in sync.
        """
        assert self.busy, "a search that has ended has no steps"
        if not self._due:
            if self._next >= len(self._ids):
                self._shard = self._shards.pop()
                self._ids, self._next = list(self._shard.transactions.values()), 0
            end = self._next + _LOOKED_AT_TOGETHER
            self._due = [each for each in self._ids[self._next : end] if is_due(each)]
            self._next = end
        some, self._due = self._due[:_CHANGED_TOGETHER], self._due[_CHANGED_TOGETHER:]
        # They may have changed since they were found, or their partition was given up.
        known = {} if self.shard.holds else self.shard.transactions
        return [each for each in some if known.get(each.transactional_id) is each and is_due(each)]

    @property
    def shard(self) -> TransactionShard:
        """The present partition."""
        assert self._shard is not None, "a search has begun"
        return self._shard


def abort_timed_out(search: Search, now_ms: int, level: int, effects: Effects[Any]) -> None:
    """Abort some transactions that are open for longer than their timeout.

    Args:
        search: the search.
        now_ms: the time.
        level: the protocol of the server.
        effects: receives the appends.
    """

    def is_due(transaction: Transaction) -> bool:
        return (
            transaction.state is ONGOING
            and transaction.timeout_ms != NO_TIMEOUT_MS
            and transaction.started_ms + transaction.timeout_ms < now_ms
        )

    for transaction in search.step(is_due):
        # Without a producer id it is tried again in the next round.
        operation = fence_and_abort(search.shard, transaction, now_ms, level)
        _settle(search.shard, operation, now_ms, effects)


def remove_expired(search: Search, now_ms: int, expiration_ms: int, effects: Effects[Any]) -> None:
    """Forget some ids that were not used for `expiration_ms`."""

    def is_due(transaction: Transaction) -> bool:
        return transaction.is_closed and transaction.updated_ms <= now_ms - expiration_ms

    for transaction in search.step(is_due):
        transaction.enter(DEAD, now_ms)
        _settle(search.shard, removal(transaction), now_ms, effects)


def _settle(
    shard: TransactionShard,
    operation: Operation | None,
    now_ms: int,
    effects: Effects[Any],
) -> None:
    assert effects.operation is None, "an operation is settled before the next one"
    if operation is not None:
        effects.operation = operation
        shard.settle(effects, now_ms)
