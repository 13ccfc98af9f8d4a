"""When an append counts as durable: `--flush never | commit | interval:MS`.

`never` leaves syncing to the operating system, which is Kafka's default: what is written survives
the death of the process, but not a loss of power. `commit` syncs before anything is acknowledged;
one thread syncs everything that was appended since the last sync (group commit). `interval:MS`
acknowledges at once and syncs every MS milliseconds.

Invariants:
* A callback is called exactly once, and reports success only after a sync that began after its
  append.
* The thread uses only `PendingSync.run`, the clock and its queue. Everything else belongs to the
  event loop, so nothing here needs a lock.
* After `fail` no callback reports success.
"""

import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable
from queue import SimpleQueue
from typing import NamedTuple

from coterie.storage.errors import OutOfHandles, StorageError
from coterie.storage.log import Log
from coterie.storage.sync import PendingSync

# How long stopping waits for a sync in progress. A disk that takes longer will not answer.
STOP_TIMEOUT_S = 10.0

# How many logs are synced at once in mode `interval`, because their files are opened for it. In
# mode `commit` they are open.
_LOGS_AT_ONCE = 8
# After a shortage of file handles a sync is tried again after this time.
_RETRY_S = 0.1

# Called with the error of the sync, or with None after a success.
Callback = Callable[[Exception | None], None]


class FlushMode(NamedTuple):
    """The value of `--flush`. With `commit` False and `interval_ms` None nothing is synced."""

    commit: bool
    interval_ms: int | None

    def __str__(self) -> str:
        if self.interval_ms is not None:
            return f"interval:{self.interval_ms}"
        return "commit" if self.commit else "never"


def parse_flush_mode(text: str) -> FlushMode:
    """Parse the value of `--flush`.

    Raises:
        ValueError: it is not valid; the text lists the valid ones.
    """
    if text in ("never", "commit"):
        return FlushMode(text == "commit", None)
    kind, _, interval = text.partition(":")
    if kind == "interval" and interval.isdigit() and int(interval) > 0:
        return FlushMode(commit=False, interval_ms=int(interval))
    raise ValueError(f"{text!r} is not one of: never, commit, interval:MS (MS at least 1)")


class _Result(NamedTuple):
    """The result of one sync."""

    log: Log
    pending: PendingSync
    error: OSError | None
    seconds: float


