"""The log of one partition: append, roll, read by offset and by time, delete from the front, sync.

Offsets are given here and nowhere else. A batch that `append` returned for is in the file, so it
survives the death of the process (promise P1); it survives a loss of power once a sync that began
later has succeeded (P2). Syncing is cut in three so that another thread can do the slow part:
`unsynced` tells what to sync, `PendingSync.run` does it, `synced` takes the result. Whoever answers
clients decides which of the two moments to wait for; everything of one event-loop turn can share
one append and one sync.

After the first failed write or sync the log has failed: it can be read, and nothing is appended to
it again (`LogFailed`). There are no threads, clocks or locks here; only `PendingSync.run` may leave
the caller's thread.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from coterie.storage.errors import LogFailed, OffsetOutOfRange
from coterie.storage.filesystem import File, FileSystem
from coterie.storage.index import INDEX_INTERVAL_BYTES
from coterie.storage.leader_epochs import LeaderEpochs
from coterie.storage.open_files import OpenFiles
from coterie.storage.pending_sync import PendingSync
from coterie.storage.placing import BatchFacts, place
from coterie.storage.recovery import Recovery, load_segments
from coterie.storage.retention import RemovedSegment, expired_segments
from coterie.storage.scan import CHUNK_BYTES
from coterie.storage.segment import MAX_RELATIVE_OFFSET, Segment, TailCut
from coterie.storage.torn_tail import TailTrust

__all__ = ["Log", "LogConfig", "PendingSync"]


class LogConfig(NamedTuple):
    """The settings of one log, with Kafka's defaults for topics.

    The field comments name Kafka's settings.
    """

    # segment.bytes: the size at which a new segment is begun.
    segment_bytes: int = 1 << 30
    # segment.ms: the span of timestamps at which a new segment is begun.
    segment_ms: int = 7 * 24 * 3600 * 1000
    # index.interval.bytes: log between two index entries.
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    # cleanup.policy has compact, or had it when the segments were cleaned: offsets may be missing
    # between batches. Elsewhere a missing offset is damage.
    compacted: bool = False
    # Whether syncs are asked for at all. Then a segment is synced before the next is begun, so that
    # only the last one can have a torn tail.
    flush: bool = False


class Log:
    """The batches of one partition, from `log_start_offset` to before `log_end_offset`."""

    def __init__(self, files: OpenFiles, directory: str, config: LogConfig) -> None:
        """Use `Log.open`."""
        self.directory = directory
        # May be replaced while the log is open; it holds for what comes.
        self.config = config
        self.log_start_offset = 0
        self.log_end_offset = 0
        # Everything below needs no sync any more.
        self.synced_offset = 0
        # What recovery cut off at opening; for one line in the server's log.
        self.tail_cut: TailCut | None = None
        self.epochs = LeaderEpochs(files.filesystem, directory, durable=config.flush)
        # Stamped into what is appended. The server raises it when leadership is taken anew.
        self.leader_epoch = 0
        # A cleaning stopped within its swap: old files are gone in part, until the log is reopened.
        self.swap_unfinished = False
        self._files = files
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self._failure: OSError | None = None
        # The files with writes that a sync must answer for, by path.
        self._pinned: dict[str, File] = {}

    @classmethod
    def open(
        cls,
        filesystem: FileSystem,
        directory: str,
        config: LogConfig | None = None,
        *,
        files: OpenFiles | None = None,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        trust: TailTrust = TailTrust.POWER_LOST,
    ) -> "Log":
        """Open the log in an existing directory, empty at first, and recover its tail.

        Args:
            filesystem: where the directory is.
            directory: the partition's directory.
            config: the log's settings.
            files: the open files to share with other logs of the file system.
            log_start_offset: from the checkpoint; the log begins there or where its files do.
            recovery_point: offsets below are known to be on the medium. A bad batch among them is
                damage, and so is a log that ends before it.
            trust: what may be torn above the recovery point.

        Raises:
            CorruptLog: damage where no torn tail can be.
            LogFailed: what was found could not be synced.
        """
        files = files or OpenFiles(filesystem)
        log = cls(files, directory, config or LogConfig())
        log._load(Recovery(log_start_offset, recovery_point, trust))
        return log

    @property
    def failed(self) -> bool:
        """Whether a write or sync has failed, for good."""
        return self._failure is not None

    @property
    def files(self) -> OpenFiles:
        """The open files, for the cleaner."""
        return self._files

    @property
    def size_bytes(self) -> int:
        """What the log takes up, indexes not counted."""
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments in order, the active one last."""
        return tuple(self._segments)

    def append(self, batches: bytes) -> int:
        """Write one or more batches of magic 2 at the end, in one write.

        Offsets and leader epoch are stamped where the batches don't have them already. The batches
        have been validated, or made here: anything else is our own mistake.

        Returns:
            The offset of the first record.

        Raises:
            LogFailed: this write failed, or one before it.
        """
        if self._failure is not None:
            raise LogFailed(self.directory, self._failure)
        base_offset = self.log_end_offset
        data, placed = place(batches, base_offset, self.leader_epoch)
        try:
            segment = self._segments[-1]
            if segment.size and self._is_full(segment, len(data), placed[-1]):
                self._roll()
                segment = self._segments[-1]
            if self.leader_epoch != self.epochs.latest:
                self.epochs.start(self.leader_epoch, base_offset)
            if self.config.flush and segment.path not in self._pinned:
                self._pinned[segment.path] = self._files.pin(segment.path)
            segment.append(data, placed)
        except OSError as error:
            raise self._fail(error) from error
        self.log_end_offset = segment.next_offset
        return base_offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches, beginning with the one that holds `offset`, of one segment.

        At least one batch, even if it is longer than `max_bytes`; none at the log's end. The first
        batch may begin before `offset`: clients step over its records (KIP-98).

        Raises:
            OffsetOutOfRange: `offset` is before the log's start or behind its end.
            CorruptLog: the files are damaged where they were read.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                self.directory, offset, self.log_start_offset, self.log_end_offset
            )
        if offset == self.log_end_offset:
            # Whoever waits here reads the next batch first, and need not look for it then.
            active = self._segments[-1]
            active.remember(offset, active.size)
            return b""
        return self._read(offset, max_bytes)[0]

    def chunks(self, offset: int | None = None, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
        """All batches from `offset` (default: the log's start) to the end that the log has now.

        Each chunk is whole batches of up to `chunk_bytes`, or one larger batch; every batch has
        been checked since the process started. `records.iterate_pairs` takes them apart in bulk.

        Raises:
            CorruptLog: as `read`, in the middle of the iteration.
        """
        if offset is None:
            offset = self.log_start_offset
        end_offset = self.log_end_offset
        while offset < end_offset:
            data, offset = self._read(offset, chunk_bytes)
            if data:
                yield data

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """The first record that is not older than `timestamp_ms`: (its timestamp, its offset).

        The records need not be in order of time; first means of the lowest offset (KIP-79).

        Raises:
            CorruptLog: as `read`.
        """
        for segment in self._segments:
            if segment.next_offset <= self.log_start_offset or not segment.size:
                continue
            if segment.max_timestamp()[0] >= timestamp_ms:
                found = segment.first_at_or_after(timestamp_ms, self.log_start_offset)
                if found is not None:
                    return found
        return None

    def max_timestamp(self) -> tuple[int, int]:
        """The greatest timestamp and the first offset that has it; (-1, -1) if none (KIP-734).

        Raises:
            CorruptLog: as `read`.
        """
        segments = [segment for segment in self._segments if segment.size]
        found = self._first_with(max((each.max_timestamp()[0] for each in segments), default=-1))
        if found is None and segments:
            # The record that had it was deleted, from the front of the first segment.
            first_ms = segments[0].greatest_timestamp_from(self.log_start_offset)
            rest = (each.max_timestamp()[0] for each in segments[1:])
            found = self._first_with(max([first_ms, *rest]))
        return found or (-1, -1)

    def delete_records(self, before_offset: int) -> int:
        """Let the log begin at `before_offset`, and remove the segments that end before it.

        Returns:
            The log's start, which is `before_offset` unless it was greater before (KIP-107). To
            outlive the process it must be written down: `DataDirectory.delete_records` does.

        Raises:
            OffsetOutOfRange: the log ends before.
            LogFailed: a new segment could not be begun, or an old one not be removed.
        """
        if before_offset > self.log_end_offset or before_offset < 0:
            raise OffsetOutOfRange(
                self.directory, before_offset, self.log_start_offset, self.log_end_offset
            )
        if before_offset <= self.log_start_offset:
            return self.log_start_offset
        self._check()
        self.log_start_offset = before_offset
        try:
            if before_offset == self.log_end_offset and self._segments[-1].size:
                self._roll()
            self._remove_before(before_offset)
            self.epochs.truncate_before(before_offset)
        except OSError as error:
            raise self._fail(error) from error
        return before_offset

    def remove_expired(
        self, now_ms: int, retention_ms: int, retention_bytes: int
    ) -> list[RemovedSegment]:
        """Remove old segments from the front, as `retention.py` says.

        An active segment that has to go is rolled first. The log's start moves, and is to be
        written down (`DataDirectory.note_log_start`).

        Raises:
            CorruptLog: the timestamps of a segment can't be told.
            LogFailed: a new segment could not be begun, or an old one not be removed.
        """
        self._check()
        removed = expired_segments(self._segments, now_ms, retention_ms, retention_bytes)
        if removed:
            self.delete_records(removed[-1].next_offset)
        return removed

    def holds(self, segment: Segment) -> bool:
        """Whether this very segment is one of the log's."""
        number = bisect_right(self._bases, segment.base_offset) - 1
        return number >= 0 and self._segments[number] is segment

    def new_segment(self, base_offset: int, suffix: str) -> Segment:
        """A segment with names of its own, for the cleaner to write what `replace` brings in."""
        return Segment(
            self._files,
            self.directory,
            base_offset,
            gaps=True,
            index_interval_bytes=self.config.index_interval_bytes,
            epochs=self.epochs,
            suffix=suffix,
        )

    def replace(self, old: Sequence[Segment], cleaned: Segment) -> None:
        """Let a cleaned segment take the place of neighbours, from the next read on.

        Only what this object knows changes: files are `swap.py`'s matter. Iterators over the log
        go on by offset and meet the new segment.
        """
        assert all(map(self.holds, old)), "the cleaner has looked"
        assert self._segments[-1] not in old, "the active segment is never cleaned"
        number = self._segments.index(old[0])
        assert list(old) == self._segments[number : number + len(old)], "neighbours, in order"
        assert cleaned.base_offset == old[0].base_offset, "it has the name of the first"
        self._segments[number : number + len(old)] = [cleaned]
        self._bases[number : number + len(old)] = [cleaned.base_offset]

    def fail(self, error: OSError) -> LogFailed:
        """Fail for good, as after a failed write: files could not be exchanged."""
        return self._fail(error)

    def roll(self) -> None:
        """Begin a new segment, unless the active one is empty.

        Raises:
            LogFailed: it could not be begun, or the log had failed before.
        """
        self._check()
        try:
            if self._segments[-1].size:
                self._roll()
        except OSError as error:
            raise self._fail(error) from error

    def unsynced(self) -> PendingSync | None:
        """What a sync begun now has to do; None when all is synced.

        Raises:
            LogFailed: a write or sync failed before.
        """
        self._check()
        if self.synced_offset >= self.log_end_offset:
            return None
        waiting = [each for each in self._segments if each.next_offset > self.synced_offset]
        try:
            pins = tuple(self._files.pin(segment.path) for segment in waiting if segment.size)
        except OSError as error:
            raise self._fail(error) from error
        return PendingSync(self.log_end_offset, pins, self._files.dropped)

    def synced(self, pending: PendingSync, error: OSError | None = None) -> None:
        """Take the result of a sync: what `pending.run` raised, or None. An error fails the log."""
        for file in pending.files:
            self._files.unpin(file)
        if error is not None:
            self._fail(error)
        if self._failure is not None:
            return
        self.synced_offset = max(self.synced_offset, pending.end_offset)
        if self.synced_offset >= self.log_end_offset:
            self._unpin()

    def sync(self) -> None:
        """Sync all that was appended, here and now.

        Raises:
            LogFailed: it failed, or the log had failed before.
        """
        pending = self.unsynced()
        if pending is None:
            return
        error = None
        try:
            pending.run()
        except OSError as failure:
            error = failure
        self.synced(pending, error)
        if error is not None:
            raise LogFailed(self.directory, error) from error

    def close(self) -> None:
        """Sync the log, `flush` or not, write the indexes, and let the files go.

        Raises:
            LogFailed: the last sync failed. The files are closed all the same.
        """
        try:
            if self._failure is None:
                self._sync_for_good()
                self._segments[-1].finish()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let the files go as they are: the log is about to be deleted, or can't be written."""
        self._unpin()
        for segment in self._segments:
            segment.release()

    # Below: the parts of the verbs above.

    def _load(self, known: Recovery) -> None:
        self._segments, self.tail_cut = load_segments(
            self._files,
            self.directory,
            self.epochs,
            known,
            gaps=self.config.compacted,
            index_interval_bytes=self.config.index_interval_bytes,
        )
        self._bases = [segment.base_offset for segment in self._segments]
        if not self._segments:
            self._begin_segment(known.log_start_offset)
        self.log_start_offset = max(known.log_start_offset, self._bases[0])
        self.log_end_offset = self._segments[-1].next_offset
        self._remove_before(self.log_start_offset)
        self.epochs.settle(self.log_start_offset, self.log_end_offset)
        self.leader_epoch = max(self.epochs.latest, 0)
        clean = known.trust is TailTrust.CLEAN
        self.synced_offset = self.log_end_offset if clean else known.recovery_point
        if self.config.flush:
            # Whoever reads from now on what nobody was promised must find it again.
            self.sync()

    def _sync_for_good(self) -> None:
        """Sync, and without `flush` also what is never synced then: names and leader epochs."""
        unsynced = self.synced_offset < self.log_end_offset
        self.sync()
        if unsynced and not self.config.flush:
            try:
                self.epochs.sync()
                self._files.filesystem.sync_directory(self.directory)
            except OSError as error:
                raise self._fail(error) from error

    def _first_with(self, timestamp_ms: int) -> tuple[int, int] | None:
        return self.offset_for_timestamp(timestamp_ms) if timestamp_ms >= 0 else None

    def _check(self) -> None:
        if self._failure is not None:
            raise LogFailed(self.directory, self._failure)

    def _fail(self, error: OSError) -> LogFailed:
        """Fail for good; the first error stays the cause."""
        if self._failure is None:
            self._failure = error
        return LogFailed(self.directory, self._failure)

    def _is_full(self, segment: Segment, more_bytes: int, last: BatchFacts) -> bool:
        """Kafka's LogSegment.shouldRoll, with the index's room left out: ours grow."""
        config = self.config
        _, _, _, last_offset, max_timestamp_ms = last
        first_ms = segment.first_timestamp_ms
        return (
            segment.size + more_bytes > config.segment_bytes
            or (first_ms >= 0 and max_timestamp_ms - first_ms > config.segment_ms)
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        )

    def _roll(self) -> None:
        active = self._segments[-1]
        if self.config.flush:
            # Does not count as synced: a sync that another thread has begun on the same file may
            # have been told of an error that this one is then not told of.
            self._files.get(active.path).sync()
        active.finish()
        self._begin_segment(self.log_end_offset)

    def _begin_segment(self, base_offset: int) -> None:
        segment = self._segment(base_offset)
        segment.create()
        if self.config.flush:
            self._files.filesystem.sync_directory(self.directory)
        self._segments.append(segment)
        self._bases.append(base_offset)

    def _segment(self, base_offset: int) -> Segment:
        return Segment(
            self._files,
            self.directory,
            base_offset,
            gaps=self.config.compacted,
            index_interval_bytes=self.config.index_interval_bytes,
            epochs=self.epochs,
        )

    def _remove_before(self, offset: int) -> None:
        while len(self._segments) > 1 and self._bases[1] <= offset:
            segment = self._segments.pop(0)
            del self._bases[0]
            segment.remove()

    def _unpin(self) -> None:
        for file in self._pinned.values():
            self._files.unpin(file)
        self._pinned.clear()

    def _read(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """As `read`, and the offset after what was read."""
        number = max(bisect_right(self._bases, offset) - 1, 0)
        while True:
            data, next_offset = self._segments[number].read(offset, max_bytes)
            number += 1
            # After compaction a segment may have nothing left from `offset` on.
            if data or number == len(self._segments):
                return data, next_offset
