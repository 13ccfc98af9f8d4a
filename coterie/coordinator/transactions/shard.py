"""One partition of `__transaction_state`: its ids, and the ends of their transactions.

A verb changes a transaction in memory and makes its record; the shard of the kernel does the rest.
So there is no change in progress that a second request could meet, as there is in Kafka; only the
time between the decision of a transaction and its last marker is one [transactions/memory-first].

While too few replicas are in sync nothing can be written: a verb changes a copy of the id, and the
operation is refused [cluster/too-few-in-sync].

Invariant: a shard that is not ACTIVE has no ids.
"""

from collections.abc import Callable
from typing import Any

from coterie.coordinator.kernel.append_errors import translate_append_error
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.machine import OpenRecord
from coterie.coordinator.kernel.operation import Operation
from coterie.coordinator.kernel.shard import Shard
from coterie.coordinator.kernel.shard_state import ShardState
from coterie.coordinator.transactions.operations import logging
from coterie.coordinator.transactions.responses import end_error, end_response, error_response
from coterie.coordinator.transactions.states import DEAD
from coterie.coordinator.transactions.transaction import Transaction, WaitingEnd
from coterie.protocol.control_records import TransactionMarkers
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.record_types import UnknownValueVersion
from coterie.protocol.messages.transaction_records import (
    TRANSACTION_RECORDS,
    TransactionLogKey,
    TransactionLogValue,
)

# How long an EndTxn waits for its markers [transactions/end].
MAX_END_WAIT_MS = 1_000


