"""One partition of `__transaction_state`: its ids, its operations, its load and unload.

A verb changes a transaction in memory and names the change; here it becomes an append, and its
response is kept until the record is durable. A response without a change waits behind the appends
before it, so that no client acts on what could still be lost [coordinator/reads-wait]. If an append
fails, memory is discarded and the partition is loaded again [coordinator/failed-append]. So there
is no change in progress that a second request could meet, as there is in Kafka; only the time
between the decision of a transaction and its last marker is one [transactions/memory-first].

Invariants: `unacknowledged` is in the order of the log; a shard that is not ACTIVE has no ids.
"""

from collections import deque
from collections.abc import Callable, Hashable
from typing import Any

from coterie.coordinator.groups.responses import translate_append_error
from coterie.coordinator.kernel.machine import Append, BatchForm, R
from coterie.coordinator.kernel.shard_state import ACTIVE, ShardState
from coterie.coordinator.transactions.effects import Change, TransactionEffects
from coterie.coordinator.transactions.responses import end_error, end_response, error_response
from coterie.coordinator.transactions.transaction import Transaction, WaitingEnd
from coterie.protocol.control_records import TransactionMarkers
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.record_types import UnknownValueVersion
from coterie.protocol.messages.transaction_records import (
    TRANSACTION_RECORDS,
    TransactionLogKey,
    TransactionLogValue,
)
from coterie.protocol.record_batch_layout import NO_SEQUENCE

# Each record is a batch of its own, without a producer [transactions/log-records].
_OWN_BATCH = BatchForm(0, base_sequence=NO_SEQUENCE)


class Operation:
    """What a request waits for: its own record, or those of the operations before it.

    Attributes:
        has_record: whether a record was written.
        decided: the transaction whose decision that record is; None for any other.
        response: what to send when it is durable; None if nothing is to be sent then.
        request, version: the request, to build its error response if an append fails.
        to: its reply address.
    """

    __slots__ = ("decided", "has_record", "request", "response", "to", "version")

    def __init__(
        self,
        has_record: bool,  # noqa: FBT001 - the first of many values
        decided: Transaction | None,
        response: Any,
        request: Any,
        to: Hashable,
        version: int,
    ) -> None:
        self.has_record = has_record
        self.decided = decided
        self.response = response
        self.request = request
        self.to = to
        self.version = version


