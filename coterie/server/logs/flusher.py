"""When an append counts as durable: `--flush never | commit | interval:MS`.

`never` leaves syncing to the operating system, which is Kafka's default: what is written survives
the death of the process, but not a loss of power. `commit` syncs before anything is acknowledged;
one thread syncs everything that was appended since the last sync (group commit). `interval:MS`
acknowledges at once and syncs every MS milliseconds.

With `commit`, the appends of a turn to several logs are written to the write-ahead log, and only
that is synced (storage/write_ahead_log.py). Its files are settled in the background: the same
thread syncs one log after another between the turns.

Invariants:
* A callback is called exactly once, and reports success only after a sync that began after its
  append.
* The thread uses only the `run` of pending work and the clock. Everything else belongs
  to the event loop, so nothing here needs a lock.
* There is one thread, so no file is synced twice at a time: the kernel would report an error to
  only one of two syncs.
* After `fail` no callback reports success.
"""

from asyncio import TimerHandle
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from coterie.server.environment import Environment
from coterie.server.slices import SLICE_S
from coterie.storage.errors import OutOfHandles, StorageError
from coterie.storage.log import Log
from coterie.storage.sync import PendingSync
from coterie.storage.write_ahead_log import PendingFrame, SettlingStep, WriteAheadLog

# How many logs are synced at once in mode `interval`, because their files are opened for it. In
# mode `commit` they are open.
_LOGS_AT_ONCE = 8
# After a shortage of file handles a sync is tried again after this time.
_RETRY_S = 0.1
# How old a write-ahead file becomes. A start has at most the records of this time to write again,
# and segments that it holds records of cannot be compacted.
SETTLE_AFTER_S = 5.0
# After an error the write-ahead log is not used for this time; each log is synced itself.
RESUME_AFTER_S = 30.0

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


# A day; a later sync is as good as none.
MAX_INTERVAL_MS = 86_400_000
# Of a text that is refused, an error shows so many characters.
_SHOWN = 40


def parse_flush_mode(text: str) -> FlushMode:
    """Parse the value of `--flush`.

    Raises:
        ValueError: it is not valid; the text lists the valid ones.
    """
    if text in ("never", "commit"):
        return FlushMode(text == "commit", None)
    kind, _, interval = text.partition(":")
    # A number with so few digits is one that Python reads, whatever it is.
    is_number = interval.isdecimal() and len(interval) <= len(str(MAX_INTERVAL_MS))
    if kind == "interval" and is_number and 1 <= int(interval) <= MAX_INTERVAL_MS:
        return FlushMode(commit=False, interval_ms=int(interval))
    shown = repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
    raise ValueError(
        f"{shown} is not one of: never, commit, interval:MS (MS from 1 to {MAX_INTERVAL_MS:,})"
    )


class _Turn(NamedTuple):
    """What has to become durable after a turn of the event loop, and the logs that cannot."""

    frame: PendingFrame | None
    syncs: list[tuple[Log, PendingSync]]
    errors: dict[Log, Exception]


class _Done(NamedTuple):
    """The result of something that waited for the disk."""

    error: OSError | None
    seconds: float