class TransactionShard(Shard):
    """One partition of the coordinator.

    Attributes:
        new_producer_id: returns a producer id that was never used, or -1 if there is none now.
        max_ids: how many ids it keeps [transactions/id-limit].
        transactions: the ids.
        waiting: the ids of all partitions whose EndTxn waits for markers, and until when.
    """

    def __init__(
        self,
        partition: int,
        new_producer_id: Callable[[], int],
        max_ids: int,
        waiting: dict[str, int],
    ) -> None:
        """Start without ids, not yet loaded."""
        super().__init__(partition)
        self.max_ids = max_ids
        self.new_producer_id = new_producer_id
        self.transactions: dict[str, Transaction] = {}
        self.waiting = waiting

    def to_change(self, transactional_id: str) -> Transaction | None:
        """Return an id that a request may change; a copy if the change would be refused."""
        found = self.transactions.get(transactional_id)
        assert found is None or found.transactional_id == transactional_id, f"{found} is misplaced"
        return found.draft() if self.holds and found is not None else found

    @property
    def is_blank(self) -> bool:
        """See `Shard`."""
        return not self.transactions

    # -- operations --------------------------------------------------------------------------------

    def held_error(self, operation: Operation, request: Any, now_ms: int) -> ErrorCode:
        """See `Shard`; what a request writes is refused while too few replicas are in sync.

        A new id stays in memory without an epoch, as in Kafka.
        """
        if request is None:
            return ErrorCode.NONE
        created = operation.creates
        if created is not None:
            key = created.transactional_id
            assert key not in self.transactions, f"{key} is created twice"
            self.transactions[key] = Transaction(key, created.producer_id, now_ms)
        return translate_append_error(ErrorCode.NOT_ENOUGH_REPLICAS)

    def apply(
        self,
        operation: Operation,
        now_ms: int,  # noqa: ARG002 - memory was changed at that time
        effects: Effects[Any],  # noqa: ARG002 - the markers follow when it is durable
    ) -> None:
        """See `Shard`. The verb has changed the id; here it comes and goes."""
        key, removed, created = operation.key, operation.removes, operation.creates
        assert key is not None, "each operation has a record"
        assert len(operation.records) == 1, "each operation has one record"
        assert operation.form is not None, "each record is a batch of its own"
        if removed is not None:
            assert self.transactions.get(key) is removed, f"{removed} is not known"
            del self.transactions[key]
        elif created is not None:
            assert key not in self.transactions, f"{key} exists"
            assert created.transactional_id == key, f"{created} is not of the operation"
            self.transactions[key] = created
        else:
            assert key in self.transactions, f"{key} is changed and does not exist"

    def error_response(self, request: Any, error: ErrorCode, version: int) -> Any:
        """See `Shard`."""
        return error_response(request, error, version)

    # -- the end of a transaction ------------------------------------------------------------------

    def complete(self, completion: Any, now_ms: int, effects: Effects[Any]) -> None:
        """Ask for the markers of a transaction whose decision is durable."""
        transaction = completion
        assert isinstance(transaction, Transaction), completion
        known = self.transactions.get(transaction.transactional_id)
        assert known is transaction, f"{known} took the place of {transaction}"
        if not transaction.partitions:
            self.markers_written(transaction, now_ms, effects)
            return
        markers = TransactionMarkers(
            self.partition,
            transaction.transactional_id,
            transaction.producer_id,
            transaction.epoch,
            self.epoch,
            transaction.commits,
            transaction.client_level,
            tuple(transaction.partitions),
        )
        effects.markers = [*effects.markers, markers]
        if transaction.waiting_end is not None:
            deadline_ms = now_ms + MAX_END_WAIT_MS
            latest_ms = next(reversed(self.waiting.values()), deadline_ms)
            assert latest_ms <= deadline_ms, "the earliest deadline is the first"
            self.waiting[transaction.transactional_id] = deadline_ms
            effects.moves_deadline = True

    def markers_written(self, transaction: Transaction, now_ms: int, effects: Effects[Any]) -> None:
        """End a transaction whose markers are durable, and answer its EndTxn."""
        assert effects.operation is None, "an operation is settled before the next one"
        transaction.complete(now_ms)
        effects.operation = logging(transaction)
        self.settle(effects, now_ms)
        self.answer_end(transaction, effects)

    def answer_end(self, transaction: Transaction, effects: Effects[Any]) -> None:
        """Answer the EndTxn of a decided transaction, if it waits [transactions/end]."""
        waiting, transaction.waiting_end = transaction.waiting_end, None
        if waiting is None:
            return
        effects.reply(waiting.to, end_response(transaction))

    # -- load and unload ---------------------------------------------------------------------------

    def replay(self, key_bytes: bytes | None, value_bytes: bytes | None) -> None:
        """Apply one record of the log while loading [transactions/load].

        Raises:
            MalformedFrame: the record is not what its type says.
        """
        assert self.state is ShardState.LOADING, f"partition {self.partition} is {self.state}"
        key = None if key_bytes is None else TRANSACTION_RECORDS.decode_key(key_bytes)
        if not isinstance(key, TransactionLogKey):
            self.skipped_records += 1
            return
        transactional_id = key.transactional_id
        try:
            value = TRANSACTION_RECORDS.decode_value(key, value_bytes)
        except UnknownValueVersion:
            self.skipped_records += 1
            return
        if value is None:
            self.transactions.pop(transactional_id, None)
        else:
            assert isinstance(value, TransactionLogValue), value
            transaction = Transaction.restored(transactional_id, value)
            if transaction.state is DEAD:
                # Kafka and we write a tombstone instead; other software may not.
                self.transactions.pop(transactional_id, None)
            else:
                self.transactions[transactional_id] = transaction

    def replay_open(self, _record: OpenRecord) -> None:
        """Count a record as skipped: no producer writes to this log."""
        self.skipped_records += 1

    def loaded(self, now_ms: int, effects: Effects[Any]) -> None:
        """Serve the ids that the log describes, and end the transactions that are decided."""
        for transaction in self.transactions.values():
            if transaction.is_ending:
                self.complete(transaction, now_ms, effects)
        effects.moves_deadline = bool(self.transactions)

    def forget(
        self,
        error: ErrorCode,
        failed: set[str | None],  # noqa: ARG002 - an EndTxn waits for more than its own record
        now_ms: int,  # noqa: ARG002 - there are no events
        effects: Effects[Any],
        state: ShardState,  # noqa: ARG002 - as above
    ) -> None:
        """Answer every EndTxn that waits, and forget all ids."""
        for transaction in self.transactions.values():
            waiting: WaitingEnd | None = transaction.waiting_end
            if waiting is not None:
                transaction.waiting_end = None
                effects.reply(waiting.to, end_error(error, waiting.version))
        self.transactions = {}
