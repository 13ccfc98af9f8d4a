"""Delayed operations: joins, syncs and heartbeats that wait for an event or for their time, and end
exactly once.

An operation is its key and its deadline. An event ends it through `complete`, time ends it through
`due`; whichever comes first takes it out, so the other finds nothing. Kafka's purgatory keeps
watcher lists per key that must be purged of operations that ended under another key; here an
operation has one key, so nothing lingers (ADR 0004).

A session is moved by every heartbeat. That does not touch the wheel: the member holds the true
deadline, the wheel holds the one it was armed with, and `due` hands the key out for its owner to
look at and delay again. One entry a member, ever.
"""

from collections.abc import Iterator

from coterie.coordinator.effects import Timer, TimerKey
from coterie.coordinator.timer_wheel import TimingWheel


class Purgatory:
    """The operations that wait, by key."""

    def __init__(self, start_ms: int = 0) -> None:
        """Start with nothing waiting."""
        self._wheel: TimingWheel[TimerKey] = TimingWheel(start_ms)
        self._deadlines: dict[TimerKey, int] = {}

    def __len__(self) -> int:
        return len(self._deadlines)

    def apply(self, timer: Timer) -> None:
        """Delay or complete an operation as a verb's timer effect says."""
        if timer.deadline_ms is None:
            self.complete(timer.key)
        else:
            self.delay(timer.key, timer.deadline_ms)

    def delay(self, key: TimerKey, deadline_ms: int) -> None:
        """Let an operation wait until `deadline_ms`; one that already waits under this key is
        replaced.
        """
        self._deadlines[key] = deadline_ms
        self._wheel.arm(key, deadline_ms)

    def complete(self, key: TimerKey) -> bool:
        """End an operation by an event; says whether it was still waiting."""
        if self._deadlines.pop(key, None) is None:
            return False
        self._wheel.cancel(key)
        return True

    def due(self, now_ms: int) -> Iterator[TimerKey]:
        """End, one after the other, the operations whose time has come.

        What the caller does about one key may complete or delay another that is due in the same
        moment; that one is then not handed out (spec section 13: a fired timer re-checks that it is
        still the current one).
        """
        for deadline_ms, key in self._wheel.advance(now_ms):
            if self._deadlines.get(key) == deadline_ms and key not in self._wheel:
                del self._deadlines[key]
                yield key

    def next_deadline_ms(self) -> int | None:
        """When to call `due` next; never later than the earliest deadline."""
        return self._wheel.next_ms()

    def deadline_ms(self, key: TimerKey) -> int | None:
        """When an operation that waits will end by time."""
        return self._deadlines.get(key)
