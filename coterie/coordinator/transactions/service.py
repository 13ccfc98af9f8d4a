"""The transaction coordinator as a whole: one method per request, in front of the shards.

A method checks what needs no id (empty names, bounds, whether the partition is available), finds
the shard of the id, and lets the verb do its work. The coordinator is pure: the time is an
argument, producer ids come from a function, and everything to write or send is returned.
"""

from collections.abc import Callable
from typing import Any

from coterie.coordinator.kernel.append import Pair, Record
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.loading import NewestRecords
from coterie.coordinator.kernel.partitions import Partitions
from coterie.coordinator.kernel.request import RequestContext
from coterie.coordinator.kernel.shard_state import ACTIVE, availability_error
from coterie.coordinator.transactions.config import TransactionConfig
from coterie.coordinator.transactions.end_transaction import end_transaction
from coterie.coordinator.transactions.expiry import Search, abort_timed_out, remove_expired
from coterie.coordinator.transactions.init_producer_id import init_producer_id
from coterie.coordinator.transactions.operations import TransactionUse
from coterie.coordinator.transactions.responses import end_error, init_error
from coterie.coordinator.transactions.shard import TransactionShard
from coterie.coordinator.transactions.use_partitions import use_partitions
from coterie.protocol.errors import ErrorCode
from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie.protocol.messages.transaction_records import (
    TRANSACTION_RECORDS,
    TransactionLogValue,
    encode_old_value,
)
from coterie.protocol.wire import Message


