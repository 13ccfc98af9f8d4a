"""Closing all logs of a data directory, by several threads if there are some."""

from collections.abc import Callable
from functools import partial

from coterie.storage.filesystem import FileSystem
from coterie.storage.log import Log
from coterie.storage.open_files import OpenFiles
from coterie.storage.opening import FILES_OF_A_LOG
from coterie.storage.record_file import RecordFile

# Calls functions, and returns when all have returned.
RunAll = Callable[[list[Callable[[], None]]], None]


def close_logs(
    logs: list[Log], security_log: RecordFile, filesystem: FileSystem, run_all: RunAll | None
) -> Exception | None:
    """Sync and close every log; return the first failure.

    Args:
        logs: the logs of partitions.
        security_log: the security log.
        filesystem: where they are.
        run_all: calls functions in several threads; without it the logs are closed here.
    """
    failures: list[Exception] = []

    def close(log: Log | RecordFile) -> None:
        try:
            log.close()
        except Exception as error:  # noqa: BLE001 - returned when the others are closed
            failures.append(error)

    if run_all is not None:
        # Those that wait for a sync keep handles among the open files of the directory, which
        # belong to this thread.
        movable = [log for log in logs if not log.waits_for_sync]
        logs = [log for log in logs if log.waits_for_sync]
        for log in movable:
            log.use(OpenFiles(filesystem, FILES_OF_A_LOG))
        run_all([partial(close, log) for log in movable])
    for log in logs:
        close(log)
    close(security_log)
    assert not any(log.waits_for_sync for log in logs), "a closed log keeps no handle"
    return failures[0] if failures else None
