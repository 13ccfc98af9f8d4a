"""The rebalances of all groups in the last day, for the long strip of the groups page.

They are read from the journal when a page asks for them: an open page keeps an hour only.
Invariant: however many pages ask, the journal is read once in a minute, and less often if that
takes long.
"""

import threading
import time
from collections import deque
from typing import Any

from coterie.client.cluster import Cluster
from coterie.client.journal_reader import JournalReader
from coterie.client.times import now_ms
from coterie.console.model.groups import fitting, strip_of
from coterie.console.model.past import MOST_FACTS, marks_of
from coterie.protocol.messages.journal_records import Fact

DAY_MS = 24 * 60 * 60 * 1000
INTERVAL_S = 60.0
# At most so much of the time goes to it.
_PART = 1 / 20
# A rebalance of a few members has some ten facts.
_MOST_FACTS_OF_A_GROUP = 5_000


class RecentDay:
    """The last day of all groups, which threads share."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        self._lock = threading.Lock()
        self._found: dict[str, Any] | None = None
        self._next_s = 0.0

    def read(self, cluster: Cluster) -> dict[str, Any]:
        """Return the rebalances by group, and when they were read.

        Raises:
            NoJournal: the brokers keep none.
        """
        with self._lock:
            began_s = time.monotonic()
            if self._found is None or began_s >= self._next_s:
                self._found = day_of(cluster, now_ms())
                ended_s = time.monotonic()
                self._next_s = ended_s + max(INTERVAL_S, (ended_s - began_s) / _PART)
            return self._found


def day_of(cluster: Cluster, at_ms: int, most_facts: int = MOST_FACTS) -> dict[str, Any]:
    """Read the journal of a day.

    Args:
        cluster: the cluster.
        at_ms: its end, in epoch milliseconds.
        most_facts: how many are held at a time; those of groups that were quiet for longest go
            first.

    Raises:
        NoJournal: the brokers keep none.
    """
    since_ms = at_ms - DAY_MS
    reader = JournalReader(cluster, since_ms)
    facts: dict[str, deque[Fact]] = {}
    count, is_complete = 0, False
    while not is_complete:
        new = reader.read(cluster)
        is_complete = new.is_complete
        for name, each in new.by_group.items():
            known = facts.pop(name, None) or deque[Fact](maxlen=_MOST_FACTS_OF_A_GROUP)
            count -= len(known)
            known.extend(each)
            count += len(known)
            facts[name] = known
        while count > most_facts and len(facts) > 1:
            count -= len(facts.pop(next(iter(facts))))
    found = []
    for name, group_facts in facts.items():
        strip = strip_of(marks_of(name, list(group_facts)), since_ms)
        if strip:
            found.append((name, 0, strip))
    return {"at_ms": at_ms, "groups": fitting(found)}
