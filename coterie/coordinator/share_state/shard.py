"""One partition of `__share_group_state`, and what the requests do to its share partitions.

A verb makes a record; memory changes as the record says when the shard applies it, by the code that
also loads the log. So what was loaded is what was there.

Invariant: a shard that is not ACTIVE has no states, but while it is loading.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.machine import OpenRecord
from coterie.coordinator.kernel.operation import Operation
from coterie.coordinator.kernel.shard import Shard, send_response
from coterie.coordinator.kernel.shard_state import ShardState
from coterie.coordinator.share_state.config import ShareStateConfig
from coterie.coordinator.share_state.pruning import Kind, Prune, Pruning, Written
from coterie.coordinator.share_state.requests import (
    NO_EPOCH,
    NO_OFFSET,
    Delete,
    Initialize,
    Read,
    ReadSummary,
    ShareKey,
    StateRequest,
    StateResult,
    Write,
    unavailable,
)
from coterie.coordinator.share_state.share_state import ShareState, tombstone
from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.errors import DEFAULT_MESSAGES, ErrorCode
from coterie.protocol.messages.record_types import UnknownValueVersion
from coterie.protocol.messages.share_state_records import (
    SHARE_STATE_RECORDS,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from coterie.protocol.primitives import PREFIX_BYTES, read_prefix
from coterie.protocol.wire import Message

_Effects = Effects[Any]

_TYPES = {
    number.to_bytes(PREFIX_BYTES, "big"): each
    for number, each in SHARE_STATE_RECORDS.by_number.items()
}
_NO_KEY = b"", ShareKey("", b"", 0)

_UNINITIALIZED_WRITE = StateResult(
    ErrorCode.INVALID_REQUEST, "Write operation on uninitialized share partition not allowed."
)
_UNINITIALIZED_READ = StateResult(
    ErrorCode.INVALID_REQUEST, "Read operation on uninitialized share partition not allowed."
)
_OLD_LEADER = StateResult(
    ErrorCode.FENCED_LEADER_EPOCH, DEFAULT_MESSAGES[ErrorCode.FENCED_LEADER_EPOCH]
)
_OLD_STATE = StateResult(
    ErrorCode.FENCED_STATE_EPOCH, DEFAULT_MESSAGES[ErrorCode.FENCED_STATE_EPOCH]
)
_UNKNOWN_TOPIC = StateResult(
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    DEFAULT_MESSAGES[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
)


class ShareStateShard(Shard):
    """One partition of the coordinator.

    Attributes:
        states: the share partitions.
        pruning: what of the log is not needed any more.
    """

    def __init__(self, partition: int, config: ShareStateConfig, topics: TopicsImage) -> None:
        """Start without states, not yet loaded."""
        super().__init__(partition)
        self.states: dict[ShareKey, ShareState] = {}
        # Writes that wait while the partition is held, each with the time at which it is late.
        self._waiting: deque[tuple[int, Operation]] = deque()
        self._config = config
        self._topics = topics
        self.pruning = Pruning(config)
        # The latest key of a load without its type. Records of a share partition come together.
        self._replayed = _NO_KEY

    # -- requests [share-partitions/state-requests] ------------------------------------------------

    def handle(self, now_ms: int, request: StateRequest) -> Effects[StateResult]:
        """Return what a request leads to."""
        if isinstance(request, Write):
            return self._write(now_ms, request)
        if isinstance(request, Read):
            return self._read(request)
        if isinstance(request, Initialize):
            return self._initialize(now_ms, request)
        if isinstance(request, Delete):
            if not self._exists(request.key):
                return Effects(_UNKNOWN_TOPIC)
            effects = Effects(StateResult())
            if request.key in self.states:
                effects.operation = _logging(request.key, tombstone(request.key))
            return effects
        return Effects(self._summary(request))

    def _initialize(self, now_ms: int, request: Initialize) -> Effects[StateResult]:
        state = self.states.get(request.key)
        if state is not None and request.state_epoch < state.state_epoch:
            return Effects(_OLD_STATE)
        if not self._exists(request.key):
            return Effects(_UNKNOWN_TOPIC)
        epoch = 0 if state is None else state.snapshot_epoch + 1
        new = ShareState(epoch, request.state_epoch, request.start_offset, now_ms)
        effects = Effects(StateResult())
        effects.operation = _logging(request.key, new.snapshot(request.key, now_ms))
        return effects

    def _read(self, request: Read) -> Effects[StateResult]:
        state = self.states.get(request.key)
        refusal = self._refusal(request.key, state, request.leader_epoch, _UNINITIALIZED_READ)
        if refusal is not None or state is None:
            return Effects(refusal)
        effects = Effects(
            StateResult(
                state_epoch=state.state_epoch,
                start_offset=state.start_offset,
                delivery_complete_count=state.delivery_complete_count,
                batches=tuple(state.batches),
            )
        )
        if request.leader_epoch > state.leader_epoch:
            record = state.update(
                request.key, request.leader_epoch, NO_OFFSET, state.delivery_complete_count, ()
            )
            effects.operation = _logging(request.key, record)
        return effects

    def _write(self, now_ms: int, request: Write) -> Effects[StateResult]:
        state = self.states.get(request.key)
        refusal = self._refusal(
            request.key, state, request.leader_epoch, _UNINITIALIZED_WRITE, request.state_epoch
        )
        if refusal is not None or state is None:
            return Effects(refusal)
        leader_epoch = max(request.leader_epoch, state.leader_epoch)
        record = state.update(
            request.key,
            leader_epoch,
            request.start_offset,
            request.delivery_complete_count,
            request.batches,
        )
        if state.updates >= self._config.updates_per_snapshot:
            merged = state.copy()
            assert isinstance(record[1], ShareUpdateValue), record
            merged.take_update(record[1])
            record = merged.next_snapshot(request.key, now_ms)
        effects = Effects(StateResult())
        effects.operation = _logging(request.key, record)
        return effects

    def _summary(self, request: ReadSummary) -> StateResult:
        state = self.states.get(request.key)
        if not self._exists(request.key):
            return _UNKNOWN_TOPIC
        if state is None:
            return StateResult()
        if request.leader_epoch != NO_EPOCH and request.leader_epoch < state.leader_epoch:
            return _OLD_LEADER
        return StateResult(
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )

    def _refusal(
        self,
        key: ShareKey,
        state: ShareState | None,
        leader_epoch: int,
        unknown: StateResult,
        state_epoch: int = NO_EPOCH,
    ) -> StateResult | None:
        """Return why a leader may not read or write a state now; None if it may."""
        if state is None:
            return unknown
        if leader_epoch != NO_EPOCH and leader_epoch < state.leader_epoch:
            return _OLD_LEADER
        if state_epoch != NO_EPOCH and state_epoch < state.state_epoch:
            return _OLD_STATE
        return None if self._exists(key) else _UNKNOWN_TOPIC

    def _exists(self, key: ShareKey) -> bool:
        topic = self._topics.by_id.get(key.topic_id)
        return topic is not None and key.partition < topic.partitions

    # -- too few replicas in sync [share-partitions/late-writes] -----------------------------------

    def hold(self, now_ms: int, effects: _Effects) -> None:
        """See `Shard`."""
        assert not self._waiting, f"partition {self.partition} has waited before it is held"
        super().hold(now_ms, effects)
        for operation in self.unacknowledged:
            self.held(operation, now_ms, effects)

    def held(self, operation: Operation, now_ms: int, effects: _Effects) -> None:
        """See `Shard`."""
        assert self.holds, f"partition {self.partition} acknowledges at once"
        self._waiting.append((now_ms + self._config.write_timeout_ms, operation))
        effects.moves_deadline = True

    def release(self, effects: _Effects) -> None:
        """See `Shard`."""
        super().release(effects)
        self._waiting.clear()

    def late_ms(self) -> int | None:
        """Return when the next write is late; None if nothing waits."""
        return self._waiting[0][0] if self._waiting else None

    def answer_late(self, now_ms: int, effects: _Effects) -> None:
        """Answer writes that have waited for too long; they may be acknowledged all the same."""
        assert self.holds, f"partition {self.partition} acknowledges at once"
        while self._waiting and self._waiting[0][0] <= now_ms:
            _, operation = self._waiting.popleft()
            if operation.response is not None:
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
                send_response(operation.to, unavailable(operation.request, error), effects)
                operation.response = None

    # -- the length of the log [share-partitions/state-pruning] ------------------------------------

    def complete(self, completion: Any, now_ms: int, effects: _Effects) -> None:
        """See `Shard`: a record is durable."""
        assert isinstance(completion, Written), completion
        if self.pruning.note(completion, now_ms):
            effects.moves_deadline = True

    def shorten_log(self, now_ms: int, effects: _Effects) -> None:
        """Write the cold snapshots that are due, and ask for the log to be pruned if that is due.

        Args:
            now_ms: the time.
            effects: receives the snapshots, and a `Prune`.
        """
        for key in self.pruning.take_cold(self.states, now_ms):
            snapshot: _Effects = Effects()
            snapshot.operation = _logging(key, self.states[key].next_snapshot(key, now_ms))
            snapshot.operation.completion = Written(key, Kind.COLD_SNAPSHOT)
            effects.absorb(self.settle(snapshot, now_ms))
        if self.pruning.take_prune(now_ms):
            effects.request(Prune(self.partition, self.pruning.position))

    # -- the shard ---------------------------------------------------------------------------------

    @property
    def is_blank(self) -> bool:
        """See `Shard`."""
        return not self.states

    def apply(
        self,
        operation: Operation,
        now_ms: int,  # noqa: ARG002 - the record has the time
        effects: _Effects,  # noqa: ARG002 - nothing follows
    ) -> None:
        """See `Shard`."""
        for key, value in operation.records:
            self._take(_share_key(key), value)

    def error_response(self, request: Any, error: ErrorCode, version: int) -> StateResult:  # noqa: ARG002 - any version
        """See `Shard`."""
        return unavailable(request, error)

    def replay(self, key_bytes: bytes | None, value_bytes: bytes | None) -> None:
        """Apply one record of the log while loading.

        Raises:
            MalformedFrame: the record is not what its type says.
        """
        record_type = None if key_bytes is None else _TYPES.get(key_bytes[:PREFIX_BYTES])
        if key_bytes is None or record_type is None:
            if key_bytes is not None:
                read_prefix(key_bytes, "the type of a record key")
            self.skipped_records += 1
            return
        body = key_bytes[PREFIX_BYTES:]
        if body != self._replayed[0]:
            self.merge_replayed()
            self._replayed = body, _share_key(record_type.key.decode(key_bytes, 0, PREFIX_BYTES))
        try:
            value = None if value_bytes is None else record_type.decode_value(value_bytes)
        except UnknownValueVersion:
            self.skipped_records += 1
            return
        state = self.states.get(self._replayed[1])
        if isinstance(value, ShareUpdateValue) and state is not None:
            state.add_update(value)
        else:
            self._take(self._replayed[1], value)

    def merge_replayed(self) -> None:
        """Merge the states of the records of the share partition that was replayed last."""
        state = self.states.get(self._replayed[1])
        if state is not None:
            state.merge()

    def _take(self, share_key: ShareKey, value: Message | None) -> None:
        """Change memory as a record says."""
        if value is None:
            self.states.pop(share_key, None)
        elif isinstance(value, ShareSnapshotValue):
            self.states[share_key] = ShareState.of_snapshot(value)
        else:
            assert isinstance(value, ShareUpdateValue), value
            state = self.states.get(share_key)
            if state is not None:
                state.take_update(value)

    def replay_open(self, _record: OpenRecord) -> None:
        """Count a record as skipped: no producer writes to this log."""
        self.skipped_records += 1

    def loaded(self, now_ms: int, effects: _Effects) -> None:
        """Forget the states of topics that were deleted meanwhile."""
        self.merge_replayed()
        self._replayed = _NO_KEY
        self.pruning = Pruning(self._config, self.states)
        self.forget_topics(lambda topic_id: topic_id not in self._topics.by_id, now_ms, effects)

    def forget(
        self,
        error: ErrorCode,  # noqa: ARG002 - no request waits for more than its own record
        failed: set[str | None],  # noqa: ARG002 - as above
        now_ms: int,  # noqa: ARG002 - as above
        effects: _Effects,  # noqa: ARG002 - as above
        state: ShardState,  # noqa: ARG002 - as above
    ) -> None:
        """See `Shard`."""
        self.states = {}
        self.pruning = Pruning(self._config)
        self._waiting.clear()

    def forget_topics(
        self, is_gone: Callable[[bytes], bool], now_ms: int, effects: _Effects
    ) -> None:
        """Delete the states of deleted topics [share-partitions/state-log].

        Args:
            is_gone: returns whether the topic of an id was deleted.
            now_ms: the time.
            effects: receives the tombstones.
        """
        for key in [each for each in self.states if is_gone(each.topic_id)]:
            deletion: _Effects = Effects()
            deletion.operation = _logging(key, tombstone(key))
            effects.absorb(self.settle(deletion, now_ms))


def _share_key(key: Message) -> ShareKey:
    assert isinstance(key, ShareSnapshotKey | ShareUpdateKey), key
    return ShareKey(key.group_id, key.topic_id, key.partition)


def _logging(key: ShareKey, record: tuple[Message, Message | None]) -> Operation:
    """Return the operation that writes a record, by which memory changes."""
    operation = Operation(key.group_id, [record])
    value = record[1]
    kind = Kind.SNAPSHOT if isinstance(value, ShareSnapshotValue) else Kind.UPDATE
    operation.completion = Written(key, Kind.TOMBSTONE if value is None else kind)
    return operation
