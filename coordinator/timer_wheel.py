"""A hierarchical timing wheel over keys and deadlines (spec section 13.1). No callbacks, no clock.

Level 1 has ticks of 1 ms and 20 slots; each coarser level ticks once per turn of the finer one and
exists only when a deadline does not fit below it. A slot that gets its first entry is queued by its
expiry in one heap, so advancing costs what is due and not what is waiting. Arming is O(levels),
cancelling O(1), and there is at most one entry a key.

Invariants: an armed key is in exactly one slot; `advance(now)` returns every key whose deadline is
    at or before `now`, in order of deadline (then of arming), and none else.
"""

from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

TICK_MS = 1  # timeouts are whole milliseconds on the wire
SLOTS = 20  # Kafka's wheel size: 20 ms, 400 ms, 8 s, 160 s, 53 min ... a level


class _Slot(Generic[K]):
    """The entries of one slot of one level: key to (deadline, serial). `expiry_ms` is when the slot
    begins.
    """

    __slots__ = ("entries", "expiry_ms")

    def __init__(self) -> None:
        self.entries: dict[K, tuple[int, int]] = {}
        self.expiry_ms = -1


class _Level(Generic[K]):
    """One wheel: its tick, the time it stands at, its slots."""

    __slots__ = ("current_ms", "interval_ms", "slots", "tick_ms")

    def __init__(self, tick_ms: int, start_ms: int) -> None:
        self.tick_ms = tick_ms
        self.interval_ms = tick_ms * SLOTS
        self.current_ms = start_ms - start_ms % tick_ms
        self.slots: list[_Slot[K]] = [_Slot() for _ in range(SLOTS)]


class TimingWheel(Generic[K]):
    """Keys with deadlines in milliseconds."""

    def __init__(self, start_ms: int = 0) -> None:
        """Start standing at `start_ms`."""
        self._levels: list[_Level[K]] = [_Level(TICK_MS, start_ms)]
        self._queue: list[tuple[int, int, _Slot[K]]] = []
        self._where: dict[K, _Slot[K]] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, key: K) -> bool:
        return key in self._where

    def arm(self, key: K, deadline_ms: int) -> None:
        """Arm a key, replacing its earlier deadline. A deadline in the past is due at the next
        `advance`.
        """
        self.cancel(key)
        self._serial += 1
        self._place(key, deadline_ms, self._serial)

    def cancel(self, key: K) -> bool:
        """Forget a key; says whether it was armed."""
        slot = self._where.pop(key, None)
        if slot is None:
            return False
        del slot.entries[key]
        return True

    def next_ms(self) -> int | None:
        """The earliest time at which `advance` may have something to do: the expiry of the first
        slot in use.
        """
        queue = self._queue
        while queue and not queue[0][2].entries:
            heappop(queue)[2].expiry_ms = -1
        return queue[0][0] if queue else None

    def advance(self, now_ms: int) -> list[tuple[int, K]]:
        """Move to `now_ms` and take out what is due.

        Returns:
            (deadline in ms, key), by deadline and then by order of arming.
        """
        due: list[tuple[int, int, K]] = []
        while (expiry_ms := self.next_ms()) is not None and expiry_ms <= now_ms:
            slot = heappop(self._queue)[2]
            slot.expiry_ms = -1
            self._stand_at(expiry_ms)
            entries, slot.entries = slot.entries, {}
            for key, (deadline_ms, serial) in entries.items():
                if deadline_ms <= now_ms:
                    del self._where[key]
                    due.append((deadline_ms, serial, key))
                else:
                    self._place(key, deadline_ms, serial)
        self._stand_at(now_ms)
        due.sort(key=lambda entry: entry[:2])
        return [(deadline_ms, key) for deadline_ms, _, key in due]

    def _stand_at(self, time_ms: int) -> None:
        for level in self._levels:
            if time_ms >= level.current_ms + level.tick_ms:
                level.current_ms = time_ms - time_ms % level.tick_ms

    def _place(self, key: K, deadline_ms: int, serial: int) -> None:
        lowest = self._levels[0]
        # What is already due waits in the slot of the present tick.
        slot_ms = max(deadline_ms, lowest.current_ms)
        index = 0
        while True:
            if index == len(self._levels):
                below = self._levels[-1]
                self._levels.append(_Level(below.interval_ms, lowest.current_ms))
            level = self._levels[index]
            if slot_ms < level.current_ms + level.interval_ms:
                break
            index += 1
        number = slot_ms // level.tick_ms
        slot = level.slots[number % SLOTS]
        expiry_ms = number * level.tick_ms
        if slot.expiry_ms != expiry_ms:
            assert not slot.entries, "a slot is drained before its turn comes again"
            slot.expiry_ms = expiry_ms
            heappush(self._queue, (expiry_ms, serial, slot))
        slot.entries[key] = (deadline_ms, serial)
        self._where[key] = slot
