"""The records of a partition, forwards and backwards, and how their transactions ended.

Kafka reads forwards only. The newest records are found by reading a stretch before the end, and
longer ones if compaction or aborted transactions left little in it. Invariants: what is held at a
time is one response and the rows of one stretch, whatever the partition's size; reading stops when
the budget is spent, but not before a first step, and can be continued from `position`.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from coterie.client.batches import FetchedBatches, StoredBatch, fetch_batches
from coterie.client.cluster import Cluster, TopicPartition
from coterie.protocol.records import BatchHeader, Record, read_marker

Row = dict[str, Any]

# Of the responses of all partitions together, for a page of some dozens of records; and of one.
_FETCH_BYTES = 1024 * 1024
_LEAST_FETCH_BYTES = 64 * 1024
# The stretch of offsets before an empty one is twice as long, as long as it costs less than this.
_STRETCH_BYTES = 8 * 1024 * 1024
# A longer one is not tried, even if batches without records cost nothing.
_STRETCH_OFFSETS = 1 << 20

COMMITTED, ABORTED, UNDECIDED = "committed", "aborted", "undecided"


class Budget:
    """What may be read for a page.

    Attributes:
        left_bytes: how much is left.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.left_bytes = limit_bytes

    @property
    def is_spent(self) -> bool:
        """Whether reading should stop."""
        return self.left_bytes <= 0


class Bounds(NamedTuple):
    """Where a partition begins and ends.

    Attributes:
        start: its first offset.
        stable: its last stable offset; records from there on may still be aborted.
        end: the offset after its last record.
    """

    start: int
    stable: int
    end: int


class Read(NamedTuple):
    """A record that was read.

    Attributes:
        partition: its partition.
        record: the record.
        header: that of its batch.
        transaction: how its transaction ended: `COMMITTED`, `ABORTED`, or `UNDECIDED` for what lies
            behind the last stable offset; None for a record without one.
    """

    partition: int
    record: Record
    header: BatchHeader
    transaction: str | None


Show = Callable[[Read], Row]


def transactions_of(
    fetched: FetchedBatches, stable: int
) -> Iterator[tuple[StoredBatch, str | None]]:
    """Yield the batches of a response, each with the end of its transaction.

    Args:
        fetched: the response, with the transactions that were aborted in it.
        stable: the last stable offset of the partition.
    """
    aborted = deque(sorted(fetched.aborted, key=lambda each: each[1]))
    producers: set[int] = set()
    for batch in fetched.batches:
        header = batch.header
        while aborted and aborted[0][1] <= header.last_offset:
            producers.add(aborted.popleft()[0])
        if not header.is_transactional:
            yield batch, None
        elif header.is_control:
            # Whatever this marker says, the producer's transaction ends with it.
            marker_of = fetched.records(batch)
            producers.discard(header.producer_id)
            is_commit = bool(marker_of) and _is_commit(marker_of[0])
            yield batch, COMMITTED if is_commit else ABORTED
        elif header.base_offset >= stable:
            yield batch, UNDECIDED
        else:
            yield batch, ABORTED if header.producer_id in producers else COMMITTED


def _is_commit(record: Record) -> bool:
    marker = read_marker(record)
    return marker is not None and marker.commit


