"""All partitions of a coordinator's topic, as its runtime sees them: a `Machine` without verbs."""

from typing import Any, Generic, TypeVar

from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.machine import OpenRecord
from coterie.coordinator.kernel.shard import Shard
from coterie.coordinator.kernel.shard_state import ShardState
from coterie.protocol.errors import ErrorCode

ShardT = TypeVar("ShardT", bound=Shard)
# The effects of one verb.
E = TypeVar("E", bound=Effects[Any])

_NEGATIVE = "a negative number would name another partition"


class Partitions(Generic[ShardT]):
    """The partitions of a topic that this broker coordinates.

    Attributes:
        shards: the partitions by number.
    """

    def __init__(self) -> None:
        """Start without partitions."""
        self.shards: list[ShardT] = []

    def applied(self, effects: E) -> E:
        """Take note of effects that leave the coordinator, such as their timers; return them."""
        assert effects.operation is None, "an operation is settled before its effects leave"
        return effects

    def epoch(self, partition: int) -> int:
        """See `Machine`."""
        return self.shards[partition].epoch

    def begin_load(self, partition: int, epoch: int) -> bool:
        """See `Machine`."""
        assert partition >= 0, _NEGATIVE
        return self.shards[partition].begin_load(epoch)

    def replay(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        """See `Machine`."""
        self.shards[partition].replay(key, value)

    def replay_open(self, partition: int, record: OpenRecord) -> None:
        """See `Machine`."""
        self.shards[partition].replay_open(record)

    def finish_load(self, partition: int, now_ms: int, skipped_records: int = 0) -> Effects[Any]:
        """See `Machine`."""
        assert partition >= 0, _NEGATIVE
        effects: Effects[Any] = Effects()
        self.shards[partition].finish_load(now_ms, effects, skipped_records)
        return self.applied(effects)

    def unload(self, partition: int, epoch: int | None, now_ms: int) -> Effects[Any]:
        """See `Machine`."""
        assert partition >= 0, _NEGATIVE
        effects: Effects[Any] = Effects()
        shard = self.shards[partition]
        if epoch is not None:
            if epoch <= shard.epoch:
                return effects
            shard.epoch = epoch
        shard.unload(now_ms, effects, ShardState.CLOSED)
        return self.applied(effects)

    def fail(self, partition: int, now_ms: int) -> Effects[Any]:
        """See `Machine`."""
        assert partition >= 0, _NEGATIVE
        effects: Effects[Any] = Effects()
        self.shards[partition].unload(now_ms, effects, ShardState.FAILED)
        return self.applied(effects)

    def appended(self, written: list[tuple[int, int]], now_ms: int) -> Effects[Any]:
        """See `Machine`."""
        effects: Effects[Any] = Effects()
        for partition, operations in written:
            self.shards[partition].appended(operations, now_ms, effects)
        return self.applied(effects)

    def hold(self, partition: int, now_ms: int) -> Effects[Any]:
        """See `Machine`."""
        assert partition >= 0, _NEGATIVE
        effects: Effects[Any] = Effects()
        self.shards[partition].hold(now_ms, effects)
        return self.applied(effects)

    def release(self, partition: int) -> Effects[Any]:
        """See `Machine`."""
        assert partition >= 0, _NEGATIVE
        effects: Effects[Any] = Effects()
        self.shards[partition].release(effects)
        return self.applied(effects)

    def append_failed(self, partition: int, error: ErrorCode, now_ms: int) -> Effects[Any]:
        """See `Machine`."""
        assert partition >= 0, _NEGATIVE
        effects: Effects[Any] = Effects()
        self.shards[partition].append_failed(error, now_ms, effects)
        return self.applied(effects)
