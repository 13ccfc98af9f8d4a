"""What happened to all groups recently, for the checks of single groups.

What touched many groups is found in all of them only, so the check of one group reads the journal
of all. Invariant: however many pages of groups are open, it is read once in `INTERVAL_S`, and less
often if that takes long.
"""

import threading
import time

from coterie.client.cluster import Cluster
from coterie.client.health.observation import Past, look_back
from coterie.pipeline.findings.of_journal import journal_findings

# `groups check` looks back so far by default.
PERIOD_MS = 3_600_000
# `groups check` waits so long between two looks.
INTERVAL_S = 10.0
# At most so much of the time goes to it.
_PART = 1 / 20


class RecentPast:
    """The last hour of all groups, which threads share."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        self._lock = threading.Lock()
        self._past: Past | None = None
        self._next_s = 0.0

    def read(self, cluster: Cluster) -> Past:
        """Return it, at most `INTERVAL_S` old unless reading it takes long."""
        with self._lock:
            began_s = time.monotonic()
            if self._past is None or began_s >= self._next_s:
                self._past = look_back(cluster, PERIOD_MS, journal_findings)
                ended_s = time.monotonic()
                self._next_s = ended_s + max(INTERVAL_S, (ended_s - began_s) / _PART)
            return self._past