class Flusher:
    """Syncs logs in a thread and calls back on the event loop.

    Attributes:
        mode: when to sync.
        commit: `mode.commit`, for the hot path.
        write_ahead: the write-ahead log of the data directory, None if it has none.
        write_ahead_failed: called with the error when the write-ahead log cannot be used, for some
            time or, if it is stopped, until the next start.
        syncs, sync_seconds, slowest_sync_seconds: for the metrics.
    """

    def __init__(
        self, environment: Environment, mode: FlushMode, failed: Callable[[Log, Exception], None]
    ) -> None:
        """Start without a thread; the first sync starts it.

        Args:
            environment: its loop, on which callbacks are called, its clock and its workers.
            mode: when to sync.
            failed: called with a log whose sync failed, after its callbacks.
        """
        assert not mode.commit or mode.interval_ms is None, "logs are synced in one mode"
        assert mode.interval_ms is None or mode.interval_ms > 0, "there is time between two syncs"
        self.mode = mode
        self.commit = mode.commit
        self._loop = environment.loop
        self._monotonic_s = environment.monotonic_s
        self._slice_clock_s = environment.slice_clock_s
        self._failed = failed
        # Logs with appends for which no sync has begun, and those that are being synced.
        self._dirty: dict[Log, deque[Callback]] = {}
        self._syncing: dict[Log, deque[Callback]] = {}
        self.write_ahead: WriteAheadLog | None = None
        self.write_ahead_failed: Callable[[Exception], None] = lambda _: None
        self._settle_timer: TimerHandle | None = None
        # Whether the write-ahead file should be settled once the one before it is.
        self._is_old = False
        # When the write-ahead log may be used again after an error.
        self._resume_s = 0.0
        # One thread, so that turns and steps of settling are done in order.
        self._workers = environment.workers("coterie-flusher", 1)
        self._is_stopped = False
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
        callbacks = self._dirty.get(log)
        if callbacks is None:
            callbacks = self._dirty[log] = deque()
        if callback is not None:
            callbacks.append(callback)
        if not self._scheduled and not self._syncing:
            self._schedule()

    def _schedule(self) -> None:
        assert not self._scheduled, "one sync is scheduled at a time"
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
            left = min(due, len(self._dirty)) - len(dirty)
            assert left >= 0, "no more logs are synced than are due"
            self._due = left
        self._syncing = {log: self._dirty.pop(log) for log in dirty}
        frame = self._begin_frame()
        turn = _Turn(frame, [], {})
        for log in dirty:
            if (frame is not None and log in frame.logs) or self._is_covered(log):
                continue
            try:
                pending = log.unsynced()
            except OutOfHandles:
                self._dirty[log] = self._syncing.pop(log)
                if not self._scheduled:
                    self._scheduled = True
                    self._loop.call_later(_RETRY_S, self.begin)
            except StorageError as error:
                turn.errors[log] = error
            else:
                # None: an earlier sync covers the append.
                if pending is not None:
                    turn.syncs.append((log, pending))
        runs = [pending.run for _, pending in turn.syncs]
        if frame is not None:
            runs.insert(0, frame.run)
        self._submit(runs, partial(self._done, turn))

    def _begin_frame(self) -> PendingFrame | None:
        """Return a frame for the write-ahead log, None if each log has to be synced itself."""
        write_ahead = self.write_ahead
        if write_ahead is None or len(self._syncing) < 2 or self._monotonic_s() < self._resume_s:
            return None
        frame = write_ahead.begin(self._syncing)
        is_due = frame is None or self._syncing.keys() >= frame.logs.keys()
        assert is_due, "a frame holds what is synced in this turn"
        if frame is not None and self._settle_timer is None:
            self._settle_timer = self._loop.call_later(SETTLE_AFTER_S, self._settle_by_age)
        return frame

    def _is_covered(self, log: Log) -> bool:
        """Return whether all of a log is durable, perhaps in the write-ahead log only."""
        if self.write_ahead is None or log.failed:
            return False
        return log.write_ahead.covered.offset >= log.log_end_offset

    def _submit(self, runs: list[Callable[[], None]], then: Callable[[list[_Done]], None]) -> None:
        """Let the thread do what waits for the disk; `then` takes the results."""
        results: list[_Done] = []

        def done(failure: Exception | None) -> None:
            if failure is not None:
                raise failure
            assert len(results) == len(runs), "each run has its result"
            then(results)

        def steps() -> Iterator[None]:
            for run in runs:
                results.append(self._timed(run))
                yield

        self._workers.submit(steps(), done)

    def _timed(self, run: Callable[[], None]) -> _Done:
        """Run and measure; the thread calls this."""
        began_s = self._monotonic_s()
        error = None
        try:
            run()
        except OSError as failure:
            error = failure
        return _Done(error, self._monotonic_s() - began_s)

    # --- results ----------------------------------------------------------------------------------

    def _done(self, turn: _Turn, done: list[_Done]) -> None:
        """Take the results of a turn, that of its frame first, and call back."""
        frame_done = None if turn.frame is None else done.pop(0)
        synced = self._syncing
        errors = turn.errors
        for (log, pending), (error, seconds) in zip(turn.syncs, done, strict=True):
            self._count(seconds)
            log.synced(pending, error)
            if error is not None:
                errors[log] = error
            elif not pending.is_complete and log in synced:
                # There were too many segments for one sync.
                self._dirty[log] = synced.pop(log) + self._dirty.get(log, deque())
        if turn.frame is not None and frame_done is not None:
            self._end_frame(turn.frame, frame_done, synced)
        self._call_all_back(errors)

    def _call_all_back(self, errors: dict[Log, Exception]) -> None:
        """Call back for all logs that were synced, in slices; then begin the next sync.

        Thousands of responses may wait for one sync [connections/turns].
        """
        deadline_s = self._slice_clock_s() + SLICE_S
        while self._syncing:
            log, callbacks = next(iter(self._syncing.items()))
            failure = errors.get(log)
            if failure is None and log.failed:
                # Another call has synced its file meanwhile, and perhaps got the error instead.
                failure = log.failure
            try:
                while callbacks:
                    callbacks.popleft()(failure)
                    if self._slice_clock_s() >= deadline_s:
                        self._loop.call_soon(self._call_all_back, errors)
                        return
                # A callback may have had the log forgotten.
                self._syncing.pop(log, None)
                if failure is not None:
                    self._failed(log, failure)
            except BaseException:
                # This is a mistake of ours, which the loop reports. The other callbacks are
                # called all the same, and the next sync begins: they would wait for ever.
                self._loop.call_soon(self._call_all_back, errors)
                raise
        self._synced_all()

    def _synced_all(self) -> None:
        """Begin the next sync, if something waits for one."""
        assert not self._syncing, "one sync ends before the next begins"
        if self.write_ahead is not None and self.write_ahead.is_full:
            self._rotate()
        if self._dirty and not self._scheduled:
            if self._due:
                self._scheduled = True
                self._loop.call_soon(self.begin)
            else:
                self._schedule()

    def _end_frame(
        self, frame: PendingFrame, done: _Done, synced: dict[Log, deque[Callback]]
    ) -> None:
        """Take the result of a frame. After an error its logs are taken out of `synced`."""
        assert self.write_ahead is not None, "it has made the frame"
        self._count(done.seconds)
        self.write_ahead.end(frame, done.error)
        if done.error is None:
            return
        # Nothing is lost: their own files are synced now, for the first time.
        for log in frame.logs:
            if log in synced:
                self._dirty[log] = synced.pop(log) + self._dirty.get(log, deque())
        self._resume_s = self._monotonic_s() + RESUME_AFTER_S
        self.write_ahead_failed(done.error)

    def _count(self, seconds: float) -> None:
        self.syncs += 1
        self.sync_seconds += seconds
        self.slowest_sync_seconds = max(self.slowest_sync_seconds, seconds)

    def forget(self, log: Log) -> None:
        """Drop a log that is about to be deleted; its records need not become durable any more."""
        for callbacks in (self._syncing.pop(log, deque()), self._dirty.pop(log, deque())):
            while callbacks:
                callbacks.popleft()(None)

    def fail(self, error: Exception) -> None:
        """Report `error` to all callbacks, present and future: the data directory is lost."""
        self._failure = error
        # The sync in progress still reports its result, which must not reach a callback again.
        waiting = [*self._dirty.values(), *self._syncing.values()]
        self._dirty.clear()
        for callbacks in waiting:
            while callbacks:
                callbacks.popleft()(error)

    # --- settling the write-ahead log -------------------------------------------------------------

    def _settle_by_age(self) -> None:
        assert self._settle_timer is not None, "a timer that was cancelled does not end"
        self._settle_timer = None
        if not self._rotate():
            # The file before is not settled yet. When it is, this one is next.
            self._is_old = True

    def _rotate(self) -> bool:
        """Begin to settle the write-ahead file, unless the one before is not settled."""
        write_ahead = self.write_ahead
        if write_ahead is None or not write_ahead.rotate():
            return False
        self._is_old = False
        if self._settle_timer is not None:
            self._settle_timer.cancel()
            self._settle_timer = None
        self._next_step()
        return True

    def _next_step(self) -> None:
        assert self.write_ahead is not None, "there is something to settle"
        try:
            step = self.write_ahead.next_step()
        except OutOfHandles:
            self._loop.call_later(_RETRY_S, self._next_step)
            return
        except StorageError as error:
            self.write_ahead_failed(error)
            return
        if step is not None:
            self._submit([step.run], partial(self._step_done, step))
        elif self._is_old or self.write_ahead.is_full:
            self._rotate()

    def _step_done(self, step: SettlingStep, results: list[_Done]) -> None:
        """Take the result of a step of settling, and do the next."""
        assert (step.log is None) == (step.pending is None), "a sync belongs to a log"
        (done,) = results
        self._count(done.seconds)
        if self._is_stopped or self._failure is not None or self.write_ahead is None:
            # The directory is closed or lost.
            if step.log is not None and step.pending is not None:
                step.log.synced(step.pending, done.error)
            return
        self.write_ahead.end_step(step, done.error)
        if done.error is not None and step.log is None:
            self.write_ahead_failed(done.error)
            return
        if done.error is not None and step.log is not None:
            self._failed(step.log, done.error)
        self._next_step()

    # --- the end ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Let the thread finish its work and end."""
        self._is_stopped = True
        self._workers.stop()