class Flusher:
    """Syncs logs in a thread and calls back on the event loop.

    Attributes:
        mode: when to sync.
        commit: `mode.commit`, for the hot path.
        syncs, sync_seconds, slowest_sync_seconds: for the metrics.
    """

    def __init__(
        self, loop: AbstractEventLoop, mode: FlushMode, failed: Callable[[Log, Exception], None]
    ) -> None:
        """Start without a thread; the first sync starts it.

        Args:
            loop: the event loop, on which callbacks are called.
            mode: when to sync.
            failed: called with a log whose sync failed, after its callbacks.
        """
        self.mode = mode
        self.commit = mode.commit
        self._loop = loop
        self._failed = failed
        # Logs with appends for which no sync has begun, and those that are being synced.
        self._dirty: dict[Log, list[Callback]] = {}
        self._syncing: dict[Log, list[Callback]] = {}
        self._work: SimpleQueue[list[tuple[Log, PendingSync]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._scheduled = False
        # How many of the dirty logs are due, in mode `interval`.
        self._due = 0
        self._failure: Exception | None = None
        self.syncs = 0
        self.sync_seconds = 0.0
        self.slowest_sync_seconds = 0.0

    @property
    def idle(self) -> bool:
        """Whether nothing is left to sync and no callback is left to call."""
        return not self._dirty and not self._syncing

    def appended(self, log: Log, callback: Callback | None = None) -> None:
        """Sync an append to `log`; `callback` is called when it is durable (mode `commit` only)."""
        if not self.commit and self.mode.interval_ms is None:
            assert callback is None, "in this mode no sync ever comes"
            return
        callbacks = self._dirty.setdefault(log, [])
        if callback is not None:
            callbacks.append(callback)
        if not self._scheduled and not self._syncing:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        if self.mode.interval_ms is None:
            # At the end of the turn of the event loop, so that one sync covers all its appends.
            self._loop.call_soon(self.begin)
        else:
            self._loop.call_later(self.mode.interval_ms / 1000, self.begin)

    def begin(self) -> None:
        """Start to sync all dirty logs, unless a sync is in progress: `_done` starts the next."""
        self._scheduled = False
        if self._failure is not None:
            self.fail(self._failure)
            return
        if self._syncing or not self._dirty:
            return
        dirty = list(self._dirty)
        if not self.commit:
            due = self._due or len(dirty)
            del dirty[min(due, _LOGS_AT_ONCE) :]
            self._due = min(due, len(self._dirty)) - len(dirty)
        self._syncing = {log: self._dirty.pop(log) for log in dirty}
        work: list[tuple[Log, PendingSync]] = []
        errors: dict[Log, Exception] = {}
        for log in dirty:
            try:
                pending = log.unsynced()
            except OutOfHandles:
                self._dirty[log] = self._syncing.pop(log)
                if not self._scheduled:
                    self._scheduled = True
                    self._loop.call_later(_RETRY_S, self.begin)
            except StorageError as error:
                errors[log] = error
            else:
                # None: an earlier sync covers the append.
                if pending is not None:
                    work.append((log, pending))
        for log, failure in errors.items():
            self._call_back(log, self._syncing.pop(log), failure)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="coterie-flusher", daemon=True)
            self._thread.start()
        self._work.put(work)

    def _run(self) -> None:
        """Sync what is queued until None is queued; this is the thread."""
        while (work := self._work.get()) is not None:
            results: list[_Result] = []
            for log, pending in work:
                error = None
                began = time.monotonic()
                try:
                    pending.run()
                except OSError as failure:
                    error = failure
                results.append(_Result(log, pending, error, time.monotonic() - began))
            try:
                self._loop.call_soon_threadsafe(self._done, results)
            except RuntimeError:
                return  # The loop is closed: the broker has stopped without waiting for this sync.

    def _done(self, results: "list[_Result]") -> None:
        synced, self._syncing = self._syncing, {}
        errors: dict[Log, Exception] = {}
        for log, pending, error, seconds in results:
            assert log in synced, "the thread syncs what was handed to it"
            log.synced(pending, error)
            if error is not None:
                errors[log] = error
            elif not self.commit and log.synced_offset < log.log_end_offset:
                # There were too many segments for one sync, or there are new appends.
                self._dirty.setdefault(log, [])
            self.syncs += 1
            self.sync_seconds += seconds
            self.slowest_sync_seconds = max(self.slowest_sync_seconds, seconds)
        for log, callbacks in synced.items():
            self._call_back(log, callbacks, errors.get(log))
        if self._dirty and not self._scheduled:
            if self._due:
                self._scheduled = True
                self._loop.call_soon(self.begin)
            else:
                self._schedule()

    def _call_back(self, log: Log, callbacks: list[Callback], error: Exception | None) -> None:
        for callback in callbacks:
            callback(error)
        if error is not None:
            self._failed(log, error)

    def forget(self, log: Log) -> None:
        """Drop a log that is about to be deleted; its records need not become durable any more."""
        for callback in self._dirty.pop(log, ()):
            callback(None)

    def fail(self, error: Exception) -> None:
        """Report `error` to all callbacks, present and future: the data directory is lost."""
        self._failure = error
        waiting = [*self._dirty.values(), *self._syncing.values()]
        self._dirty.clear()
        # The sync in progress still reports its result, which must not reach a callback again.
        self._syncing = {log: [] for log in self._syncing}
        for callbacks in waiting:
            for callback in callbacks:
                callback(error)

    def stop(self) -> None:
        """Let the thread finish its work and end."""
        if self._thread is not None:
            self._work.put(None)
            self._thread.join(STOP_TIMEOUT_S)
            self._thread = None
