"""What the coordinator says happened, as log lines, and never more than a log can take.

Invariants: nothing is logged per heartbeat, commit or fetch; lines of one second are bounded, and
    what is left out is counted in one line of its own, so a storm of rebalances neither fills a
    disk nor costs more than the rebalances themselves. At level debug everything is told.
"""

from typing import TYPE_CHECKING

from coterie.coordinator.effects import Event
from coterie.protocol.messages.journal_records import UNKNOWN_MS

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

# Lines about groups a second. A line costs about 30 us, a rebalance of a small group about as much:
# fifty a second are a 500th of the loop, and more than anybody reads.
EVENT_LINES_PER_SECOND = 50

# Events that come once per member and generation, or tell the middle of what another line tells.
_DEBUG_EVENTS = frozenset(
    {
        "join_completed",
        "join_phase_extended",
        "member_joined",
        "partition_loaded",
        "partition_unloaded",
        "pending_member_expired",
    }
)

# What a fact holds where there is nothing to tell: nobody, or a time that is not known.
_NOTHING = (None, UNKNOWN_MS)


class EventLog:
    """Tells the events of one coordinator to a logger."""

    def __init__(self, log: "FilteringBoundLogger", *, unlimited: bool = False) -> None:
        """Tell `log`; `unlimited` leaves nothing out (level debug)."""
        self._log = log
        self._unlimited = unlimited
        self._second = 0
        self._lines = 0

    def add(self, event: Event) -> None:
        """Log one event, or count it."""
        if self._unlimited:
            self._line(event)
        elif event.name not in _DEBUG_EVENTS:
            second = event.at_ms // 1000
            if second != self._second:
                self.log_omitted()
                self._second = second
            self._lines += 1
            if self._lines <= EVENT_LINES_PER_SECOND:
                self._line(event)

    def log_omitted(self) -> None:
        """Say how many events of the last second were left out, if any."""
        omitted = self._lines - EVENT_LINES_PER_SECOND
        self._lines = 0
        if omitted > 0:
            self._log.info("group_events_not_shown", count=omitted)

    def _line(self, event: Event) -> None:
        values = {
            # Of lists (the members of a generation) a line tells how long they are.
            name: len(value) if isinstance(value, list) else value
            for name, value in event.fields.items()
            if value not in _NOTHING and name != "at_ms"
        }
        if event.group_id:
            values["group_id"] = event.group_id
        if event.name in _DEBUG_EVENTS:
            self._log.debug(event.name, **values)
        else:
            self._log.info(event.name, **values)
