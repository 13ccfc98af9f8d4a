"""The opening of one log of a data directory, as work that a thread can do.

`DataDirectory.opening` makes it from what the directory knows, `run` reads and recovers the log
without state of others, and `DataDirectory.opened` takes the log.
"""

from coterie.storage.filesystem import FileSystem
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.open_files import OpenFiles
from coterie.storage.recovery import Recovery
from coterie.storage.torn_tail import TailTrust

# Opening and closing a log need the log and the indexes of one segment at a time.
FILES_OF_A_LOG = 4


class LogOpening:
    """A log that is to be opened.

    Attributes:
        key: topic and partition.
        log: the log, after `run`.
    """

    __slots__ = ("_config", "_directory", "_filesystem", "_known", "key", "log")

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        key: tuple[str, int],
        config: LogConfig | None,
        known: Recovery,
    ) -> None:
        """Nothing is opened yet.

        Args:
            filesystem: where the directory is.
            directory: the partition's directory.
            key: topic and partition.
            config: the log's settings.
            known: what is known of the log.
        """
        self.key = key
        self.log: Log | None = None
        self._filesystem = filesystem
        self._directory = directory
        self._config = config
        self._known = known

    @property
    def power_was_lost(self) -> bool:
        """Whether records may be missing that were in the log before the last stop."""
        return self._known.trust in (TailTrust.POWER_LOST, TailTrust.POWER_LOST_UNSYNCED)

    def run(self) -> None:
        """Open and recover the log, in any thread.

        Raises:
            CorruptLog, LogFailed, OSError: as `Log.open`.
        """
        assert self.log is None, "a log is opened once"
        # With open files of its own, because those of the directory belong to another thread.
        files = OpenFiles(self._filesystem, FILES_OF_A_LOG)
        try:
            self.log = Log.open(
                self._filesystem,
                self._directory,
                self._config,
                files=files,
                log_start_offset=self._known.log_start_offset,
                recovery_point=self._known.recovery_point,
                trust=self._known.trust,
                now_ms=self._known.now_ms,
                is_ours=self._known.is_ours,
            )
        except BaseException:
            files.close()
            raise
        assert not self.log.waits_for_sync, "a log that was opened can use other files"
