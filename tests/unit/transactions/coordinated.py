"""A transaction coordinator without a broker: its log is a list, its markers wait for a test."""

from typing import Any

from coterie.coordinator.kernel.append import Pair
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.coordinator.transactions.config import TransactionConfig
from coterie.coordinator.transactions.operations import TransactionUse
from coterie.coordinator.transactions.service import TransactionCoordinator
from coterie.coordinator.transactions.shard import TransactionShard
from coterie.coordinator.transactions.transaction import Transaction
from coterie.protocol.control_records import TransactionMarkers
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie.protocol.messages.transaction_records import (
    TRANSACTION_RECORDS,
    TransactionLogKey,
    TransactionLogValue,
)

START_MS = 1_700_000_000_000
TID = "payments"
FOO = ("foo", 0)
BAR = ("bar", 1)


class Coordinated:
    """A coordinator of one partition.

    Attributes:
        level: the level of the server.
        now_ms: the time.
        log: the records that were written, as bytes.
        markers: those that were asked for and are not written.
        replies: responses that came later, by reply address.
        is_slow: whether records stay volatile until `sync`.
        writes_markers: whether markers are written at once.
    """

    def __init__(self, level: int = 2, config: TransactionConfig | None = None) -> None:
        self.level = level
        self.now_ms = START_MS
        self.log: list[Pair] = []
        self.markers: list[TransactionMarkers] = []
        self.written: list[TransactionMarkers] = []
        self.replies: dict[object, Any] = {}
        self.is_slow = False
        self.writes_markers = True
        self.next_id = 1000
        self.has_ids = True
        self._config = TransactionConfig() if config is None else config
        self._unacknowledged = 0
        self._calls = 0
        self.coordinator = self._new()
        self._load()

    def _new(self) -> TransactionCoordinator:
        coordinator = TransactionCoordinator(
            self._config,
            self._new_id,
            lambda: self.level,
            self.now_ms,
        )
        coordinator.set_partitions(1)
        return coordinator

    def _new_id(self) -> int:
        if not self.has_ids:
            return -1
        self.next_id += 1
        return self.next_id - 1

    def _load(self, epoch: int = 0) -> None:
        self.coordinator.begin_load(0, epoch)
        newest = dict(self.log)
        for key, value in newest.items():
            self.coordinator.replay(0, key, value)
        self._apply(self.coordinator.finish_load(0, self.now_ms))

    def restart(self) -> None:
        """Start another coordinator on the log, as after a crash."""
        self.markers.clear()
        self._unacknowledged = 0
        self.coordinator = self._new()
        self._load()

    @property
    def shard(self) -> TransactionShard:
        return self.coordinator.shards[0]

    def hold(self) -> None:
        """Let too few replicas be in sync to write to the log."""
        self._apply(self.coordinator.hold(0, self.now_ms))

    def release(self) -> None:
        """Let enough replicas be in sync again."""
        self._apply(self.coordinator.release(0))

    def transaction(self, transactional_id: str = TID) -> Transaction:
        return self.shard.transactions[transactional_id]

    @property
    def state(self) -> str:
        return self.transaction().state.kafka_name

    # -- requests ----------------------------------------------------------------------------------

    def init(
        self,
        producer_id: int = -1,
        epoch: int = -1,
        *,
        transactional_id: str = TID,
        timeout_ms: int = 60_000,
        version: int = 5,
    ) -> tuple[int, int, int]:
        """Return error, producer id and epoch of an InitProducerId."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        response = self._call(self.coordinator.init_producer_id, request, version)
        assert isinstance(response, InitProducerIdResponse)
        return response.error_code, response.producer_id, response.producer_epoch

    def use(
        self,
        producer_id: int,
        epoch: int,
        *partitions: tuple[str, int],
        add: bool = True,
        level: int = 0,
        transactional_id: str = TID,
    ) -> ErrorCode:
        """Return the error of adding or verifying partitions."""
        use = TransactionUse(transactional_id, producer_id, epoch, partitions, add, level)
        error = self._call(self.coordinator.use_partitions, use, 0)
        assert isinstance(error, ErrorCode)
        return error

    def use_later(self, producer_id: int, epoch: int, *partitions: tuple[str, int]) -> Any:
        """Return the error of adding partitions; None if it comes later."""
        use = TransactionUse(TID, producer_id, epoch, partitions, True, 0)
        return self._call(self.coordinator.use_partitions, use, 0)

    def end(
        self, producer_id: int, epoch: int, *, commit: bool = True, version: int = 5
    ) -> tuple[int, int, int] | None:
        """Return error, producer id and epoch of an EndTxn; None if it waits for markers."""
        request = EndTxnRequest(
            transactional_id=TID, producer_id=producer_id, producer_epoch=epoch, committed=commit
        )
        response = self._call(self.coordinator.end_transaction, request, version)
        if response is None:
            return None
        assert isinstance(response, EndTxnResponse)
        return response.error_code, response.producer_id, response.producer_epoch

    def _call(self, verb: Any, request: Any, version: int) -> Any:
        self._calls += 1
        to = self._calls
        effects = verb(self.now_ms, request, RequestContext(ClientContext(), version, to))
        self._apply(effects)
        return effects.response if effects.response is not None else self.replies.get(to)

    def last_reply(self) -> Any:
        """Return the late response to the last request; None if there is none."""
        return self.replies.get(self._calls)

    # -- what follows ------------------------------------------------------------------------------

    def _apply(self, effects: Effects[Any]) -> None:
        for append in effects.appends:
            self.log += self.coordinator.encode(append.records)
            self._unacknowledged += 1
        for reply in effects.replies:
            assert reply.to not in self.replies, "a request is answered once"
            self.replies[reply.to] = reply.message
        self.markers += effects.markers
        assert not effects.mistakes
        if not self.is_slow:
            self.sync()
        if self.writes_markers:
            self.write_markers()

    def sync(self) -> None:
        """Let everything that was written become durable."""
        count, self._unacknowledged = self._unacknowledged, 0
        if count:
            self._apply(self.coordinator.appended([(0, count)], self.now_ms))

    def write_markers(self) -> None:
        """Let all markers be written."""
        markers, self.markers = self.markers, []
        for each in markers:
            self.written.append(each)
            self._apply(
                self.coordinator.markers_written(
                    each.log_partition,
                    each.transactional_id,
                    each.producer_id,
                    each.producer_epoch,
                    self.now_ms,
                )
            )

    def advance(self, milliseconds: int) -> None:
        """Let time pass, and let timers fire on their way."""
        end_ms = self.now_ms + milliseconds
        while True:
            deadline_ms = self.coordinator.next_deadline_ms()
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self.now_ms = max(deadline_ms, self.now_ms)
            self._apply(self.coordinator.advance(self.now_ms))
        self.now_ms = end_ms

    def fail_append(self) -> None:
        """Lose what is not durable, and load the log again."""
        del self.log[len(self.log) - self._unacknowledged :]
        self._unacknowledged = 0
        effects = self.coordinator.append_failed(0, ErrorCode.KAFKA_STORAGE_ERROR, self.now_ms)
        self._apply(effects)
        for key, value in dict(self.log).items():
            self.coordinator.replay(0, key, value)
        self._apply(self.coordinator.finish_load(0, self.now_ms))

    # -- the log -----------------------------------------------------------------------------------

    @property
    def logged(self) -> list[tuple[str, int]]:
        """State and epoch of every record of the log; a tombstone is ("tombstone", 0)."""
        found = []
        for key, value in self.log:
            decoded = TRANSACTION_RECORDS.decode_key(key)
            assert isinstance(decoded, TransactionLogKey)
            content = TRANSACTION_RECORDS.decode_value(decoded, value)
            if content is None:
                found.append(("tombstone", 0))
            else:
                assert isinstance(content, TransactionLogValue)
                restored = Transaction.restored(decoded.transactional_id, content)
                found.append((restored.state.kafka_name, restored.epoch))
        return found