class Partition:
    """Reads the records of a partition."""

    def __init__(
        self,
        cluster: Cluster,
        partition: TopicPartition,
        bounds: Bounds,
        budget: Budget,
        *,
        only_committed: bool,
        shares: int = 1,
    ) -> None:
        """Prepare.

        Args:
            cluster: the cluster.
            partition: topic and number.
            bounds: where it begins and ends.
            budget: what may be read.
            only_committed: whether records of aborted and undecided transactions, and markers, are
                left out.
            shares: how many partitions are read at the same time.
        """
        self.number = partition[1]
        self.bounds = bounds
        self.budget = budget
        self.only_committed = only_committed
        self._cluster = cluster
        self._partition = partition
        self._fetch_bytes = max(_LEAST_FETCH_BYTES, _FETCH_BYTES // shares)

    @property
    def end(self) -> int:
        """The offset after the last record that may be read."""
        return self.bounds.stable if self.only_committed else self.bounds.end

    def fetch(self, offset: int, max_bytes: int = 0) -> FetchedBatches:
        """Read batches from an offset on.

        Args:
            offset: the offset.
            max_bytes: how many bytes; 0 for as many as a page needs.
        """
        found = fetch_batches(
            self._cluster,
            {self._partition: offset},
            max_bytes=max_bytes or self._fetch_bytes,
            only_committed=offset < self.bounds.stable,
        )[self._partition]
        self.budget.left_bytes -= len(found.data)
        return found

    def read(self, fetched: FetchedBatches, end: int) -> Iterator[Read]:
        """Yield the records of a response that lie before an offset."""
        for batch, transaction in transactions_of(fetched, self.bounds.stable):
            if batch.header.base_offset >= end:
                return
            is_visible = transaction in (None, COMMITTED) and not batch.header.is_control
            if self.only_committed and not is_visible:
                continue
            for record in fetched.records(batch):
                if record.offset < end:
                    yield Read(self.number, record, batch.header, transaction)


class Forward:
    """The records of a partition from an offset on, the oldest first.

    Attributes:
        position: the offset of the next record.
        is_complete: whether there are no more.
    """

    def __init__(self, partition: Partition, offset: int, show: Show) -> None:
        """Begin at an offset."""
        self.position = max(offset, partition.bounds.start)
        self._partition = partition
        self._show = show
        self._next_offset = self.position
        self._reads: Iterator[Read] = iter(())
        self._head: Read | None = None
        self._has_read = False

    @property
    def is_complete(self) -> bool:
        """Whether there are no more records."""
        return self._head is None and self.position >= self._partition.end

    def head_ms(self) -> int | None:
        """Return the time of the next record; None if there is none, or the budget is spent."""
        while self._head is None:
            self._head = next(self._reads, None)
            if self._head is not None:
                break
            self.position = max(self.position, self._next_offset)
            is_spent = self._has_read and self._partition.budget.is_spent
            if self.position >= self._partition.end or is_spent:
                return None
            self._has_read = True
            fetched = self._partition.fetch(self.position)
            # Without a whole batch there is nothing more to read.
            moved = fetched.next_offset > self.position
            self._next_offset = fetched.next_offset if moved else self._partition.end
            self._reads = self._partition.read(fetched, self._partition.end)
        return self._head.record.timestamp_ms

    def take(self) -> Row:
        """Return the next record and go on behind it."""
        assert self._head is not None, "head_ms has found one"
        found, self._head = self._head, None
        self.position = found.record.offset + 1
        return self._show(found)


class Backward:
    """The records of a partition before an offset, the newest first.

    Attributes:
        position: records before it are left.
    """

    def __init__(self, partition: Partition, before: int, show: Show, stretch: int) -> None:
        """Begin before an offset.

        Args:
            partition: reads the records.
            before: an offset.
            show: makes the row of a record.
            stretch: how many offsets are read at a time at first.
        """
        self.position = min(before, partition.end)
        self._partition = partition
        self._show = show
        self._kept = self._stretch = stretch
        # Where the rows below begin.
        self._begin = self.position
        self._rows: deque[tuple[int, Row]] = deque()
        self._has_read = False

    @property
    def is_complete(self) -> bool:
        """Whether there are no more records."""
        return not self._rows and self._begin <= self._partition.bounds.start

    def head_ms(self) -> int | None:
        """Return the time of the next record; None if there is none, or the budget is spent."""
        while not self._rows:
            self.position = self._begin
            if self.is_complete or (self._has_read and self._partition.budget.is_spent):
                return None
            self._has_read = True
            self._load()
        timestamp_ms: int = self._rows[-1][1]["timestamp_ms"]
        return timestamp_ms

    def take(self) -> Row:
        """Return the next record and go on before it."""
        self.position, row = self._rows.pop()
        return row

    def _load(self) -> None:
        """Read a stretch before the one that was read."""
        end, budget = self._begin, self._partition.budget
        begin = max(self._partition.bounds.start, end - self._stretch)
        before_bytes = budget.left_bytes
        newest: deque[tuple[int, Row]] = deque(maxlen=self._kept)
        offset = begin
        while offset < end:
            fetched = self._partition.fetch(offset)
            for read in self._partition.read(fetched, end):
                newest.append((read.record.offset, self._show(read)))
            if fetched.next_offset <= offset:
                break
            offset = fetched.next_offset
        self._rows = newest
        # Older rows of the stretch that did not fit are read again.
        self._begin = newest[0][0] if len(newest) == self._kept else begin
        cost_bytes = max(1, before_bytes - budget.left_bytes)
        if newest:
            self._stretch = self._kept
        elif end - begin < _STRETCH_OFFSETS:
            affordable = (end - begin) * _STRETCH_BYTES // cost_bytes
            self._stretch = max(self._kept, min(2 * self._stretch, affordable))
