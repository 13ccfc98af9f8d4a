"""The log of one partition: append, roll, delete from the front, sync. `LogReader` reads it.

Offsets are given here and nowhere else [log/segments]. A batch that `append` returned for
is in the file, so it survives the death of the process [log/process-death]; it survives a loss of
power once a sync that began later has succeeded [log/power-loss]. The code that answers clients
decides for which of the two it waits, and everything of one turn of the event loop can share one
append and one sync.

After the first failed write or sync the log can be read, and nothing is appended to it again
[log/fail-stop]. There are no threads, clocks or locks here; only `PendingSync.run` may run in
another thread than the rest.
"""

from collections.abc import Sequence

from coterie.storage.batches import place
from coterie.storage.errors import LogFailed, OffsetOutOfRange, OutOfHandles
from coterie.storage.filesystem import FileSystem
from coterie.storage.leader_epochs import LeaderEpochs
from coterie.storage.log_config import LogConfig, is_full
from coterie.storage.log_producers import LogProducers
from coterie.storage.log_reader import LogReader
from coterie.storage.log_write_ahead import LogWriteAhead
from coterie.storage.open_files import OpenFiles
from coterie.storage.producer_loading import ProducerLoading
from coterie.storage.producer_snapshots import ProducerSnapshots
from coterie.storage.recovery import Recovery, load_segments
from coterie.storage.retention import RemovedSegment, expired_segments
from coterie.storage.segment import Segment, TailCut
from coterie.storage.segment_digests import SegmentDigests
from coterie.storage.segment_files import SWAP_SUFFIX
from coterie.storage.segment_list import SegmentList
from coterie.storage.sync import PendingSync, SyncState
from coterie.storage.torn_tail import TailTrust


