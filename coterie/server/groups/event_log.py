"""The coordinator's events as log lines, limited to what a log can take.

Heartbeats, commits and fetches make no events. The lines of one second are limited, and omitted
ones are counted in one line, so a storm of rebalances neither fills a disk nor costs more than the
rebalances themselves. At level debug nothing is omitted [journal/best-effort].
"""

from collections.abc import Sequence
from logging import DEBUG
from typing import TYPE_CHECKING

from coterie.coordinator.kernel.event import Event
from coterie.protocol.messages.journal_records import UNKNOWN_MS

if TYPE_CHECKING:
    from coterie.server.logging import Logger

# A line costs about 30 us, as much as a rebalance of a small group. Fifty a second are a 500th of
# the event loop's time.
EVENT_LINES_PER_SECOND = 50

# Events that happen for each member and generation, or that another event of the rebalance implies.
_DEBUG_EVENTS = frozenset(
    {
        "join_completed",
        "join_phase_extended",
        "member_reconciled",
        "target_computed",
        "member_joined",
        "partition_loaded",
        "partition_unloaded",
        "pending_member_expired",
    }
)

# Values of absent fields: no member, or an unknown time.
_ABSENT = (None, UNKNOWN_MS)


class EventLog:
    """Logs the events of one coordinator."""

    def __init__(self, log: "Logger") -> None:
        """Log to `log`; at the level debug nothing is omitted."""
        self._log = log
        self._second = 0
        self._lines = 0

    def add(self, events: Sequence[Event]) -> None:
        """Log events, or count them as omitted."""
        if self._log.is_enabled_for(DEBUG):
            for event in events:
                self._write_line(event)
            return
        for event in events:
            if event.name in _DEBUG_EVENTS:
                continue
            second = event.fact.at_ms // 1000
            if second != self._second:
                self.log_omitted()
                self._second = second
            self._lines += 1
            if self._lines <= EVENT_LINES_PER_SECOND:
                self._write_line(event)

    def log_omitted(self) -> None:
        """Log how many events of the last second were omitted, if any were."""
        omitted = self._lines - EVENT_LINES_PER_SECOND
        self._lines = 0
        if omitted > 0:
            self._log.info("group_events_not_shown", count=omitted)

    def _write_line(self, event: Event) -> None:
        name = event.name
        values = {
            # A list, such as the members of a generation, is shown by its length.
            field: len(value) if isinstance(value, list) else value
            for field, value in event.fields.items()
            if value not in _ABSENT and field != "at_ms"
        }
        if event.group_id:
            values["group_id"] = event.group_id
        if name in _DEBUG_EVENTS:
            self._log.debug(name, **values)
        else:
            self._log.info(name, **values)
