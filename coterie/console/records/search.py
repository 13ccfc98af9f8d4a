"""Records that match, found while the reader waits: a stream of findings, and how far it is.

Each partition is read from where the search begins to the end that it had then, or back from there,
in responses of some megabytes, in turns. Invariants: the first answer comes before anything is
read; one comes after each response, so that a reader who has gone is noticed; what is held is one
response and the rows that are sent next. The newest of a partition are found first by reading a
stretch before the end, forwards, and then the one before it.
"""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from coterie.client.batches import FETCH_BYTES
from coterie.client.cluster import Cluster
from coterie.client.offsets import partition_offsets
from coterie.console.records.matching import Matcher
from coterie.console.records.page import bounds_of
from coterie.console.records.reading import Bounds, Budget, Partition, Row
from coterie.console.records.shown import record_row

DEFAULT_FINDINGS, MOST_FINDINGS = 100, 1000

# Offsets of the first stretch before the end; later ones have about as many bytes as a response.
_FIRST_STRETCH = 1_000
_LEAST_STRETCH, _MOST_STRETCH = 100, 1 << 20


class Scope(NamedTuple):
    """Where it is looked for.

    Attributes:
        topic: the topic.
        partition: only there; None for all partitions.
        since_ms: only records from this time on; None for all.
        limit: the most records; the search ends with the last of them.
        newest_first: whether each partition is read from its end.
    """

    topic: str
    partition: int | None
    since_ms: int | None
    limit: int
    newest_first: bool


class _Side:
    """The part of a partition that is left: between `begin` and `end`."""

    def __init__(self, partition: Partition, begin: int) -> None:
        self.partition = partition
        self.begin = begin
        self.end = max(begin, partition.end)
        self.stretch = _FIRST_STRETCH

    @property
    def left(self) -> int:
        return self.end - self.begin


class Search:
    """A search.

    Attributes:
        scope: where it is looked for.
    """

    def __init__(self, matcher: Matcher, scope: Scope) -> None:
        """Look for what `matcher` finds."""
        self.scope = scope
        self._matcher = matcher
        self._total = self._found = self._bytes = 0
        self._began_s = 0.0
        # Whether a record was found beyond the limit.
        self._has_dropped = False
        self._sides: dict[int, _Side] = {}

    def events(self, cluster: Cluster) -> Iterator[tuple[str, Row]]:
        """Yield findings and progress, each with its name, until all is read.

        Raises:
            Refused: there is no such topic or partition.
        """
        self._began_s = time.monotonic()
        bounds = bounds_of(cluster, self.scope.topic, self.scope.partition)
        only_committed = self._matcher.query.only_committed
        for number, begin in self._begins(cluster, bounds).items():
            partition = Partition(
                cluster,
                (self.scope.topic, number),
                bounds[number],
                Budget(0),
                only_committed=only_committed,
            )
            self._sides[number] = _Side(partition, begin)
        self._total = sum(each.left for each in self._sides.values())
        yield "progress", self._progress()
        step = self._newest if self.scope.newest_first else self._oldest
        while self._wants_more and any(each.left for each in self._sides.values()):
            for side in self._sides.values():
                if side.left and self._wants_more:
                    yield from step(side)
        has_more = self._has_dropped or any(each.left for each in self._sides.values())
        yield "end", {**self._progress(), "limited": not self._wants_more and has_more}

    @property
    def _wants_more(self) -> bool:
        return self._found < self.scope.limit

    def _begins(self, cluster: Cluster, bounds: Mapping[int, Bounds]) -> dict[int, int]:
        since_ms = self.scope.since_ms
        if since_ms is None:
            return {number: each.start for number, each in bounds.items()}
        topic = self.scope.topic
        found = partition_offsets(cluster, {(topic, number): since_ms for number in bounds})
        return {
            number: at if (at := found[topic, number]) >= 0 else each.end
            for number, each in bounds.items()
        }

    def _progress(self) -> Row:
        seconds = max(time.monotonic() - self._began_s, 1e-3)
        is_back = self.scope.newest_first
        return {
            "scanned": self._total - sum(each.left for each in self._sides.values()),
            "total": self._total,
            "found": self._found,
            "bytes": self._bytes,
            "bytes_per_s": round(self._bytes / seconds),
            "offsets": {
                str(number): each.end if is_back else each.begin
                for number, each in self._sides.items()
            },
        }

    def _read(self, side: _Side, offset: int, end: int) -> tuple[int, Iterator[Row]]:
        """Read a response; return where the next one begins, and the rows that match."""
        partition = side.partition
        fetched = partition.fetch(offset, FETCH_BYTES)
        self._bytes += len(fetched.data)
        # Without a whole batch there is nothing more to read.
        after = fetched.next_offset if fetched.next_offset > offset else end
        reads = self._matcher.reads(partition.number, fetched, partition.bounds.stable, end)
        rows = (
            record_row(self.scope.topic, each, registry=self._matcher.registry) for each in reads
        )
        return min(after, end), rows

    def _oldest(self, side: _Side) -> Iterator[tuple[str, Row]]:
        """Read the next response."""
        after, found = self._read(side, side.begin, side.end)
        rows = list(islice(found, self.scope.limit - self._found))
        self._has_dropped |= next(found, None) is not None
        self._found += len(rows)
        side.begin = after
        if rows:
            yield "records", {"records": rows}
        yield "progress", self._progress()

    def _newest(self, side: _Side) -> Iterator[tuple[str, Row]]:
        """Read the stretch before the end."""
        begin = offset = max(side.begin, side.end - side.stretch)
        before_bytes = self._bytes
        rows: deque[Row] = deque(maxlen=self.scope.limit - self._found)
        seen = 0
        while offset < side.end:
            offset, found = self._read(side, offset, side.end)
            for row in found:
                rows.append(row)
                seen += 1
            if offset < side.end:
                yield "progress", self._progress()
        cost_bytes = max(1, self._bytes - before_bytes)
        affordable = (side.end - begin) * FETCH_BYTES // cost_bytes
        side.stretch = max(_LEAST_STRETCH, min(affordable, _MOST_STRETCH))
        side.end = begin
        self._found += len(rows)
        self._has_dropped |= seen > len(rows)
        if rows:
            yield "records", {"records": list(reversed(rows))}
        yield "progress", self._progress()
