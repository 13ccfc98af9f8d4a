"""Many logs made durable by one sync: a copy of what they got goes to one file, which is synced.

With a log per partition, a turn of the event loop may append to fifty files, and syncing them one
by one takes fifty times as long as one sync. So what such a turn appended is written once more, as
one frame of a write-ahead file, and that file is synced [recovery/write-ahead].

    begin   takes what a turn appended           (event loop)
    run     writes and syncs the frame           (any one thread)
    end     notes what is durable                (event loop)

From time to time the file is settled: `rotate` lets the next frame begin another file, the steps of
`next_step` sync each log that has records in the old one, and the last step removes it. Until then
no file operation may change what the records say of a segment.

Invariants:
* A frame is written only when the frame before it in its file is known to be synced. After an error
  the file is closed: no frame follows.
* A file is removed only after every log with records in it was synced, or was deleted.
* A log that fails keeps its records here: the file stays until the next start, which writes them
  into the segments again.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from coterie.storage.batches import BadBatch
from coterie.storage.errors import LogFailed
from coterie.storage.filesystem import File, FileSystem
from coterie.storage.log import Log
from coterie.storage.log_write_ahead import LogOffsetMetadata, end_of
from coterie.storage.open_files import OpenFiles
from coterie.storage.sync import PendingSync
from coterie.storage.write_ahead_format import BLOCK_BYTES, Entry, encode_frame, file_name

# A file does not hold records of more logs, even if more files may be open.
_MOST_LOGS = 512


class WriteAheadLimits(NamedTuple):
    """The bounds of the write-ahead log.

    Attributes:
        file_bytes: from this size on a file is to be settled.
        most_file_bytes: a file never becomes larger, even if the one before it is not settled yet.
        frame_bytes: more bytes are not copied in one turn: syncing their own files costs less.
        logs: how many logs have records in a file. Their segments stay open until it is settled.
        extend_bytes: a file grows in steps of this many bytes, because overwriting zeros takes the
            disk half as long as making a file longer.
    """

    file_bytes: int = 16 << 20
    most_file_bytes: int = 64 << 20
    frame_bytes: int = 1 << 20
    logs: int = 64
    extend_bytes: int = 1 << 20


class WriteAheadFile:
    """One file of frames.

    Attributes:
        file_id: in its name and in each frame.
        logs: the logs that have records in it, in the order of their first ones.
        end: where the next frame begins.
        closed: whether a write or sync failed.
    """

    def __init__(self, filesystem: FileSystem, directory: str, file_id: bytes) -> None:
        """Make nothing yet: the first frame does."""
        self.file_id = file_id
        self.logs: dict[Log, None] = {}
        self.end = 0
        self.closed = False
        self._filesystem = filesystem
        self._directory = directory
        self._path = f"{directory}/{file_name(file_id)}"
        self._file: File | None = None
        self._frames = 0
        self._allocated = 0

    def append(self, entries: list[Entry], extend_bytes: int) -> None:
        """Write and sync a frame.

        Raises:
            OSError: it may be durable or not. Nothing may be appended to this file again.
        """
        assert not self.closed, "no frame follows one that is perhaps not there"
        assert self.end % BLOCK_BYTES == 0, "a frame begins with a block"
        frame = encode_frame(self.file_id, self._frames, entries)
        is_new = self._file is None
        if self._file is None:
            self._file = self._filesystem.create(self._path)
        position, end = self.end, self.end + len(frame)
        if end > self._allocated:
            self._allocated = end + -end % extend_bytes
            frame += bytes(self._allocated - end)
        assert position + len(frame) <= self._allocated, "what is written lies within the file"
        self._file.write(position, frame)
        self._file.sync()
        if is_new:
            self._filesystem.sync_directory(self._directory)
        assert end <= self._allocated, "a frame lies within its file"
        self.end = end
        self._frames += 1

    def remove(self) -> None:
        """Remove the file, durably.

        Raises:
            OSError: it may still exist.
        """
        if self._file is None:
            return
        if self._filesystem.exists(self._path):
            self._filesystem.remove(self._path)
        self._filesystem.sync_directory(self._directory)
        self.close()

    def close(self) -> None:
        """Release the handle."""
        if self._file is not None:
            self._file.close()
            self._file = None


class PendingFrame:
    """A frame that has to be written. Give it back to `WriteAheadLog.end` afterwards.

    Attributes:
        logs: the logs whose appends are in it, and what of them is durable with it.
        file: where it belongs.
    """

    def __init__(
        self,
        file: WriteAheadFile,
        logs: dict[Log, LogOffsetMetadata],
        entries: list[Entry],
        extend_bytes: int,
    ) -> None:
        """See `WriteAheadLog.begin`."""
        assert len(logs) > 1, "a frame saves syncs of several logs"
        assert entries, "a frame has a reason"
        self.file = file
        self.logs = logs
        self._entries = entries
        self._extend_bytes = extend_bytes

    def run(self) -> None:
        """Write and sync the frame, in the thread that runs everything of this log.

        Raises:
            OSError: it is perhaps not durable. It must not be repeated.
        """
        self.file.append(self._entries, self._extend_bytes)


class SettlingStep(NamedTuple):
    """A step of settling a file. Give it back to `WriteAheadLog.end_step` afterwards.

    Attributes:
        run: to be called in the thread; it may raise OSError.
        log: the log that is synced; None for the removal of the file.
        pending: its sync.
    """

    run: Callable[[], None]
    log: Log | None = None
    pending: PendingSync | None = None


class WriteAheadLog:
    """The write-ahead files of a data directory.

    Attributes:
        limits: the bounds; they may be changed before the first frame.
        stopped: whether a file could not be settled. It is left to the next start, and no frame is
            written until then.
    """

    def __init__(self, files: OpenFiles, directory: str, new_file_id: Callable[[], bytes]) -> None:
        """Make nothing yet: the first frame does.

        Args:
            files: the open files of the logs.
            directory: the data directory.
            new_file_id: returns a random id at each call.
        """
        # The files of these logs are pinned. The others need pins, too.
        self.limits = WriteAheadLimits(logs=max(2, min(_MOST_LOGS, files.limit // 8)))
        self.stopped = False
        self._filesystem = files.filesystem
        self._directory = directory
        self._new_file_id = new_file_id
        # The file that frames are written to, and the one that is being settled.
        self._active: WriteAheadFile | None = None
        self._settling: WriteAheadFile | None = None
        # The logs of the latter that still have to be synced, and up to which offset.
        self._unsettled: dict[Log, int] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is no file."""
        return self._active is None and self._settling is None

    @property
    def is_full(self) -> bool:
        """Whether the file should be settled at once."""
        active = self._active
        return active is not None and (
            active.closed
            or active.end >= self.limits.file_bytes
            or len(active.logs) >= self.limits.logs
        )

    # --- frames -----------------------------------------------------------------------------------

    def begin(self, logs: Iterable[Log]) -> PendingFrame | None:
        """Return a frame of what was appended to these logs and is not durable yet.

        A log that is not in it has to be synced itself. Only one frame may be pending.

        Returns:
            None if a frame would hold fewer than two logs, or none can be written now.
        """
        active = self._active
        if self.stopped or (active is not None and active.closed):
            return None
        if active is None:
            active = WriteAheadFile(self._filesystem, self._directory, self._new_file_id())
        limits = self.limits
        left = min(limits.frame_bytes, limits.most_file_bytes - active.end)
        places = limits.logs - len(active.logs)
        assert places >= 0, "a file has records of no more logs than it may"
        covered: dict[Log, LogOffsetMetadata] = {}
        entries: list[Entry] = []
        for log in logs:
            is_known = log in active.logs
            part = log.write_ahead
            if log.failed or part.partition_id is None or not (is_known or places):
                continue
            size = part.missing_bytes()
            if not 0 < size <= left:
                continue
            try:
                entries += part.missing()
            except (OSError, BadBatch):
                # Syncing the log itself reports the error.
                continue
            assert log not in covered, "a frame holds what a log got once"
            covered[log] = end_of(log.segments[-1])
            left -= size
            places -= not is_known
        if len(covered) < 2:
            return None
        self._active = active
        for entry_log in covered:
            active.logs[entry_log] = None
            entry_log.write_ahead.begin(active.file_id)
        assert len(active.logs) <= limits.logs, "a file has records of no more logs than it may"
        assert len(entries) >= len(covered), "each log of a frame has an entry"
        return PendingFrame(active, covered, entries, limits.extend_bytes)

    def end(self, frame: PendingFrame, error: OSError | None) -> None:
        """Take the result of `frame.run`.

        After an error the logs of the frame have to be synced themselves, and the file has to be
        settled before another frame can be written [recovery/write-ahead-errors].
        """
        if error is not None:
            frame.file.closed = True
            return
        assert not frame.file.closed, "a frame of a file that has failed is not durable"
        for log, covered in frame.logs.items():
            log.write_ahead.note(covered)

    # --- settling ---------------------------------------------------------------------------------

    def rotate(self) -> bool:
        """Begin to settle the file, unless an earlier one is not settled; return whether it did."""
        if self._active is None or self._settling is not None or self.stopped:
            return False
        assert not self._unsettled, "the file before was settled"
        self._settling, self._active = self._active, None
        self._unsettled = {log: log.log_end_offset for log in self._settling.logs}
        return True

    def next_step(self) -> SettlingStep | None:
        """Return the next step of settling a file; None if there is nothing to settle.

        No frame may be pending that belongs to the file.

        Raises:
            LogFailed: a log with records in it has failed, so the file stays.
            OutOfHandles: the next step is not possible now.
        """
        settling = self._settling
        if settling is None or self.stopped:
            return None
        while self._unsettled:
            log, end_offset = next(iter(self._unsettled.items()))
            if log.synced_offset >= end_offset:
                del self._unsettled[log]
                continue
            try:
                pending = log.unsynced()
            except LogFailed:
                self.stopped = True
                raise
            assert pending is not None, "something is not synced"
            assert log in settling.logs, "only logs with records in the file are synced for it"
            return SettlingStep(pending.run, log, pending)
        return SettlingStep(settling.remove)

    def end_step(self, step: SettlingStep, error: OSError | None) -> None:
        """Take the result of `step.run`.

        After an error the log has failed, or the file could not be removed: it stays.
        """
        settling = self._settling
        assert settling is not None, "one step is done at a time"
        assert step.log is None or step.pending is not None, "a step for a log has a sync"
        if step.log is not None and step.pending is not None:
            step.log.synced(step.pending, error)
            return
        if error is not None:
            self.stopped = True
            return
        assert not self._unsettled, "a file is removed when each of its logs is synced"
        for each in settling.logs:
            each.write_ahead.settled(settling.file_id)
        self._settling = None

    def forget(self, log: Log) -> None:
        """Drop a log that is deleted; its records are never needed again."""
        for file in (self._active, self._settling):
            if file is not None:
                file.logs.pop(log, None)
        self._unsettled.pop(log, None)

    def close(self, *, synced: bool) -> None:
        """Release everything.

        Args:
            synced: whether every log is synced, so that the files can be removed.

        Raises:
            OSError: a file could not be removed.
        """
        for file in (self._settling, self._active):
            if file is not None:
                if synced:
                    file.remove()
                file.close()
        self._active = self._settling = None
