"""What of a log is synced, and the end of all writing after the first error.

A sync has three parts [log/power-loss]: `begin` says what has to be synced, `PendingSync.run`
syncs it and may run in another thread, and `end` takes the result. After the first failed write or
sync the log has failed for good [log/fail-stop].
"""

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from coterie.storage.errors import LogFailed, OutOfHandles, is_shortage
from coterie.storage.filesystem import File
from coterie.storage.log_write_ahead import LogOffsetMetadata, end_of
from coterie.storage.open_files import OpenFiles
from coterie.storage.segment import Segment

# How many segments one sync covers. A log without `flush` may have thousands of unsynced ones.
_SEGMENTS_AT_ONCE = 8


class PendingSync(NamedTuple):
    """A sync that has to be done. Give it back to `Log.synced` afterwards.

    Attributes:
        end: everything before it is included.
        is_complete: whether that is everything that was appended.
        files: the files to sync; they are pinned.
        dropped: the files that the log has begun to remove. This set changes during the sync.
    """

    end: LogOffsetMetadata
    is_complete: bool
    files: tuple[File, ...]
    dropped: AbstractSet[File]

    def run(self) -> None:
        """Sync the files, in any thread.

        Raises:
            OSError: a sync failed. It must not be repeated.
        """
        for file in self.files:
            try:
                file.sync()
            except FileNotFoundError:
                # A file that we removed needs no sync. If someone else did, its data is lost.
                if file not in self.dropped:
                    raise


class SyncState:
    """How far a log is synced, which files wait for a sync, and whether the log has failed.

    Attributes:
        synced_offset: everything below it needs no sync any more.
        failure: the first error of a write or sync.
        pinned: the files with writes that a later sync has to confirm, by path [log/fail-stop].
    """

    __slots__ = ("_directory", "_files", "failure", "pinned", "synced_offset")

    def __init__(self, files: OpenFiles, directory: str) -> None:
        """Nothing is synced yet.

        Args:
            files: the open files of the file system.
            directory: the log's directory, for error messages.
        """
        self.synced_offset = 0
        self.failure: OSError | None = None
        self._files = files
        self._directory = directory
        self.pinned: dict[str, File] = {}

    def use(self, files: OpenFiles) -> None:
        """Use other open files from now on."""
        assert not self.pinned, "nothing waits for a sync"
        self._files = files

    def check(self) -> None:
        """Raise LogFailed if the log has failed."""
        if self.failure is not None:
            raise LogFailed(self._directory, self.failure)

    def fail(self, error: OSError) -> LogFailed | OutOfHandles:
        """Return what to raise after an error.

        The log has failed for good, unless only a file could not be opened: every operation of a
        log can be repeated after that [log/handle-shortage].
        """
        if is_shortage(error):
            self._files.give_back()
            return OutOfHandles(self._directory, error)
        return self.stop(error)

    def stop(self, error: OSError) -> LogFailed:
        """Let the log fail for good; the first error remains the cause. Return what to raise."""
        if self.failure is None:
            self.failure = error
        assert self.failure is not None, "a log that has failed does not recover"
        return LogFailed(self._directory, self.failure)

    def pin(self, path: str) -> bool:
        """Keep a file open until the log is synced, because it is about to be written.

        Returns:
            False if too many files are pinned: the log must be synced right after the write.

        Raises:
            OSError: the file could not be opened.
        """
        assert path not in self.pinned, "a file is pinned once"
        assert self.failure is None, "nothing is written to a log that has failed"
        if self._files.pins_left <= 0:
            return False
        self.pinned[path] = self._files.pin(path)
        return True

    def begin(self, segments: list[Segment], end_offset: int) -> PendingSync | None:
        """Return what a sync that begins now has to do; None if everything is synced.

        If there are many unsynced segments, the oldest of them are done first.

        Args:
            segments: the log's segments.
            end_offset: the log's end.

        Raises:
            OSError: a file could not be opened.
        """
        assert self.failure is None, "a log that has failed is not synced again"
        if self.synced_offset >= end_offset:
            return None
        unsynced = [each for each in segments if each.next_offset > self.synced_offset]
        assert unsynced, "the segments reach the end of the log"
        pins: list[File] = []
        if len(unsynced) > _SEGMENTS_AT_ONCE:
            del unsynced[_SEGMENTS_AT_ONCE:]
        try:
            pins.extend(self._files.pin(segment.path) for segment in unsynced if segment.size)
        except OSError:
            for file in pins:
                self._files.unpin(file)
            raise
        end = end_of(unsynced[-1])
        assert end.offset > self.synced_offset, "a sync covers something new"
        return PendingSync(end, end.offset == end_offset, tuple(pins), self._files.dropped)

    def end(self, pending: PendingSync, error: OSError | None, end_offset: int) -> None:
        """Take the result of a sync. An error fails the log.

        Args:
            pending: what was synced.
            error: what `pending.run` raised.
            end_offset: the log's end now.
        """
        assert pending.end.offset <= end_offset, "a log never gets shorter"
        for file in pending.files:
            self._files.unpin(file)
        if error is not None:
            self.stop(error)
        if self.failure is not None:
            return
        self.synced_offset = max(self.synced_offset, pending.end.offset)
        assert self.synced_offset <= end_offset, "only what was appended is synced"
        if self.synced_offset == end_offset:
            self.unpin()

    def unpin(self) -> None:
        """Let the files be closed: nothing in them waits for a sync."""
        for file in self.pinned.values():
            self._files.unpin(file)
        self.pinned.clear()
