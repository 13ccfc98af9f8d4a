"""Follow one topic of a data directory: a thread that appends what is new, a few times a second.

What is new is read and written beside the engine: reading and writing a few records takes 20 ms,
while a job of Spark takes 300 ms, and one or two seconds during a build. One core processes a few
hundred thousand records per second like this. What was there before following began is read by an
ordinary run, on all cores of the engine.

Reading begins at the offsets in the manifest, and the new offsets are committed together with
their rows.
"""

import threading
import time
from collections.abc import Iterable, Iterator

import pyarrow as pa

from coterie.pipeline.codec.views import quarantined
from coterie.pipeline.jobs.live_store import Append, LiveStore
from coterie.pipeline.kafka_input import TABLE_OF
from coterie.pipeline.ranges import Hint, LogRange, plan_ranges, read_range, whole_end
from coterie.pipeline.segments import NoSuchLog, find_partitions, list_segments
from coterie.pipeline.tables import with_input

# The log that is committed at a time. It is in memory, decoded, while it is written.
_SLICE_BYTES = 16 << 20
# How often to check whether the topic exists by now.
_LOOK_EVERY_S = 2.0
_QUARANTINE = "quarantine"


class Tail(threading.Thread):
    """One topic of one data directory; start it, call `check` from time to time, stop it."""

    def __init__(
        self,
        store: LiveStore,
        append: Append,
        place: tuple[str, str, str],
        lock: threading.Lock,
        trigger_ms: int,
        *,
        crc: bool = True,
    ) -> None:
        """Prepare to follow.

        Args:
            store: the output directory.
            append: commits written parts.
            place: the input, its data directory, the topic.
            lock: a lock that is held while new records are appended. Several directories of an
                input can have the same partition; they share a lock, so that each record is
                appended once.
            trigger_ms: how often to check for new records.
            crc: whether to check checksums.
        """
        self._source, self._path, self._topic = place
        super().__init__(name=f"follow {self._path} {self._topic}", daemon=True)
        self._store = store
        self._append = append
        self._lock = lock
        self._trigger_s = trigger_ms / 1000
        self._crc = crc
        self._stopping = threading.Event()
        self._error: Exception | None = None
        # By log partition an offset and the position of its batch.
        self._hints: dict[int, tuple[int, Hint]] = {}

    def check(self) -> None:
        """Raise the error that has ended the thread, if there was one."""
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End the thread. An append that has begun is completed."""
        self._stopping.set()
        self.join()

    def run(self) -> None:
        """Append what is new until stopped."""
        try:
            while not self._stopping.is_set():
                began_s = time.monotonic()
                pause_s = self._trigger_s if self._exists() else _LOOK_EVERY_S
                if pause_s == self._trigger_s:
                    self.append_new()
                self._stopping.wait(max(0.0, pause_s - (time.monotonic() - began_s)))
        except Exception as error:  # noqa: BLE001 - raised again by `check`, in the main thread
            self._error = error

    def _exists(self) -> bool:
        try:
            return bool(find_partitions(self._path, self._topic))
        except NoSuchLog:
            return False

    def append_new(self) -> None:
        """Append the records up to the end of the log, and the damage between them."""
        with self._lock:
            begin = self._store.position(self._source, self._topic)
            for ranges in _slices(self._new(begin)):
                if self._stopping.is_set():
                    return
                self._write(ranges)

    def _new(self, begin: dict[int, int]) -> list[LogRange]:
        """Return everything from these offsets on, in ranges of at most a slice."""
        ranges = []
        for number, directory in find_partitions(self._path, self._topic).items():
            offset = begin.get(number, 0)
            hint = self._hint(number, offset)
            found = whole_end(directory, offset, None, hint)
            while found.hint is None and list_segments(directory):
                # A segment was cleaned before it was opened, so there is more behind it.
                found = whole_end(directory, offset)
            if found.hint is not None:
                self._hints[number] = found.offset, found.hint
            size_bytes = found.size_bytes
            if size_bytes > _SLICE_BYTES:
                ranges += plan_ranges(directory, number, _SLICE_BYTES, offset, found.offset)
            elif size_bytes:
                ranges.append(LogRange(directory, number, offset, found.offset, size_bytes, hint))
        return ranges

    def _hint(self, number: int, offset: int) -> Hint | None:
        """Return the position of the batch with an offset, or of one before it, if it is known."""
        known_offset, hint = self._hints.get(number, (0, None))
        return hint if known_offset <= offset else None

    def _write(self, ranges: list[LogRange]) -> None:
        """Read ranges and append them."""
        table = TABLE_OF[self._topic]
        found: list[pa.RecordBatch] = []
        damaged: list[pa.RecordBatch] = []
        for each in ranges:
            for step in read_range(each, table, crc=self._crc):
                if step.rows.num_rows:
                    found.append(with_input(self._source, table, step.rows))
                if step.damages:
                    rows = quarantined(step.source, step.damages)
                    damaged.append(with_input(self._source, _QUARANTINE, rows))
        written = {table: found, _QUARANTINE: damaged}
        directories = {
            name: self._store.write_rows(name, rows) for name, rows in written.items() if rows
        }
        if directories:
            reached = {each.log_partition: each.end_offset for each in ranges}
            count = sum(rows.num_rows for rows in found)
            self._append(self._source, self._topic, directories, reached, count)


def _slices(ranges: Iterable[LogRange]) -> Iterator[list[LogRange]]:
    """Combine ranges, in their order, into slices."""
    taken: list[LogRange] = []
    size_bytes = 0
    for each in ranges:
        if taken and size_bytes + each.size_bytes > _SLICE_BYTES:
            yield taken
            taken, size_bytes = [], 0
        taken.append(each)
        size_bytes += each.size_bytes
    if taken:
        yield taken
