"""Timers that are reported when they fire."""

from collections.abc import Callable, Iterator

from coterie.coordinator.kernel.purgatory import Purgatory
from coterie.coordinator.kernel.timers import TimerKey


class TracedPurgatory(Purgatory):
    """The timers of a coordinator; each is reported before the coordinator handles it."""

    def __init__(self, start_ms: int, fired: Callable[[TimerKey], None]) -> None:
        super().__init__(start_ms)
        self._fired = fired

    def due(self, now_ms: int) -> Iterator[TimerKey]:
        for key in super().due(now_ms):
            self._fired(key)
            yield key
