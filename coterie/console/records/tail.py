"""Records as they are written, for a reader who watches: a stream that ends by itself.

The ends of the partitions are waited at with Fetch, so records come at once and an idle topic costs
each broker a request in half a second. Invariants: an event comes after each turn, so that a reader
who has gone is noticed; of records that come faster than anybody reads only the newest of each turn
are sent, and the others are counted; it ends after ten minutes, for each one occupies a thread.
"""

import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from coterie.client.batches import fetch_batches
from coterie.client.cluster import Cluster, TopicPartition
from coterie.console.records.matching import Matcher
from coterie.console.records.page import MOST_PARTITIONS, bounds_of
from coterie.console.records.reading import Row
from coterie.console.records.shown import record_row

# Each occupies one of the threads of requests, of which there are 40.
MOST_TAILS = 8
LONGEST_S = 600.0
# Of one turn: as many as a page has.
MOST_ROWS = 50
_WAIT_MS = 500
_FETCH_BYTES = 1024 * 1024
# Whoever reads faster than ten times a second sees no more.
_PAUSE_S = 0.1
# Behind each record: whatever is read with READ_COMMITTED is decided.
_NO_END = (1 << 63) - 1


class Tail(NamedTuple):
    """What is watched.

    Attributes:
        topic: the topic.
        partition: only there; None for all partitions.
        matcher: what is shown of it.
        longest_s: when it ends.
    """

    topic: str
    partition: int | None
    matcher: Matcher
    longest_s: float = LONGEST_S

    def events(self, cluster: Cluster) -> Iterator[tuple[str, Row]]:
        """Yield records, and how far they are read, each with its name.

        Raises:
            Refused: there is no such topic or partition, or there are too many partitions.
        """
        began_s = time.monotonic()
        only_committed = self.matcher.query.only_committed
        bounds = bounds_of(cluster, self.topic, self.partition, MOST_PARTITIONS)
        positions: dict[TopicPartition, int] = {
            (self.topic, number): each.stable if only_committed else each.end
            for number, each in bounds.items()
        }
        # Without READ_COMMITTED nobody knows yet how a transaction ends.
        stable = _NO_END if only_committed else 0
        read = 0
        yield "progress", _progress(positions, read)
        while time.monotonic() - began_s < self.longest_s:
            fetched = fetch_batches(
                cluster,
                positions,
                max_wait_ms=_WAIT_MS,
                max_bytes=_FETCH_BYTES,
                only_committed=only_committed,
            )
            rows: deque[Row] = deque(maxlen=MOST_ROWS)
            found = 0
            for key, each in fetched.items():
                for match in self.matcher.reads(key[1], each, stable, _NO_END):
                    rows.append(record_row(self.topic, match, registry=self.matcher.registry))
                    found += 1
                read += max(0, each.next_offset - positions[key])
                positions[key] = max(positions[key], each.next_offset)
            if rows:
                newest = sorted(rows, key=lambda row: row["timestamp_ms"])
                yield "records", {"records": newest, "skipped": found - len(newest)}
            yield "progress", _progress(positions, read)
            if found:
                time.sleep(_PAUSE_S)
        yield "end", _progress(positions, read)


def _progress(positions: dict[TopicPartition, int], read: int) -> Row:
    return {"read": read, "offsets": {str(number): at for (_, number), at in positions.items()}}
