"""What fails for good, or for some time: it is logged, and what depends on it is notified.

A log that could not be written or synced is not used any more [log/fail-stop]. The loss of the data
directory, or of the last partition that holds groups, ends the broker.
"""

import asyncio
from collections.abc import Callable

from coterie.server.environment import Environment
from coterie.storage.errors import OutOfHandles, describe_error, remedy_for, root_cause
from coterie.storage.log import Log

# A shortage of file handles is logged at most so often.
_SHORTAGE_LOG_MS = 10_000


class Failures:
    """The failures of one broker.

    Attributes:
        fatal: set to the reason when the broker cannot continue.
        when_log_failed: called with each log that is not used any more.
        when_directory_lost: called when the data directory is lost, after `fatal` is set.
    """

    def __init__(self, environment: Environment, path: str) -> None:
        """Start without failures.

        Args:
            environment: its loop, clock and log are used.
            path: the data directory.
        """
        self.fatal: asyncio.Future[str] = environment.loop.create_future()
        self.when_log_failed: list[Callable[[Log, Exception], None]] = []
        self.when_directory_lost: list[Callable[[OSError], None]] = []
        self._environment = environment
        self._path = path
        self._failed_logs: set[Log] = set()
        self._shortage_logged_ms = -_SHORTAGE_LOG_MS

    def storage_failed(self, log: Log, error: Exception) -> None:
        """Stop everything that appends to a log that could not be written or synced."""
        self.log_failed(log, error)
        if log.failed:
            for call in self.when_log_failed:
                call(log, error)

    def log_failed(self, log: Log, error: Exception) -> None:
        """Log, once, that a log cannot be written any more."""
        if isinstance(error, OutOfHandles):
            self.handles_short(error)
        elif log not in self._failed_logs:
            self._failed_logs.add(log)
            self._environment.log.error(
                "log failed",
                directory=log.directory,
                file=log.segments[-1].path,
                error=str(root_cause(error)),
                remedy=remedy_for(error),
            )

    def handles_short(self, error: OutOfHandles) -> None:
        """Log, not too often, that files could not be opened [log/handle-shortage]."""
        now_ms = self._environment.now_ms()
        if now_ms - self._shortage_logged_ms >= _SHORTAGE_LOG_MS:
            self._shortage_logged_ms = now_ms
            self._environment.log.warning(
                "file handles are short", cause=describe_error(error), remedy=remedy_for(error)
            )

    def directory_lost(self, error: OSError) -> None:
        """Stop acknowledging, and end the broker, because the data directory was lost.

        What would be written now would go into files that no later start finds.
        """
        if self.fatal.done():
            return
        cause = describe_error(error)
        self._environment.log.error(
            "data directory lost", directory=self._path, error=cause, remedy=remedy_for(error)
        )
        self.end(f"the data directory {self._path} is lost: {cause}")
        for call in self.when_directory_lost:
            call(error)

    def end(self, reason: str) -> None:
        """End the broker, unless it ends for another reason already."""
        if not self.fatal.done():
            self.fatal.set_result(reason)
