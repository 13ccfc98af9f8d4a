"""One segment of a log, and its files: `.log`, two indexes, `.txnindex` [log/segments].

The last segment of a log is the active one: it is appended to, and at a start its end is scanned
and cut where a crash may have left it incomplete [recovery/tail-scan]. Older segments never change
and hold nothing that was not acknowledged, so whatever is wrong in one is damage, and is raised as
`CorruptLog` when a read meets it [recovery/damaged-files].

`SegmentReader` reads. `Segment`, which a log uses, also repairs wrong indexes, appends, recovers,
and renames and removes the files.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from coterie.storage.aborted_transactions import TransactionIndex
from coterie.storage.batches import BadBatch, BatchFacts, ProducerBatchReader, scan, steps
from coterie.storage.errors import CorruptLog
from coterie.storage.index import INDEX_INTERVAL_BYTES, MAX_RELATIVE_OFFSET, IndexDamaged
from coterie.storage.leader_epochs import LeaderEpochs
from coterie.storage.open_files import OpenFiles
from coterie.storage.segment_digests import FILE_NAME, link, link_one
from coterie.storage.segment_files import SWAP_SUFFIX, segment_stem
from coterie.storage.segment_reader import MAX_OFFSET, SegmentReader
from coterie.storage.time_search import check_last_entry, first_at_or_after, greatest_timestamp_from
from coterie.storage.torn_tail import TailTrust, refusal

_Answer = TypeVar("_Answer")


class TailCut(NamedTuple):
    """What recovery cut off the end of a log. None of it was acknowledged."""

    path: str
    position: int
    bytes_cut: int
    reason: str


class Segment(SegmentReader):
    """A segment of an open log.

    Attributes:
        first_timestamp_ms: the greatest timestamp of the first batch, -1 if it is not known;
            rolling by time counts from it.
        transactions: the aborted transactions whose markers are in the segment.
    """

    __slots__ = (
        "_damage", "_indexed", "_stem", "_suffix", "_times_checked", "first_timestamp_ms",
        "transactions",
    )  # fmt: skip

    def __init__(
        self,
        files: OpenFiles,
        directory: str,
        base_offset: int,
        *,
        gaps: bool = False,
        digested: bool = False,
        index_interval_bytes: int = INDEX_INTERVAL_BYTES,
        epochs: LeaderEpochs | None = None,
        suffix: str = "",
    ) -> None:
        """Nothing is opened yet: call `create`, `open_older` or `recover`.

        The arguments are those of `SegmentReader`, with the directory of the files.
        """
        stem = f"{directory}/{segment_stem(base_offset)}"
        super().__init__(
            files,
            stem,
            base_offset,
            gaps=gaps,
            digested=digested,
            index_interval_bytes=index_interval_bytes,
            epochs=epochs,
            suffix=suffix,
        )
        self._stem = stem
        self._suffix = suffix
        self.first_timestamp_ms = -1
        self.transactions = TransactionIndex(files, f"{stem}.txnindex{suffix}", base_offset)
        # Whether the indexes are loaded.
        self._indexed = True
        self._times_checked = False
        # The damage that kept the indexes from being made, so that no read scans the whole file
        # again to find it.
        self._damage: CorruptLog | None = None

    # --- opening ----------------------------------------------------------------------------------

    def create(self) -> None:
        """Make the file of a new active segment."""
        assert not self.size, "a new segment is empty"
        assert self.next_offset == self.base_offset, "a new segment ends where it begins"
        self._files.create(self.path)
        self.transactions.begin()

    def open_older(self, next_offset: int) -> None:
        """Take an older segment as it is [recovery/older-segments].

        Args:
            next_offset: the base offset of the next segment.

        Raises:
            CorruptLog: the file is empty, or ends elsewhere than the next segment begins.
        """
        assert next_offset > self.base_offset, "segments are in the order of their offsets"
        assert not self.size, "a segment is opened once"
        self.size = self.file_bytes()
        self.next_offset = next_offset
        self._indexed = self.trusted = False
        if self.expected and self.size not in {each.size for each in self.expected}:
            reason = f"the file has {self.size} bytes, {FILE_NAME} tells of {self.expected[0].size}"
            raise CorruptLog(self.path, self.size, reason)
        if self.size == 0 and not self._gaps:
            raise CorruptLog(self.path, 0, f"the file is empty, but {next_offset} follows")
        missing = self._missing_end(self._end_by_index())
        if missing is not None:
            raise CorruptLog(self.path, missing.position, missing.reason)

    def recover(
        self,
        recovery_point: int,
        trust: TailTrust,
        producers: ProducerBatchReader | None = None,
    ) -> TailCut | None:
        """Scan the segment, make its indexes anew, and cut its end where it may be incomplete.

        Args:
            recovery_point: offsets below it were synced [recovery/recovery-point].
            trust: what may be incomplete above it.
            producers: see `scan`.

        Returns:
            What was cut off, if anything.

        Raises:
            CorruptLog: there is a bad batch that no interrupted write explains.
        """
        file = self._files.get(self.path)
        size = file.size()
        bad = self._add_all(size, producers)
        if bad is None:
            return None
        why: str | None = None
        if trust is TailTrust.CLEAN or self.next_offset < recovery_point:
            why = trust.value
        elif trust is TailTrust.PROCESS_DIED:
            why = refusal(file, bad.position, size, self.next_offset, gaps=self._gaps)
        if why is not None:
            raise CorruptLog(self.path, bad.position, f"{bad.reason} ({why})")
        assert bad.position < size, "there is something to cut"
        assert self.size <= bad.position, "only what does not count is cut"
        file.truncate(bad.position)
        # If a loss of power undid the cut, old bytes could follow new ones and look valid.
        file.sync()
        return TailCut(self.path, bad.position, size - bad.position, bad.reason)

    def recover_older(
        self,
        next_offset: int,
        recovery_point: int,
        trust: TailTrust,
        producers: ProducerBatchReader | None = None,
    ) -> TailCut | None:
        """Recover a segment that is followed by another one at `next_offset`.

        If nothing is missing, it is an older segment from now on. A cut of no bytes says that the
        end of the segment is missing.

        Raises:
            CorruptLog: as `recover`, or an end is missing that was synced.
        """
        assert next_offset > self.base_offset, "segments are in the order of their offsets"
        cut = self.recover(recovery_point, trust, producers)
        if cut is not None:
            return cut
        found, self.next_offset = self.next_offset, next_offset
        missing = self._missing_end(found)
        if missing is None:
            self.indexes.finish()
            assert self.trusted, "the indexes of a scanned segment are its own"
            return None
        if trust is not TailTrust.POWER_LOST_UNSYNCED or found < recovery_point:
            raise CorruptLog(self.path, missing.position, missing.reason)
        self.next_offset = found
        return TailCut(self.path, self.size, 0, missing.reason)

    # --- appending and reading --------------------------------------------------------------------

    def append(self, data: bytes, last: BatchFacts, earlier: Sequence[BatchFacts] = ()) -> None:
        """Write placed batches at the end. After an OSError the log must not append here again.

        Args:
            data: the batches.
            last: the facts of the last one, which is nearly always the only one.
            earlier: those of the others.
        """
        position = self.size
        self._files.get(self.path).write(position, data)
        if position == 0:
            self.first_timestamp_ms = earlier[0][4] if earlier else last[4]
        if earlier:
            self.indexes.add(earlier, position)
        last_offset = self.indexes.add_one(last, position)
        assert last_offset >= self.next_offset, "an append moves the end of the log"
        end = position + len(data)
        assert last[0] + last[1] == len(data), "the facts include every byte"
        if self._digested:
            digest = link(self.digest, earlier) if earlier else self.digest
            self.digest, self._digest_end = link_one(digest, last), end
        start, stop = self._checked
        if stop == position:
            self._checked = (start, end)
        self.next_offset = last_offset + 1
        self.size = end

    def read(
        self, offset: int, max_bytes: int, wanted_offset: int = MAX_OFFSET
    ) -> tuple[bytes, int]:
        """Return whole batches from the one that holds `offset`, and the offset after them.

        See `SegmentReader.read_batches`.

        Raises:
            CorruptLog: the file is damaged where it was read.
        """
        return self._repairing(lambda: self.read_batches(offset, max_bytes, wanted_offset))

    def read_producers(self, offset: int, producers: ProducerBatchReader) -> None:
        """Call `producers` for the batches from `offset` on, as `scan` does.

        Raises:
            CorruptLog: the file is damaged where it was read.
        """
        position = self.position_of(offset)
        try:
            self.check(position, self.size, None, producers)
        except BadBatch as bad:
            raise CorruptLog(self.path, bad.position, bad.reason) from None

    def first_at_or_after(self, timestamp_ms: int, min_offset: int) -> tuple[int, int] | None:
        """Return timestamp and offset of the first record from `min_offset` on that is not older.

        Raises:
            CorruptLog: the file is damaged where it was read.
        """
        self._repairing(self._check_times_once)
        return self._repairing(lambda: first_at_or_after(self, timestamp_ms, min_offset))

    def greatest_timestamp_from(self, min_offset: int) -> int:
        """Return the greatest timestamp of the records from `min_offset` on, -1 if there is none.

        Raises:
            CorruptLog: the file is damaged where it was read.
        """
        return self._repairing(lambda: greatest_timestamp_from(self, min_offset))

    def max_timestamp(self) -> tuple[int, int]:
        """Return the greatest timestamp, -1 if there is none, and an offset.

        The offset is the last one of the first batch that has the timestamp.

        Raises:
            CorruptLog: the file is damaged where it was read.
        """
        self._repairing(self._check_times_once)
        return self.indexes.max_timestamp

    def first_batch_timestamp(self) -> int:
        """Return the greatest timestamp of the first batch, -1 if there is none.

        Raises:
            CorruptLog: the file does not begin with a batch.
        """
        if self.first_timestamp_ms < 0 and self.size:
            self.first_timestamp_ms = self._repairing(self._read_first_timestamp)
        return self.first_timestamp_ms

    def position_of(self, offset: int) -> int:
        """Return where the batch that holds `offset`, or else the next one, begins.

        The size of the segment is returned if there is no such batch.

        Raises:
            CorruptLog: the file is damaged where it was read.
        """
        if offset <= self.base_offset:
            return 0
        place = self._repairing(lambda: self.locate(offset))
        if place is None:
            return self.size
        position, _ = place
        return position

    # --- files ------------------------------------------------------------------------------------

    def file_bytes(self) -> int:
        """Return the length of the file, which may be longer than what is in use."""
        return self._files.filesystem.size(self.path)

    def finish(self) -> None:
        """Complete the indexes: nothing is appended any more, or the log is closed."""
        assert self._damage is None, "a damaged segment is never the active one"
        self.indexes.finish()
        for path in self.indexes.paths:
            self._files.drop(path)
        self._files.drop(self.transactions.path)

    def use(self, files: OpenFiles) -> None:
        """Use other open files from now on; the segment's handles among the old ones are closed."""
        self._files.drop(self.path)
        self._files = files
        self.indexes.use(files)
        self.transactions.use(files)

    def release(self) -> None:
        """Close the files. The segment can still be read, which opens them again."""
        for path in (self.path, *self.indexes.paths, self.transactions.path):
            self._files.drop(path)

    def remove(self) -> None:
        """Remove the files, the log last: a log without indexes is complete, not the reverse."""
        self.release()
        filesystem = self._files.filesystem
        for path in self.file_names():
            if filesystem.exists(path):
                filesystem.remove(path)
        assert not filesystem.exists(self.path), "no removed segment is found at the next start"

    def file_names(self) -> tuple[str, ...]:
        """Return all files that may belong to the segment, the log last."""
        return (*self.indexes.paths, self.transactions.path, self.path)

    def rename(self, suffix: str) -> None:
        """Give the files the names that end with `suffix`, the log last [compaction/swap].

        Raises:
            OSError: some files may have their new names. The segment can still be read.
        """
        assert suffix != self._suffix, "a segment gets another name"
        assert suffix in ("", SWAP_SUFFIX), "a finished segment never counts as unfinished again"
        self.release()
        filesystem = self._files.filesystem
        if self.transactions.rename(f"{self._stem}.txnindex{suffix}"):
            # Unlike the other indexes it is not missed when it is lost.
            filesystem.sync_directory(self._stem.rpartition("/")[0])
        for index in (self.indexes.offsets, self.indexes.times):
            _, _, kind = index.path.removesuffix(self._suffix).rpartition(".")
            target = f"{self._stem}.{kind}{suffix}"
            filesystem.rename(index.path, target)
            index.path = target
        target = f"{self._stem}.log{suffix}"
        filesystem.rename(self.path, target)
        self.path, self._suffix = target, suffix

    # --- indexes ----------------------------------------------------------------------------------

    def _repairing(self, read: Callable[[], _Answer]) -> _Answer:
        """Return the result of a read; after a failure with untrusted indexes, rebuild and repeat.

        Everything that may raise BadBatch or IndexDamaged is called through this.
        """
        if self._damage is not None:
            raise self._damage
        if not self._indexed:
            self._load_indexes()
        try:
            return read()
        except BadBatch as bad:
            if self.trusted:
                raise CorruptLog(self.path, bad.position, bad.reason) from None
        except IndexDamaged:
            pass
        self._rebuild_indexes()
        try:
            return read()
        except BadBatch as bad:
            raise CorruptLog(self.path, bad.position, bad.reason) from None

    def _check_times_once(self) -> None:
        if not (self._times_checked or self.trusted or not self.size):
            check_last_entry(self)
            self._times_checked = True

    def _read_first_timestamp(self) -> int:
        _, _, _, _, timestamp_ms = next(self.steps_from(0))
        return timestamp_ms

    def _add_all(self, size: int, producers: ProducerBatchReader | None = None) -> BadBatch | None:
        """Make indexes and end from `size` bytes of the log, up to the first bad batch."""
        self.indexes.clear()
        self._indexed = self.trusted = True
        self.digest = 0
        file = self._files.get(self.path)
        found: BadBatch | None = None

        def until_bad() -> Iterator[BatchFacts]:
            nonlocal found
            try:
                for facts in scan(
                    file,
                    0,
                    size,
                    self.base_offset,
                    gaps=self._gaps,
                    epochs=self._epochs,
                    producers=producers,
                ):
                    position, _, _, last_offset, _ = facts
                    if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
                        # With gaps any greater offset may follow, but it has to fit into the index.
                        found = BadBatch(position, f"offset {last_offset} is beyond the segment")
                        return
                    if self._digested:
                        self.digest = link_one(self.digest, facts)
                    yield facts
            except BadBatch as bad:
                found = bad

        self.next_offset = self.indexes.add(until_bad(), 0) + 1
        self.size = size if found is None else found.position
        assert self.next_offset >= self.base_offset, "a segment does not end before it begins"
        assert self.size <= size, "a scan ends within the bytes that were asked for"
        self._checked = (0, self.size)
        self._digest_end = self.size if self._digested else 0
        if self.size:
            self.first_timestamp_ms = self._read_first_timestamp()
        return found

    def _load_indexes(self) -> None:
        """Take an older segment's indexes from their files, or make those that cannot be right."""
        if self.indexes.load(self.size):
            self._indexed = True
        else:
            self._rebuild_indexes()

    def _rebuild_indexes(self) -> None:
        assert self._damage is None, "a damaged segment is scanned once"
        # The size of an older segment and the one that follows say where it ends.
        size, next_offset = self.size, self.next_offset
        bad = self._add_all(size)
        found, self.size, self.next_offset = self.next_offset, size, next_offset
        bad = bad or self._missing_end(found)
        if bad is not None:
            self._damage = CorruptLog(self.path, bad.position, bad.reason)
            raise self._damage
        assert self._indexed, "the indexes were made from the log"
        self.indexes.finish()

    def _end_by_index(self) -> int:
        """Return where the segment ends, by the few batches behind the last entry of its index.

        With an index that cannot be used the expected end is returned. The first read examines the
        segment more closely.
        """
        if not self.size or not self.indexes.load(self.size):
            return self.next_offset
        next_offset, position = self.base_offset, 0
        if self.indexes.offsets.last is not None:
            relative_offset, position = self.indexes.offsets.last
            next_offset = self.base_offset + relative_offset
        try:
            for _, _, base_offset, last_offset, _ in steps(
                self._files.get(self.path), position, self.size
            ):
                if base_offset > next_offset and not self._gaps:
                    return self.next_offset
                next_offset = last_offset + 1
        except BadBatch:
            return self.next_offset
        return next_offset
