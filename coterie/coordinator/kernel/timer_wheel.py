"""A hierarchical timing wheel of keys and deadlines, without callbacks and without a clock.

Level 1 has 20 slots of 1 ms. A coarser level has slots as long as the whole finer level and exists
only when a deadline does not fit the finer levels (ADR 4). A slot that receives its first entry is
queued by the time at which it begins; so advancing costs what is due, and not what is armed. Arming
costs the number of levels, cancelling is constant.

Invariants: an armed key is in exactly one slot; `advance(now)` returns every key whose deadline is
at or before `now` and no other, in the order of deadlines and then of arming [sessions/timers].
"""

from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

TICK_MS = 1  # timeouts are whole milliseconds on the wire
SLOTS = 20  # Kafka's wheel size: the levels span 20 ms, 400 ms, 8 s, 160 s, 53 min, ...


class _Slot(Generic[K]):
    """The entries of one slot of one level.

    Attributes:
        entries: in no order.
        expiry_ms: when the slot begins, while it is queued; -1 otherwise.
    """

    __slots__ = ("entries", "expiry_ms")

    def __init__(self) -> None:
        self.entries: set[_Entry[K]] = set()
        self.expiry_ms = -1


class _Entry(Generic[K]):
    """A key that is armed.

    Attributes:
        key: the key.
        deadline_ms: its deadline.
        serial: its place in the order of arming.
        slot: the slot that has the entry.
    """

    __slots__ = ("deadline_ms", "key", "serial", "slot")

    def __init__(self, key: K, deadline_ms: int, serial: int, slot: _Slot[K]) -> None:
        self.key = key
        self.deadline_ms = deadline_ms
        self.serial = serial
        self.slot = slot


class _Level(Generic[K]):
    """One level of the wheel.

    Attributes:
        tick_ms: the length of a slot.
        interval_ms: the length of all slots.
        current_ms: the beginning of the slot in which the present time lies.
    """

    __slots__ = ("current_ms", "interval_ms", "slots", "tick_ms")

    def __init__(self, tick_ms: int, start_ms: int) -> None:
        self.tick_ms = tick_ms
        self.interval_ms = tick_ms * SLOTS
        self.current_ms = start_ms - start_ms % tick_ms
        self.slots: list[_Slot[K]] = [_Slot() for _ in range(SLOTS)]


class TimingWheel(Generic[K]):
    """Keys with deadlines in milliseconds."""

    def __init__(self, start_ms: int = 0) -> None:
        """Start without keys at the time `start_ms`."""
        self._levels: list[_Level[K]] = [_Level(TICK_MS, start_ms)]
        # Slots that have had an entry since they were last drained: (expiry_ms, serial, slot).
        self._queue: list[tuple[int, int, _Slot[K]]] = []
        self._entry_of: dict[K, _Entry[K]] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._entry_of)

    def __contains__(self, key: K) -> bool:
        return key in self._entry_of

    def deadline_ms(self, key: K) -> int | None:
        """Return the deadline of a key, or None if it is not armed."""
        entry = self._entry_of.get(key)
        return None if entry is None else entry.deadline_ms

    def arm(self, key: K, deadline_ms: int) -> None:
        """Arm a key, replacing its earlier deadline. One that has passed is due at once."""
        self._serial += 1
        serial = self._serial
        entry = self._entry_of.get(key)
        if entry is not None:
            entry.slot.entries.remove(entry)
        slot = self._slot_for(deadline_ms, serial)
        if entry is None:
            entry = self._entry_of[key] = _Entry(key, deadline_ms, serial, slot)
        else:
            entry.deadline_ms, entry.serial, entry.slot = deadline_ms, serial, slot
        slot.entries.add(entry)

    def cancel(self, key: K) -> bool:
        """Disarm a key; return whether it was armed."""
        entry = self._entry_of.pop(key, None)
        if entry is None:
            return False
        entry.slot.entries.remove(entry)
        return True

    def next_ms(self) -> int | None:
        """Return the earliest time at which `advance` may have something to do, or None."""
        queue = self._queue
        while queue and not queue[0][2].entries:
            expiry_ms, _, slot = heappop(queue)
            assert slot.expiry_ms == expiry_ms, "a slot without entries is queued once"
            slot.expiry_ms = -1
        return queue[0][0] if queue else None

    def advance(self, now_ms: int) -> list[tuple[int, K]]:
        """Move to the time `now_ms` and disarm what is due.

        Returns:
            (deadline in ms, key), by deadline and then by the order of arming.
        """
        due: list[tuple[int, int, K]] = []
        while (expiry_ms := self.next_ms()) is not None and expiry_ms <= now_ms:
            slot = heappop(self._queue)[2]
            assert slot.expiry_ms == expiry_ms, "a slot is queued once, by its present expiry"
            slot.expiry_ms = -1
            self._move_to(expiry_ms)
            entries, slot.entries = slot.entries, set()
            for entry in entries:
                assert entry.slot is slot, f"{entry.key} is in two slots"
                if entry.deadline_ms <= now_ms:
                    del self._entry_of[entry.key]
                    due.append((entry.deadline_ms, entry.serial, entry.key))
                else:
                    # The slot of a coarse level has begun: its entries go to finer levels.
                    entry.slot = self._slot_for(entry.deadline_ms, entry.serial)
                    entry.slot.entries.add(entry)
        self._move_to(now_ms)
        # No two have the same serial, so keys are not compared.
        due.sort()
        return [(deadline_ms, key) for deadline_ms, _, key in due]

    def _move_to(self, time_ms: int) -> None:
        for level in self._levels:
            if time_ms >= level.current_ms + level.tick_ms:
                level.current_ms = time_ms - time_ms % level.tick_ms

    def _slot_for(self, deadline_ms: int, serial: int) -> _Slot[K]:
        """Return the finest slot that holds a deadline, queued; add levels as needed.

        Args:
            deadline_ms: the deadline.
            serial: of the entry that the slot receives.
        """
        present_ms = self._levels[0].current_ms
        # A deadline that has passed goes into the slot of the present tick.
        slot_ms = max(present_ms, deadline_ms)
        for level in self._levels:
            if slot_ms < level.current_ms + level.interval_ms:
                break
        else:
            level = self._add_levels(slot_ms)
        assert level.current_ms <= slot_ms, "levels do not run ahead of the finest one"
        assert slot_ms < level.current_ms + level.interval_ms, "a level holds the deadlines in it"
        number = slot_ms // level.tick_ms
        slot = level.slots[number % SLOTS]
        expiry_ms = number * level.tick_ms
        if slot.expiry_ms != expiry_ms:
            assert not slot.entries, "a slot is drained before its turn comes again"
            slot.expiry_ms = expiry_ms
            heappush(self._queue, (expiry_ms, serial, slot))
        return slot

    def _add_levels(self, slot_ms: int) -> _Level[K]:
        """Add coarser levels until one holds the time `slot_ms`; return that one."""
        level = self._levels[-1]
        while slot_ms >= level.current_ms + level.interval_ms:
            level = _Level(level.interval_ms, self._levels[0].current_ms)
            self._levels.append(level)
        return level