class TransactionShard:
    """One partition of the coordinator.

    Attributes:
        partition: its number.
        new_producer_id: returns a producer id that was never used, or -1 if there is none now.
        max_ids: how many ids it keeps [transactions/id-limit].
        epoch: the leader epoch of its latest load or unload; -1 before the first.
        state: where it is in its life.
        transactions: the ids.
        unacknowledged: the operations whose records, or whose predecessors', are not durable yet.
        skipped_records: records of the latest load that were not understood.
    """

    def __init__(self, partition: int, new_producer_id: Callable[[], int], max_ids: int) -> None:
        """Start without ids, not yet loaded."""
        self.partition = partition
        self.max_ids = max_ids
        self.new_producer_id = new_producer_id
        self.epoch = -1
        self.state = ShardState.INITIAL
        self.transactions: dict[str, Transaction] = {}
        self.unacknowledged: deque[Operation] = deque()
        self.skipped_records = 0

    # -- operations --------------------------------------------------------------------------------

    def settle(
        self,
        effects: TransactionEffects[R],
        request: Any = None,
        to: Hashable = None,
        version: int = 0,
    ) -> TransactionEffects[R]:
        """Turn what a verb returned into an operation of this shard; `effects` is changed.

        Args:
            effects: what the verb returned.
            request: the request, to build its error response if the append fails.
            to: the reply address of a delayed response.
            version: the version of the request.
        """
        assert self.state is ACTIVE, f"partition {self.partition} is {self.state}"
        change = effects.change
        decided: Transaction | None = None
        if change is not None:
            if change.transaction.is_ending:
                decided = change.transaction
            self._append(change, effects)
        elif effects.response is None or not self.unacknowledged:
            return effects
        response, effects.response = effects.response, None
        self.unacknowledged.append(
            Operation(change is not None, decided, response, request, to, version)
        )
        return effects

    def _append(self, change: Change, effects: TransactionEffects[Any]) -> None:
        """Append the record of a change."""
        transaction = change.transaction
        if change.is_removal:
            del self.transactions[transaction.transactional_id]
            record = transaction.tombstone()
        else:
            record = transaction.record()
        effects.append(Append(self.partition, [record], _OWN_BATCH))

    def appended(self, operations: int, now_ms: int, effects: TransactionEffects[Any]) -> None:
        """Acknowledge the oldest appends: send responses, ask for the markers of the decided."""
        unacknowledged = self.unacknowledged
        while unacknowledged:
            operation = unacknowledged[0]
            if operation.has_record:
                if not operations:
                    return
                operations -= 1
            unacknowledged.popleft()
            if operation.response is not None and operation.to is not None:
                effects.reply(operation.to, operation.response)
            if operation.decided is not None:
                self._end(operation.decided, now_ms, effects)
        assert not operations, "the server acknowledges the appends that it was given, and no more"

    # -- the end of a transaction ------------------------------------------------------------------

    def _end(self, transaction: Transaction, now_ms: int, effects: TransactionEffects[Any]) -> None:
        """Ask for the markers of a transaction whose decision is durable."""
        assert transaction.is_ending, f"{transaction} is not decided"
        if not transaction.partitions:
            self.complete(transaction, now_ms, effects)
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

    def complete(
        self, transaction: Transaction, now_ms: int, effects: TransactionEffects[Any]
    ) -> None:
        """End a transaction whose markers are durable, and answer its EndTxn."""
        transaction.complete(now_ms)
        effects.change = Change(transaction)
        self.settle(effects)
        effects.change = None
        self.answer_end(transaction, effects)

    def answer_end(self, transaction: Transaction, effects: TransactionEffects[Any]) -> None:
        """Answer the EndTxn of a decided transaction, if it waits [transactions/end-response]."""
        waiting, transaction.waiting_end = transaction.waiting_end, None
        if waiting is None:
            return
        effects.reply(waiting.to, end_response(transaction))

    # -- load and unload ---------------------------------------------------------------------------

    def begin_load(self, epoch: int) -> bool:
        """Start to load; return False if there is nothing to load [coordinator/epochs]."""
        if epoch <= self.epoch:
            return False
        self.epoch = epoch
        if self.state is ACTIVE or self.state is ShardState.LOADING:
            return False
        self._begin_load()
        return True

    def _begin_load(self) -> None:
        assert not self.transactions, f"partition {self.partition} is loaded twice"
        assert not self.unacknowledged, f"partition {self.partition} has operations"
        self.state = ShardState.LOADING
        self.skipped_records = 0

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
            self.transactions[transactional_id] = Transaction.restored(transactional_id, value)

    def finish_load(
        self, now_ms: int, effects: TransactionEffects[Any], skipped_records: int
    ) -> None:
        """Serve the ids that the log describes, and end the transactions that are decided."""
        assert self.state is ShardState.LOADING, f"partition {self.partition} is {self.state}"
        self.skipped_records += skipped_records
        self.state = ACTIVE
        for transaction in self.transactions.values():
            if transaction.is_ending:
                self._end(transaction, now_ms, effects)

    def append_failed(self, error: ErrorCode, effects: TransactionEffects[Any]) -> None:
        """Discard what memory holds and start to load the log again [coordinator/failed-append]."""
        self.discard(translate_append_error(error), effects, ShardState.FAILED)
        self._begin_load()

    def discard(
        self, error: ErrorCode, effects: TransactionEffects[Any], state: ShardState
    ) -> None:
        """Answer everything that waits, and forget all ids.

        Args:
            error: for the requests that wait.
            effects: receives the replies.
            state: the state afterwards.
        """
        for operation in self.unacknowledged:
            if operation.response is not None and operation.to is not None:
                response = error_response(operation.request, error, operation.version)
                effects.reply(operation.to, response)
        for transaction in self.transactions.values():
            waiting: WaitingEnd | None = transaction.waiting_end
            if waiting is not None:
                transaction.waiting_end = None
                effects.reply(waiting.to, end_error(error, waiting.version))
        self.unacknowledged.clear()
        self.transactions = {}
        self.state = state
