"""Records with a text, found while the reader waits: a stream of findings, and how far it is.

Each partition is read from where the search begins to the end that it had then, in responses of
some megabytes, in turns. Invariants: the first answer comes before anything is read; one comes
after each response, so that a reader who has gone is noticed; what is held is one response and the
rows that are sent next. A pattern is one of RE2, whose time is proportional to the text.

A batch is decoded only if its bytes have the text; a pattern, or a text whose case does not matter,
is looked for in each part of each record.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from coterie.client.batches import FETCH_BYTES, FetchedBatches, StoredBatch
from coterie.client.cluster import Cluster
from coterie.client.offsets import partition_offsets
from coterie.console.records.page import bounds_of
from coterie.console.records.reading import (
    COMMITTED,
    Bounds,
    Budget,
    Partition,
    Read,
    Row,
    transactions_of,
)
from coterie.console.records.shown import record_row
from coterie.coordinator.patterns import BytePattern, InvalidPattern
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.raw_records import open_body
from coterie.protocol.records import Record
from coterie.server.network.http_errors import Refused

PARTS = ("key", "value", "headers")
DEFAULT_FINDINGS, MOST_FINDINGS = 100, 1000

Matches = Callable[[bytes], bool]


class Query(NamedTuple):
    """What is looked for.

    Attributes:
        topic: where.
        partition: only there; None for all partitions.
        text: the text, or the pattern.
        is_pattern: whether it is a pattern of RE2.
        ignores_case: whether the case of letters does not matter.
        parts: some of `PARTS`.
        since_ms: only records from this time on; None for all.
        only_committed: whether records of aborted and undecided transactions are left out.
        limit: the most records; the search ends with the last of them.
    """

    topic: str
    partition: int | None
    text: str
    is_pattern: bool
    ignores_case: bool
    parts: tuple[str, ...]
    since_ms: int | None
    only_committed: bool
    limit: int


class Search:
    """A search.

    Attributes:
        query: what is looked for.
    """

    def __init__(self, query: Query) -> None:
        """Prepare.

        Raises:
            Refused: the text is no pattern.
        """
        self.query = query
        self._needle = query.text.encode()
        # What a batch must have for one of its records to match; None if only the records tell.
        self._in_batch: bytes | None = None
        if query.is_pattern or query.ignores_case:
            try:
                self._matches: Matches = BytePattern(
                    query.text, is_literal=not query.is_pattern, ignores_case=query.ignores_case
                ).is_in
            except InvalidPattern as error:
                raise Refused("BadRequest", f"text: it is no pattern: {error.reason}") from None
        else:
            self._in_batch = self._needle
            self._matches = self._contains
        self._scanned = self._found = self._bytes = 0
        self._began_s = 0.0

    def _contains(self, part: bytes) -> bool:
        return self._needle in part

    def events(self, cluster: Cluster) -> Iterator[tuple[str, Row]]:
        """Yield findings and progress, each with its name, until all is read.

        Raises:
            Refused: there is no such topic or partition.
        """
        query = self.query
        self._began_s = time.monotonic()
        bounds = bounds_of(cluster, query.topic, query.partition)
        positions = self._begins(cluster, bounds)
        ends = {
            number: each.stable if query.only_committed else each.end
            for number, each in bounds.items()
        }
        total = sum(max(0, ends[number] - at) for number, at in positions.items())
        yield "progress", self._progress(positions, total)
        partitions = {
            number: Partition(
                cluster,
                (query.topic, number),
                each,
                Budget(0),
                only_committed=query.only_committed,
            )
            for number, each in bounds.items()
        }
        left = [number for number in positions if positions[number] < ends[number]]
        while left and self._found < query.limit:
            for number in list(left):
                begin = positions[number]
                fetched = partitions[number].fetch(begin, FETCH_BYTES)
                rows = list(self._matching(partitions[number], fetched))
                self._bytes += len(fetched.data)
                # Without a whole batch there is nothing more to read.
                moved = fetched.next_offset > begin
                after = min(fetched.next_offset, ends[number]) if moved else ends[number]
                self._scanned += after - begin
                positions[number] = after
                if after >= ends[number]:
                    left.remove(number)
                if rows:
                    yield "records", {"records": rows}
                yield "progress", self._progress(positions, total)
                if self._found >= query.limit:
                    break
        is_limited = self._found >= query.limit and bool(left)
        yield "end", {**self._progress(positions, total), "limited": is_limited}

    def _begins(self, cluster: Cluster, bounds: Mapping[int, Bounds]) -> dict[int, int]:
        since_ms = self.query.since_ms
        if since_ms is None:
            return {number: each.start for number, each in bounds.items()}
        topic = self.query.topic
        found = partition_offsets(cluster, {(topic, number): since_ms for number in bounds})
        return {
            number: at if (at := found[topic, number]) >= 0 else each.end
            for number, each in bounds.items()
        }

    def _progress(self, positions: Mapping[int, int], total: int) -> Row:
        seconds = max(time.monotonic() - self._began_s, 1e-3)
        return {
            "scanned": self._scanned,
            "total": total,
            "found": self._found,
            "bytes": self._bytes,
            "bytes_per_s": round(self._bytes / seconds),
            "offsets": {str(number): at for number, at in positions.items()},
        }

    def _matching(self, partition: Partition, fetched: FetchedBatches) -> Iterator[Row]:
        """Yield the rows of the records of a response that match."""
        for batch, transaction in transactions_of(fetched, partition.bounds.stable):
            if batch.header.base_offset >= partition.end or self._found >= self.query.limit:
                return
            is_hidden = self.query.only_committed and transaction not in (None, COMMITTED)
            if batch.header.is_control or is_hidden or not self._may_match(fetched, batch):
                continue
            for record in fetched.records(batch):
                if self._found < self.query.limit and self._is_match(record):
                    self._found += 1
                    read = Read(partition.number, record, batch.header, transaction)
                    yield record_row(self.query.topic, read)

    def _may_match(self, fetched: FetchedBatches, batch: StoredBatch) -> bool:
        """Return whether the bytes of a batch have the text."""
        if self._in_batch is None or batch.header.magic < 2:
            return True
        try:
            body, begin, end = open_body(fetched.data, batch.header, batch.position)
        except MalformedFrame:
            # Decoding says what is wrong with it.
            return True
        return body.find(self._in_batch, begin, end) >= 0

    def _is_match(self, record: Record) -> bool:
        matches, parts = self._matches, self.query.parts
        if "key" in parts and record.key is not None and matches(record.key):
            return True
        if "value" in parts and record.value is not None and matches(record.value):
            return True
        return "headers" in parts and any(
            matches(name.encode("utf-8", "surrogateescape"))
            or (value is not None and matches(value))
            for name, value in record.headers
        )
