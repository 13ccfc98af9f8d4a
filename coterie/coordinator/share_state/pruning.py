"""What a partition of `__share_group_state` needs no more [share-partitions/state-pruning].

For each share partition its latest snapshot is needed, and what is behind it. So everything before
the oldest of these snapshots can be deleted. One share partition without updates would keep the
whole log; it gets a new snapshot from time to time, a cold one.

A record is known by its position: how many records were written before it since the load. Where
that is in the log, the runtime knows. The snapshots that a load has found are before all positions,
so nothing is deleted until each share partition has a newer one.

Invariant: only durable records count. What is deleted was replaced by what no crash takes back.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from coterie.coordinator.share_state.config import ShareStateConfig
from coterie.coordinator.share_state.requests import ShareKey
from coterie.coordinator.share_state.share_state import ShareState

# The position of what was written before the load.
_BEFORE = -1

# How many states of records the cold snapshots of one turn have together: about 5 ms.
COLD_STATES_AT_ONCE = 2_000


class Kind(IntEnum):
    """What a record does to a share partition."""

    UPDATE = 0
    SNAPSHOT = 1
    COLD_SNAPSHOT = 2
    TOMBSTONE = 3


class Written(NamedTuple):
    """A record that was written: the completion of its operation.

    Attributes:
        key: the share partition.
        kind: what the record is.
    """

    key: ShareKey
    kind: Kind


class Prune(NamedTuple):
    """What is asked of the runtime: to delete the records before one.

    Attributes:
        partition: the partition of `__share_group_state`.
        position: the first record to keep.
    """

    partition: int
    position: int


class Pruning:
    """The positions of the latest snapshots of a partition, and when to look at them.

    Without new records neither of the times is set: a quiet partition is left alone.

    Attributes:
        cold_ms: when share partitions get cold snapshots; None while nothing was written.
        prune_ms: when the log is pruned; None while nothing was written.
    """

    def __init__(self, config: ShareStateConfig, keys: Iterable[ShareKey] = ()) -> None:
        """Start with what a load has found.

        Args:
            config: the settings.
            keys: the share partitions that were loaded.
        """
        self.cold_ms: int | None = None
        self.prune_ms: int | None = None
        self._config = config
        self._written = 0
        self._positions = dict.fromkeys(keys, _BEFORE)
        # The share partitions that still get a snapshot in this round.
        self._cold: deque[ShareKey] = deque()

    @property
    def position(self) -> int:
        """The position of the first record that is needed; negative if it was there at the load.

        The latest record is needed in any case: an empty log would forget its leader epochs.
        """
        return min(self._positions.values(), default=self._written - 1)

    def next_ms(self) -> int | None:
        """Return the earlier one of the two times."""
        times = [each for each in (self.cold_ms, self.prune_ms) if each is not None]
        return min(times, default=None)

    def note(self, written: Written, now_ms: int) -> bool:
        """Take note of the next durable record; return whether one of the times was set."""
        key, kind = written
        if kind is Kind.TOMBSTONE:
            self._positions.pop(key, None)
        elif kind is not Kind.UPDATE:
            self._positions[key] = self._written
        self._written += 1
        moved = self.prune_ms is None
        if moved:
            self.prune_ms = now_ms + self._config.prune_interval_ms
        # Otherwise a partition that nobody uses would get snapshots for ever.
        if self.cold_ms is None and kind is not Kind.COLD_SNAPSHOT:
            self.cold_ms = now_ms + self._config.cold_interval_ms
            moved = True
        return moved

    def take_cold(self, states: Mapping[ShareKey, ShareState], now_ms: int) -> list[ShareKey]:
        """Return the share partitions that get a snapshot now: those with an old one.

        If there are many, `cold_ms` stays, and the next call returns more of them.

        Args:
            states: what there is.
            now_ms: the time.
        """
        if self.cold_ms is None or self.cold_ms > now_ms:
            return []
        if not self._cold:
            before_ms = now_ms - self._config.cold_interval_ms
            self._cold.extend(
                key for key, state in states.items() if state.snapshot_ms <= before_ms
            )
        taken: list[ShareKey] = []
        size = 0
        while self._cold and size < COLD_STATES_AT_ONCE:
            key = self._cold.popleft()
            state = states.get(key)
            # It may have been deleted since the round began.
            if state is not None:
                taken.append(key)
                size += 1 + len(state.batches)
        if not self._cold:
            self.cold_ms = None
        return taken

    def take_prune(self, now_ms: int) -> bool:
        """Return whether the log is to be pruned now."""
        if self.prune_ms is None or self.prune_ms > now_ms:
            return False
        self.prune_ms = None
        return self.position > _BEFORE
