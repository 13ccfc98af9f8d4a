"""Delayed operations: what waits for an event or for a deadline, and ends exactly once.

A delayed join phase, sync phase, session or sweep is a key with a deadline. An event ends it with
`complete`, time ends it with `due`; whichever comes first removes the key, so the other finds
nothing. Kafka's purgatory watches an operation under several keys and has
to purge the lists of its other keys; here an operation has one key (ADR 4).

A heartbeat does not call this module: it moves the deadline that is stored on the member. When the
earlier deadline of the timing wheel fires, the owner of the key compares it with the stored one and
delays the operation again [sessions/session-timeout]. So a member has at most one entry.

Invariant: a key is in the wheel or among those that `due` has taken out of it, never in both.
"""

from collections.abc import Iterator

from coterie.coordinator.kernel.timer_wheel import TimingWheel
from coterie.coordinator.kernel.timers import Timer, TimerKey


class Purgatory:
    """The delayed operations by key."""

    def __init__(self, start_ms: int = 0) -> None:
        """Start without operations at `start_ms`."""
        self._wheel: TimingWheel[TimerKey] = TimingWheel(start_ms)
        # Operations whose deadline has passed and that the caller of `due` has not seen yet, in the
        # order of their deadlines.
        self._expired: dict[TimerKey, int] = {}

    def __len__(self) -> int:
        """Return the number of delayed operations."""
        return len(self._wheel) + len(self._expired)

    def apply(self, timer: Timer) -> None:
        """Delay or complete an operation as the timer effect of a verb says."""
        if timer.deadline_ms is None:
            self.complete(timer.key)
        else:
            self.delay(timer.key, timer.deadline_ms)

    def delay(self, key: TimerKey, deadline_ms: int) -> None:
        """Delay an operation until `deadline_ms`, replacing an earlier deadline of the key."""
        if self._expired:
            self._expired.pop(key, None)
        self._wheel.arm(key, deadline_ms)

    def complete(self, key: TimerKey) -> bool:
        """End an operation by an event; return whether it was still delayed."""
        cancelled = self._wheel.cancel(key)
        if self._expired and self._expired.pop(key, None) is not None:
            assert not cancelled, f"{key} was delayed twice"
            return True
        return cancelled

    def due(self, now_ms: int) -> Iterator[TimerKey]:
        """End the operations whose deadline has passed, one after the other, and yield their keys.

        Handling one key may complete or delay another that is due at the same moment; the other is
        then not yielded. Operations that the caller leaves in the iterator are yielded by the next
        call.
        """
        expired = self._expired
        for deadline_ms, key in self._wheel.advance(now_ms):
            assert deadline_ms <= now_ms, f"{key} is due at {deadline_ms}, not at {now_ms}"
            assert key not in expired, f"{key} was delayed while it was due"
            expired[key] = deadline_ms
        while expired:
            key = next(iter(expired))
            del expired[key]
            yield key

    def next_deadline_ms(self) -> int | None:
        """Return when to call `due` next; never later than the earliest deadline."""
        if self._expired:
            return next(iter(self._expired.values()))
        return self._wheel.next_ms()

    def deadline_ms(self, key: TimerKey) -> int | None:
        """Return the deadline of a delayed operation, or None."""
        return self._expired.get(key, self._wheel.deadline_ms(key))