class TransactionCoordinator(Partitions[TransactionShard]):
    """All partitions of `__transaction_state` that this broker coordinates.

    Attributes:
        config: the settings.
        shards: the partitions by number; none before the topic exists.
    """

    def __init__(
        self,
        config: TransactionConfig,
        new_producer_id: Callable[[], int],
        level: Callable[[], int],
        start_ms: int = 0,
    ) -> None:
        """Start without partitions.

        Args:
            config: the settings.
            new_producer_id: returns a producer id that was never used; -1 if there is none now.
            level: returns the level of `transaction.version` that the broker announces.
            start_ms: the time.
        """
        super().__init__()
        self.config = config
        self._new_producer_id = new_producer_id
        self._level = level
        self._abort_ms = start_ms + config.abort_interval_ms
        self._expiry_ms = start_ms + config.expiry_interval_ms
        self._timed_out, self._expired = Search(), Search()
        # The ids whose EndTxn waits for markers, and when it is answered in any case. All wait
        # equally long, so the order is that of the deadlines.
        self._waiting: dict[str, int] = {}

    def set_partitions(self, count: int) -> None:
        """Coordinate so many partitions from now on, none of which is loaded; 0 without a topic."""
        assert count >= 0, "a number of partitions is not negative"
        assert not any(shard.transactions for shard in self.shards), "the topic is another one"
        # Hashing spreads ids evenly, so ids that were not chosen on purpose stay well below that.
        max_ids = max(1, 2 * self.config.max_ids // max(1, count))
        # Those that waited were answered when their partition was given up.
        self._waiting.clear()
        self.shards = [
            TransactionShard(each, self._new_producer_id, max_ids, self._waiting)
            for each in range(count)
        ]

    def partition_for(self, transactional_id: str) -> int:
        """Return the `__transaction_state` partition of an id [transactions/topic]."""
        return partition_for(transactional_id, len(self.shards))

    def available_shard(self, transactional_id: str) -> TransactionShard | ErrorCode:
        """Return the partition of an id, or why it cannot serve requests."""
        shards = self.shards
        if not shards:
            return ErrorCode.NOT_COORDINATOR
        shard = shards[partition_for(transactional_id, len(shards))]
        return shard if shard.state is ACTIVE else availability_error(shard.state)

    # -- requests ----------------------------------------------------------------------------------

    def init_producer_id(
        self, now_ms: int, request: InitProducerIdRequest, context: RequestContext
    ) -> Effects[InitProducerIdResponse]:
        """Handle an InitProducerId with a transactional id [transactions/init-checks]."""
        assert request.transactional_id is not None, "others are not the coordinator's"
        shard = self.available_shard(request.transactional_id)
        error = ErrorCode.NONE
        if not request.transactional_id:
            error = ErrorCode.INVALID_REQUEST
        elif not 0 < request.transaction_timeout_ms <= self.config.max_timeout_ms:
            error = ErrorCode.INVALID_TRANSACTION_TIMEOUT
        elif not isinstance(shard, TransactionShard):
            error = shard
        if error or not isinstance(shard, TransactionShard):
            return Effects(init_error(error, context.version))
        effects = init_producer_id(shard, now_ms, request, context, self._level())
        # The first id begins the searches.
        effects.moves_deadline = True
        return shard.settle(effects, now_ms, request, context.to, context.version)

    def use_partitions(
        self, now_ms: int, use: TransactionUse, context: RequestContext
    ) -> Effects[ErrorCode]:
        """Add or verify partitions of a transaction; the response is an error code.

        A verification is answered at once: a producer verifies what it knows to be added.
        """
        shard = self.available_shard(use.transactional_id)
        if not use.transactional_id:
            shard = ErrorCode.INVALID_REQUEST
        if not isinstance(shard, TransactionShard):
            return Effects(shard)
        effects = use_partitions(shard, now_ms, use, self._level())
        if not use.add:
            return effects
        return shard.settle(effects, now_ms, use, context.to, context.version)

    def end_transaction(
        self, now_ms: int, request: EndTxnRequest, context: RequestContext
    ) -> Effects[EndTxnResponse]:
        """Handle an EndTxn."""
        shard = self.available_shard(request.transactional_id)
        if not request.transactional_id:
            shard = ErrorCode.INVALID_REQUEST
        if not isinstance(shard, TransactionShard):
            return Effects(end_error(shard, context.version))
        effects = end_transaction(shard, now_ms, request, context, self._level())
        return shard.settle(effects, now_ms, request, context.to, context.version)

    def markers_written(
        self,
        partition: int,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        now_ms: int,
    ) -> Effects[Any]:
        """Complete a transaction all of whose markers are durable.

        Nothing happens if the transaction is not waiting for them any more.
        """
        assert partition >= 0, "a negative number would name another partition"
        effects: Effects[Any] = Effects()
        if partition >= len(self.shards):
            # The topic was deleted.
            return effects
        shard = self.shards[partition]
        transaction = shard.transactions.get(transactional_id)
        if (
            transaction is not None
            and transaction.is_ending
            and (transaction.producer_id, transaction.epoch) == (producer_id, producer_epoch)
        ):
            shard.markers_written(transaction, now_ms, effects)
            self._waiting.pop(transactional_id, None)
        return effects

    # -- the log -----------------------------------------------------------------------------------

    def reader(self) -> NewestRecords:
        """Return a reader for the log of a partition."""
        return NewestRecords(TRANSACTION_RECORDS)

    def encode(self, records: list[Record]) -> list[Pair]:
        """Return keys and values of records as bytes [transactions/log-records]."""
        return [self._encoded(key, value) for key, value in records]

    def _encoded(self, key: Message, value: Message | None) -> Pair:
        encoded_key = TRANSACTION_RECORDS.encode_key(key)
        if value is None:
            return encoded_key, None
        assert isinstance(value, TransactionLogValue), value
        if self._level() == 0:
            return encoded_key, encode_old_value(value)
        return encoded_key, TRANSACTION_RECORDS.encode_value(value)

    def totals(self) -> dict[str, int]:
        """Return the number of ids."""
        return {"transactional_ids": sum(len(each.transactions) for each in self.shards)}

    # -- time --------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """Return when to call `advance` next; None while there is no id."""
        # An EndTxn that waits has an id, so the search is needed only without one.
        if self._timed_out.busy or self._expired.busy:
            # At once.
            return 0
        if not self._waiting and not any(shard.transactions for shard in self.shards):
            return None
        deadline_ms = min(self._abort_ms, self._expiry_ms)
        for waiting_ms in self._waiting.values():
            return min(deadline_ms, waiting_ms)
        return deadline_ms

    def advance(self, now_ms: int) -> Effects[Any]:
        """Abort what is past its timeout, forget what has expired, and answer what waits too long.

        Ids are searched in steps, one in each call. A search that was due while there was no id is
        due now.
        """
        effects: Effects[Any] = Effects()
        if self._abort_ms <= now_ms:
            self._abort_ms = now_ms + self.config.abort_interval_ms
            self._timed_out.begin(self._active())
        if self._expiry_ms <= now_ms:
            self._expiry_ms = now_ms + self.config.expiry_interval_ms
            self._expired.begin(self._active())
        if self._timed_out.busy:
            abort_timed_out(self._timed_out, now_ms, self._level(), effects)
        if self._expired.busy:
            remove_expired(self._expired, now_ms, self.config.id_expiration_ms, effects)
        self._answer_waiting(now_ms, effects)
        return effects

    def _active(self) -> list[TransactionShard]:
        return [shard for shard in self.shards if shard.state is ACTIVE]

    def _answer_waiting(self, now_ms: int, effects: Effects[Any]) -> None:
        """Answer the EndTxn requests whose markers take too long: the decision is durable."""
        due = []
        for transactional_id, deadline_ms in self._waiting.items():
            if deadline_ms > now_ms:
                break
            due.append(transactional_id)
        for transactional_id in due:
            del self._waiting[transactional_id]
            shard = self.shards[self.partition_for(transactional_id)]
            transaction = shard.transactions.get(transactional_id)
            if transaction is not None:
                shard.answer_end(transaction, effects)
