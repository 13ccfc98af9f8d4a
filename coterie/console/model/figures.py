"""The figures of brokers in this process, and what they do in a second [console/rates]."""

import time
from typing import Any

from coterie.console.model.rates import requests_between
from coterie.server.beside import Figures, ReadFigures


class BrokerFigures:
    """Reads them again and again: a rate is that of the time between two reads."""

    def __init__(self, read: ReadFigures | None) -> None:
        """Prepare.

        Args:
            read: reads them; None if nobody tells them.
        """
        self._read = read
        # When they were read last, by the monotonic clock.
        self._counted: tuple[float, Figures] | None = None

    def now(self) -> dict[str, Any]:
        """Return what the head of the page shows; nothing if nobody tells it."""
        found = self._read() if self._read is not None else None
        if found is None:
            self._counted = None
            return {}
        before, now_s = self._counted, time.monotonic()
        self._counted = now_s, found
        commits_per_s = requests_per_s = None
        if before is not None and now_s > before[0]:
            seconds, earlier = now_s - before[0], before[1]
            requests = requests_between(earlier.requests, found.requests)
            requests_per_s = round(requests / seconds, 1)
            # Fewer than before: the broker has started again.
            if found.commits >= earlier.commits:
                commits_per_s = round((found.commits - earlier.commits) / seconds, 1)
        return {
            "started_ms": found.started_ms,
            "flush": found.flush,
            "connections": found.connections,
            "commits_per_s": commits_per_s,
            "requests_per_s": requests_per_s,
        }