class Log(LogReader):
    """The log of one partition.

    Attributes:
        config: the settings. They may be replaced while the log is open, and hold from then on.
        tail_cut: what recovery cut off when the log was opened; the server reports it.
        epochs: the leader epochs.
        digests: what is known of closed segments, if the log is compacted.
        leader_epoch: the epoch that appended batches get.
        write_ahead: what is durable, in the log's own files or in the write-ahead log.
        swap_unfinished: a cleaning stopped while old files were being removed. The log is not
            cleaned again before it has been reopened, which finishes that.
    """

    def __init__(self, files: OpenFiles, directory: str, config: LogConfig) -> None:
        """Use `Log.open`."""
        super().__init__(directory, LogProducers(ProducerSnapshots(files.filesystem, directory)))
        self.config = config
        self.tail_cut: TailCut | None = None
        self.epochs = LeaderEpochs(files.filesystem, directory, durable=config.flush)
        self.leader_epoch = 0
        self.swap_unfinished = False
        # A segment was begun, and its name could not be synced for lack of a file handle.
        self._has_unsynced_name = False
        self._files = files
        self.digests = SegmentDigests(files.filesystem, directory)
        self.write_ahead: LogWriteAhead
        self._sync = SyncState(files, directory)

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
        now_ms: int = 0,
        is_ours: bool = False,
    ) -> "Log":
        """Open the log in an existing directory, which may be empty, and recover its end.

        Args:
            filesystem: where the directory is.
            directory: the partition's directory.
            config: the log's settings.
            files: the open files to share with other logs of the file system.
            log_start_offset: from the checkpoint; the log begins there or where its files do.
            recovery_point: offsets below it were synced [recovery/recovery-point].
            trust: what may be incomplete above it [recovery/trust].
            now_ms: epoch milliseconds, from which the expiration of producers counts.
            is_ours: whether no other program has used the directory since we did.

        Raises:
            CorruptLog: something is wrong that no interrupted write explains.
            LogFailed: the recovered log could not be synced.
        """
        files = OpenFiles(filesystem) if files is None else files
        log = cls(files, directory, LogConfig() if config is None else config)
        log._load(Recovery(log_start_offset, recovery_point, trust, now_ms, is_ours))
        return log

    def use(self, files: OpenFiles) -> None:
        """Use other open files from now on: a log that was opened in a thread had its own."""
        self._sync.use(files)
        for segment in self._segments.all:
            segment.use(files)
        self._files = files

    # --- state ------------------------------------------------------------------------------------

    @property
    def failed(self) -> bool:
        """Whether a write or sync has failed, for good."""
        return self._sync.failure is not None

    @property
    def failure(self) -> OSError | None:
        """The first error of a write or sync."""
        return self._sync.failure

    @property
    def waits_for_sync(self) -> bool:
        """Whether file handles are kept open for the next sync."""
        return bool(self._sync.pinned)

    @property
    def synced_offset(self) -> int:
        """Everything below this offset needs no sync any more."""
        return self._sync.synced_offset

    @property
    def files(self) -> OpenFiles:
        """The open files, for the cleaner."""
        return self._files

    # --- appending --------------------------------------------------------------------------------

    def append(self, batches: bytes, now_ms: int = 0, made: int = 0) -> int:
        """Write one or more batches of magic 2 at the end, with one write.

        They get offsets and leader epoch if they do not have them. The caller has checked them.

        Args:
            batches: the batches.
            now_ms: epoch milliseconds, for the expiration of producers.
            made: how many records a batch has that the broker has made now; see `place`.

        Returns:
            The offset of the first record.

        Raises:
            LogFailed: this write or an earlier one failed.
            OutOfHandles: a file could not be opened, and nothing was appended.
        """
        if self._sync.failure is not None:
            raise LogFailed(self.directory, self._sync.failure)
        base_offset = self.log_end_offset
        data, last, earlier, produced = place(batches, base_offset, self.leader_epoch, made, now_ms)
        try:
            if self._has_unsynced_name:
                self._sync_name()
            segment = self._segments.all[-1]
            if segment.size and is_full(segment, len(data), last, self.config):
                self._roll()
                segment = self._segments.all[-1]
            if self.leader_epoch != self.epochs.latest:
                self.epochs.start(self.leader_epoch, base_offset)
            is_pinned = True
            if self.config.flush and segment.path not in self._sync.pinned:
                is_pinned = self._sync.pin(segment.path)
            assert segment.base_offset <= base_offset, "an append lies behind the segment's name"
            segment.append(data, last, earlier)
        except OSError as error:
            raise self.fail(error) from error
        if produced:
            try:
                self._producers.note(data, produced, segment.transactions, now_ms)
            except OSError as error:
                # Even if only the index could not be opened: the batch has been written.
                raise self._sync.stop(error) from error
        assert segment.next_offset > base_offset, "an append moves the log's end"
        self.log_end_offset = segment.next_offset
        if not is_pinned:
            self._sync_written()
        return base_offset

    # --- segments: rolling, deleting, replacing ---------------------------------------------------

    def roll(self) -> None:
        """Begin a new segment, unless the active one is empty.

        Raises:
            LogFailed: it could not be begun, or the log had failed before.
        """
        self._sync.check()
        try:
            if self._segments.all[-1].size:
                self._roll()
        except OSError as error:
            raise self.fail(error) from error
        assert not self._segments.all[-1].size, "the log goes on in a segment without batches"

    def delete_records(self, before_offset: int) -> int:
        """Begin at `before_offset`; remove the segments before it [data-plane/delete-records].

        The caller writes the log's start down (`DataDirectory.delete_records` does), since it would
        be forgotten with the process otherwise.

        Returns:
            The log's start, which may have been greater before.

        Raises:
            OffsetOutOfRange: the log ends before.
            LogFailed: a segment could not be begun or removed, or the log had failed before.
        """
        if before_offset > self.log_end_offset or before_offset < 0:
            raise OffsetOutOfRange(
                self.directory, before_offset, self.log_start_offset, self.log_end_offset
            )
        if before_offset <= self.log_start_offset:
            return self.log_start_offset
        self._sync.check()
        try:
            if before_offset == self.log_end_offset and self._segments.all[-1].size:
                self._roll()
            self._sync_name()
            self.log_start_offset = before_offset
            self._remove_before(before_offset)
            self.epochs.truncate_before(before_offset)
        except OSError as error:
            raise self.fail(error) from error
        first_base = self._segments.all[0].base_offset
        assert first_base <= before_offset <= self.log_end_offset, "the log contains its start"
        assert self._segments.all[-1].next_offset >= self.log_end_offset, "the end of a log stays"
        return before_offset

    def remove_expired(
        self, now_ms: int, retention_ms: int, retention_bytes: int
    ) -> list[RemovedSegment]:
        """Remove old segments from the front [log/retention].

        The log's start moves. The caller writes it down (`DataDirectory.note_log_start`).

        Raises:
            CorruptLog: the timestamps of a segment cannot be read.
            LogFailed: a segment could not be begun or removed, or the log had failed before.
        """
        self._sync.check()
        removed = expired_segments(self._segments.all, now_ms, retention_ms, retention_bytes)
        if removed:
            start = self.delete_records(removed[-1].next_offset)
            assert start >= removed[-1].next_offset, "the log begins behind what has expired"
        return removed

    def holds(self, segment: Segment) -> bool:
        """Return whether this very segment is one of the log's."""
        return self._segments.holds(segment)

    def new_segment(self, base_offset: int, suffix: str = "") -> Segment:
        """Return a segment without files, for the cleaner: `replace` brings it into the log.

        Args:
            base_offset: of the first segment that it replaces.
            suffix: what the names of its files end with until then.
        """
        return Segment(
            self._files,
            self.directory,
            base_offset,
            gaps=self.config.compacted or suffix != "",
            digested=self.config.flush,
            index_interval_bytes=self.config.index_interval_bytes,
            epochs=self.epochs,
            suffix=suffix,
        )

    def begin_swap(self, old: Sequence[Segment], cleaned: Segment) -> None:
        """Name a finished segment so that the next start lets it take the place of others.

        Raises:
            SegmentInUse: one of them must not be replaced; nothing has changed.
            OSError: some files may have their new names.
        """
        assert not self.holds(cleaned), "a cleaned segment is not yet part of the log"
        assert cleaned.base_offset == old[0].base_offset, "it has the name of the first"
        if self.config.flush:
            self.write_ahead.check_replaceable(old)
        cleaned.rename(SWAP_SUFFIX)

    def replace(self, old: Sequence[Segment], cleaned: Segment) -> None:
        """Let a cleaned segment take the place of neighbouring ones. Files are not touched."""
        self._segments.replace(old, cleaned)
        assert self._segments.all[-1].next_offset == self.log_end_offset, "the end of a log stays"

    def prune_snapshots(self) -> None:
        """Remove snapshots of the producers that belong to no segment any more."""
        self._producers.prune_snapshots(self._segments.all, durable=self.config.flush)

    # --- syncing, failing, closing ----------------------------------------------------------------

    def unsynced(self) -> PendingSync | None:
        """Return what a sync that begins now has to do; None if everything is synced.

        Raises:
            LogFailed: a write or sync failed before.
        """
        self._sync.check()
        try:
            return self._sync.begin(self._segments.all, self.log_end_offset)
        except OSError as error:
            raise self.fail(error) from error

    def synced(self, pending: PendingSync, error: OSError | None = None) -> None:
        """Take the result of a sync: what `pending.run` raised, or None. An error fails the log."""
        self._sync.end(pending, error, self.log_end_offset)
        if not self.failed:
            self.write_ahead.note(pending.end)

    def sync(self) -> None:
        """Sync everything that was appended, here and now.

        Raises:
            LogFailed: the sync failed, or the log had failed before.
        """
        while (pending := self.unsynced()) is not None:
            error = None
            try:
                pending.run()
            except OSError as failure:
                error = failure
            self.synced(pending, error)
            if error is not None:
                raise LogFailed(self.directory, error) from error

    def fail(self, error: OSError) -> LogFailed | OutOfHandles:
        """Let the log fail for good, as after a failed write. Return what to raise.

        After a shortage of file handles the log can be used as before [log/handle-shortage].
        """
        return self._sync.fail(error)

    def close(self) -> None:
        """Sync the log, write its indexes, and close its files.

        Raises:
            LogFailed: the last sync failed. The files are closed all the same.
        """
        try:
            if not self.failed:
                self._sync_for_good()
                if self.log_end_offset or self.log_start_offset:
                    # A log without records needs neither indexes nor a snapshot, and there may be
                    # thousands of them.
                    self._segments.all[-1].finish()
                    self._producers.write_snapshot(self.log_end_offset)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the files as they are: the log is about to be deleted, or cannot be written."""
        self._sync.unpin()
        for segment in self._segments.all:
            segment.release()

    # --- parts of the methods above ---------------------------------------------------------------

    def _load(self, known: Recovery) -> None:
        loading = ProducerLoading(
            self._producers.snapshots,
            known.now_ms,
            self.config.producer_expiration_ms,
            is_trusted=known.trust in (TailTrust.CLEAN, TailTrust.PROCESS_DIED),
        )
        if self.config.compacted and known.is_ours:
            self.digests.read()
        segments, self.tail_cut = load_segments(
            self._files, self.directory, self.epochs, known, loading, self.new_segment, self.digests
        )
        self._segments = SegmentList(segments)
        self.digests.keep({segment.base_offset for segment in segments[:-1]})
        if not segments:
            loading.forget()
            # No offset may be given twice.
            self._begin_segment(max(known.log_start_offset, known.recovery_point))
        assert self._segments.all, "an open log has an active segment"
        first, last = self._segments.all[0], self._segments.all[-1]
        self.log_start_offset = max(known.log_start_offset, first.base_offset)
        self.log_end_offset = last.next_offset
        assert self.log_start_offset <= self.log_end_offset, "recovery has checked that"
        self.epochs.settle(self.log_start_offset, self.log_end_offset)
        self.leader_epoch = max(self.epochs.latest, 0)
        is_clean = known.trust is TailTrust.CLEAN
        self._sync.synced_offset = self.log_end_offset if is_clean else known.recovery_point
        self.write_ahead = LogWriteAhead(self._segments)
        if self.config.flush:
            # Recovery may have found records that were never acknowledged. From now on they can be
            # read, so they must not be lost.
            self.sync()
            assert self.synced_offset >= self.log_end_offset, "what can be read is durable"
        # Only now, since a snapshot must not be ahead of what is synced.
        is_unsynced = known.trust is TailTrust.POWER_LOST_UNSYNCED
        loading.finish(
            self.log_end_offset,
            {segment.base_offset for segment in self._segments.all},
            trusted=not is_unsynced,
            durable=self.config.flush,
        )
        self._producers.take(loading)
        self._remove_before(self.log_start_offset)
        first = self._segments.all[0]
        assert first.base_offset <= self.log_start_offset, "the log contains its start"

    def _sync_written(self) -> None:
        # The file may be closed at any time, and with it the memory of a lost write.
        try:
            self.sync()
        except OutOfHandles as error:
            # Too late: the batch has been written.
            raise self._sync.stop(error.cause) from error

    def _sync_for_good(self) -> None:
        """Sync everything, without `flush` also the names and leader epochs."""
        unsynced = [each for each in self._segments.all if each.next_offset > self.synced_offset]
        self.sync()
        assert self.synced_offset >= self.log_end_offset, "a sync covers what was appended before"
        try:
            if unsynced and not self.config.flush:
                self.epochs.sync()
                self._files.filesystem.sync_directory(self.directory)
            for segment in unsynced or self._segments.all[-1:]:
                segment.transactions.sync()
        except OSError as error:
            raise self.fail(error) from error

    def _roll(self) -> None:
        active = self._segments.all[-1]
        assert active.size, "a segment has batches before another one follows"
        assert not self._has_unsynced_name, "the name of a segment is synced before its batches"
        if self.config.flush:
            # [log/power-loss] This does not move `synced_offset`: the kernel reports an error
            # to one sync only, perhaps to one that another thread has begun on the same file.
            self._files.get(active.path).sync()
            active.transactions.sync()
        active.finish()
        self._producers.write_snapshot(self.log_end_offset)
        self._begin_segment(self.log_end_offset)
        assert self._segments.all[-1].base_offset == self.log_end_offset, "the next batch fits"
        if active.has_gaps:
            self.digests.closed(active.base_offset, active.entry)

    def _remove_before(self, offset: int) -> None:
        """Remove the segments before an offset. What they say of producers is in a snapshot."""
        assert offset <= self.log_end_offset, "the log begins before it ends"
        is_removing = len(self._segments.all) > 1 and self._segments.all[1].base_offset <= offset
        if is_removing:
            self._keep_snapshot(
                max(s.base_offset for s in self._segments.all if s.base_offset <= offset)
            )
        if self.config.flush:
            self._segments.remove_before(offset, self._sync_names)
        else:
            self._segments.remove_before(offset)
        if is_removing:
            self.prune_snapshots()

    def _keep_snapshot(self, first_base: int) -> None:
        """Let the next start find a snapshot at or behind the first segment that will be left.

        After a loss of power it uses none within the last segment.
        """
        durable, last = self.config.flush, self._segments.all[-1]
        end_offset = last.base_offset if durable else self.log_end_offset
        if self._producers.keep_snapshot(first_base, end_offset, durable=durable):
            return
        # Its write has failed. A snapshot of now is usable if a segment begins here.
        if durable and last.size:
            self._roll()
        end_offset = self.log_end_offset
        if not self._producers.keep_snapshot(end_offset, end_offset, durable=durable):
            self._producers.require_snapshot(end_offset)
            self._producers.keep_snapshot(end_offset, end_offset, durable=durable)

    def _sync_names(self) -> None:
        self._files.filesystem.sync_directory(self.directory)

    def _begin_segment(self, base_offset: int) -> None:
        assert base_offset >= self.log_end_offset, "no offset is given twice"
        segment = self.new_segment(base_offset)
        segment.create()
        # From now on the log ends here, even if the directory cannot be synced yet: an older
        # segment that was appended to would overlap this one.
        self._segments.add(segment)
        self._has_unsynced_name = self.config.flush
        self._sync_name()

    def _sync_name(self) -> None:
        """Sync the name of the newest segment, before anything is appended to it."""
        if self._has_unsynced_name:
            self._sync_names()
            self._has_unsynced_name = False
