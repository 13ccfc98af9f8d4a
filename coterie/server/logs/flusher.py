"""When an append is as durable as was promised: `--flush never | commit | interval:MS`.

`never` leaves the disk to the operating system, as Kafka does by default: what is written survives
the death of the process, not a loss of power. `commit` syncs before anything is acknowledged; one
thread does it for everything that was appended meanwhile (group commit). `interval:MS` acknowledges
at once and syncs every MS milliseconds.

Invariants: a waiter is told exactly once, and success only after a sync that began after its
append; the thread touches nothing but `PendingSync.run`, the clock and its queue; after `fail`
nobody is told success any more.
"""

import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable
from queue import SimpleQueue
from typing import NamedTuple

from coterie.storage.errors import StorageError
from coterie.storage.log import Log, PendingSync

# How long stopping waits for a sync that is under way; a slower disk is not going to answer.
STOP_TIMEOUT_S = 10.0

# Told the error of the sync, or None.
Waiter = Callable[[Exception | None], None]


class FlushMode(NamedTuple):
    """What `--flush` asks for. With `interval_ms` None and `commit` False nothing is synced."""

    commit: bool
    interval_ms: int | None

    def __str__(self) -> str:
        if self.interval_ms is not None:
            return f"interval:{self.interval_ms}"
        return "commit" if self.commit else "never"


class _Result(NamedTuple):
    """What became of one sync."""

    log: Log
    pending: PendingSync
    error: OSError | None
    seconds: float


def parse_flush_mode(text: str) -> FlushMode:
    """Read the value of `--flush`.

    Raises:
        ValueError: it is none of the three; the text says what they are.
    """
    if text in ("never", "commit"):
        return FlushMode(text == "commit", None)
    kind, _, interval = text.partition(":")
    if kind == "interval" and interval.isdigit() and int(interval) > 0:
        return FlushMode(commit=False, interval_ms=int(interval))
    raise ValueError(f"{text!r} is not one of: never, commit, interval:MS (MS at least 1)")


class Flusher:
    """Syncs logs in a thread of its own and tells who waited."""

    def __init__(
        self, loop: AbstractEventLoop, mode: FlushMode, failed: Callable[[Log, Exception], None]
    ) -> None:
        """Nothing runs before the first append.

        Args:
            loop: where waiters are told.
            mode: when to sync.
            failed: called for a log whose sync failed, after its waiters.
        """
        self.mode = mode
        self.commit = mode.commit
        self._loop = loop
        self._failed = failed
        # Logs with appends that no sync has begun for, and those a sync is under way for.
        self._dirty: dict[Log, list[Waiter]] = {}
        self._syncing: dict[Log, list[Waiter]] = {}
        self._work: SimpleQueue[list[tuple[Log, PendingSync]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._scheduled = False
        self._failure: Exception | None = None
        # For whoever counts: syncs that were done, their time altogether, and the slowest.
        self.syncs = 0
        self.sync_seconds = 0.0
        self.slowest_sync_seconds = 0.0

    @property
    def idle(self) -> bool:
        """Whether nobody waits and nothing is left to sync."""
        return not self._dirty and not self._syncing

    def appended(self, log: Log, waiter: Waiter | None = None) -> None:
        """`log` was appended to; `waiter` is told when that is durable (in mode `commit` only)."""
        if not self.commit and self.mode.interval_ms is None:
            assert waiter is None, "nobody waits for a sync that never comes"
            return
        waiters = self._dirty.setdefault(log, [])
        if waiter is not None:
            waiters.append(waiter)
        if not self._scheduled and not self._syncing:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        if self.mode.interval_ms is None:
            # At the end of the turn, so that one sync covers all its appends.
            self._loop.call_soon(self.begin)
        else:
            self._loop.call_later(self.mode.interval_ms / 1000, self.begin)

    def begin(self) -> None:
        """Hand everything that is dirty to the thread, unless it is busy: then it comes after."""
        self._scheduled = False
        if self._failure is not None:
            self.fail(self._failure)
            return
        if self._syncing or not self._dirty:
            return
        self._syncing, self._dirty = self._dirty, {}
        work: list[tuple[Log, PendingSync]] = []
        errors: dict[Log, Exception] = {}
        for log in self._syncing:
            try:
                pending = log.unsynced()
            except StorageError as error:
                errors[log] = error
            else:
                if pending is not None:
                    work.append((log, pending))
        for log, failure in errors.items():
            self._tell(log, self._syncing.pop(log), failure)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="coterie-flusher", daemon=True)
            self._thread.start()
        self._work.put(work)

    def _run(self) -> None:
        """The thread: sync what is asked for, report, wait."""
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
                return  # The loop is closed: nobody is left to tell.

    def _done(self, results: "list[_Result]") -> None:
        synced, self._syncing = self._syncing, {}
        errors: dict[Log, Exception] = {}
        for log, pending, error, seconds in results:
            log.synced(pending, error)
            if error is not None:
                errors[log] = error
            self.syncs += 1
            self.sync_seconds += seconds
            self.slowest_sync_seconds = max(self.slowest_sync_seconds, seconds)
        for log, waiters in synced.items():
            self._tell(log, waiters, errors.get(log))
        if self._dirty and not self._scheduled:
            self._schedule()

    def _tell(self, log: Log, waiters: list[Waiter], error: Exception | None) -> None:
        for waiter in waiters:
            waiter(error)
        if error is not None:
            self._failed(log, error)

    def forget(self, log: Log) -> None:
        """`log` is about to be deleted: nobody needs to wait for its records any more."""
        for waiter in self._dirty.pop(log, ()):
            waiter(None)

    def fail(self, error: Exception) -> None:
        """The disk is lost to us: tell everybody who waits, and who comes, of `error`."""
        self._failure = error
        waiting = [*self._dirty.values(), *self._syncing.values()]
        self._dirty.clear()
        # A sync that is under way may still report; nobody is left to be told of it.
        self._syncing = {log: [] for log in self._syncing}
        for waiters in waiting:
            for waiter in waiters:
                waiter(error)

    def stop(self) -> None:
        """Let the thread finish what it has and end."""
        if self._thread is not None:
            self._work.put(None)
            self._thread.join(STOP_TIMEOUT_S)
            self._thread = None
