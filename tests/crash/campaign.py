"""Many crashes, divided into tasks for several processes, and their results.

A task is one kind of crash or damage after a few prefixes of one recording. A disk that the task
has seen before is not started again, only compared. The figures count each disk once. A failure is
one line and the command that repeats it.
"""

import math
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, count, takewhile, zip_longest
from typing import NamedTuple

from tests.crash import damage, producers
from tests.crash.disk import FIRST_BOOT, Disk, RecordingFileSystem
from tests.crash.failures import FAULTS, crashes_after, fail_call, shorten_call
from tests.crash.history import History
from tests.crash.losses import A_FEW, EVERY_BYTE, NOWHERE, Crash, deaths, power_losses
from tests.crash.pairs import is_pair, pairs
from tests.crash.producers import LATER, STALE
from tests.crash.restart import Found, Restarts, Wrong, check, live_on, produce_on
from tests.crash.scenario_run import Recording
from tests.crash.scenarios import SCENARIOS, record
from tests.crash.windows import cleaned, histories, windows

CRASHES = ("death", "power")
DAMAGES = (STALE, LATER, "truncated", "flipped", "sectors")
FAILING = tuple(f"failing {name}" for name in FAULTS)
SHORT = "short calls"
WINDOW = "window"
KINDS = (*CRASHES, STALE, LATER, *FAILING, WINDOW, SHORT, "flipped", "sectors", "truncated")
WRONG = "WRONG"
# The failures of one task that are printed. The others are similar.
_MAX_FAILURES = 5
# How many unsynced operations a loss of power loses at once. Without syncs it loses acknowledged
# records anyway, so fewer combinations are tried.
_LOST_WITHOUT_SYNC = 1
_LOST = 3
_LOST_IN_PAIRS = 1
# One in so many crashes of a pair of operations is tried in a task: primes, so that operations
# differ in which of theirs are tried.
PAIR_SAMPLES = {"death": 29, "power": 1999}
# The same in a search for a planted bug, where one operation is lost or kept: a prime, too.
_LOST_ALONE_SAMPLE = 17
# Stands for the first and the last operation of a pair, which only its recording says.
WHOLE_PAIR = -1
# The prefixes of one task: enough for disks to repeat, and few enough to share the work.
_STEP = 4


class Task(NamedTuple):
    """One kind of crash, after the prefixes `first` to `last` of one scenario's operations.

    Only the crashes are tried whose number, divided by `sample`, leaves `residue`.

    Attributes:
        lost: how many operations of a pair are lost, or kept, at once. If it is not given, writes
            are torn, too, and the recovery is interrupted.
        until_s: nothing is tried later, on the monotonic clock.
    """

    kind: str
    scenario: str
    flush: bool
    first: int
    last: int
    sample: int = 1
    residue: int = 0
    lost: int | None = None
    until_s: float = math.inf

    @property
    def mode(self) -> str:
        return "commit" if self.flush else "never"


class Result(NamedTuple):
    """The result of a task.

    Attributes:
        task: the task.
        disks: the identities of the disks that were started on.
        outcomes: how often each kind of crash had each outcome.
        failures: the failures, one line each.
        seconds: how long the task took.
    """

    task: Task
    disks: frozenset[int]
    outcomes: Counter[tuple[str, str]]
    failures: list[str]
    seconds: float


@lru_cache(maxsize=4)
def _recording(scenario: str, flush: bool) -> Recording:
    return record(scenario, flush=flush)


def forget_recordings() -> None:
    """Forget all recordings, because the product has changed."""
    _recording.cache_clear()


def length_of(kind: str, scenario: str, *, flush: bool) -> int:
    """Return the number of operations of a scenario, 0 for kinds that do not cut recordings."""
    return len(_recording(scenario, flush).operations) if kind in (*CRASHES, *DAMAGES) else 0


def crashes(task: Task) -> Iterator[Crash]:
    """Yield the disks of a task."""
    recording = _recording(task.scenario, task.flush)
    base, operations = recording.base, recording.operations
    if task.first == WHOLE_PAIR:
        # What comes before the first operation is not crashed.
        task = task._replace(first=recording.marks[0], last=recording.marks[-1])
    # There are hundreds of pairs of operations, so fewer disks of each are made.
    tears, lost = (A_FEW, _LOST_IN_PAIRS) if is_pair(task.scenario) else (EVERY_BYTE, _LOST)
    if task.lost is not None:
        tears, lost = NOWHERE, task.lost
    if task.kind == "death":
        yield from deaths(base, operations, task.first, task.last, tears)
    elif task.kind == "power":
        most = lost if task.flush else _LOST_WITHOUT_SYNC
        yield from power_losses(base, operations, task.first, task.last, most, tears)
    elif task.kind == STALE:
        yield from producers.stale(base, operations, task.first, task.last)
    elif task.kind == LATER:
        yield from producers.later(base, operations, task.first, task.last)
    elif task.kind == "truncated":
        yield from damage.truncations(base, operations, task.first, task.last)
    else:
        disk = after(recording, task.last)
        one = damage.flips if task.kind == "flipped" else damage.sectors
        yield from one(disk, task.last)


def after(recording: Recording, count: int) -> Disk:
    """Return the disk after the first `count` operations."""
    disk = recording.base.copy()
    for operation in recording.operations[:count]:
        disk.apply(operation)
    return disk


class Runner:
    """Starts on the disks of one task."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.history = History()
        if task.kind in (*CRASHES, *DAMAGES):
            self.history = _recording(task.scenario, task.flush).history
        self.restarts = Restarts(flush=task.flush)
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.failures: list[str] = []
        self._found: dict[int, Found] = {}

    def run(self, only: str = "", most: int = _MAX_FAILURES, sample: int = 0) -> Result:
        """Try the disks of the task.

        Args:
            only: try only the disk with this detail.
            most: how many wrong crashes or damages end the search.
            sample: one in this many crashes or damages is tried, instead of the task's number.
        """
        began = time.monotonic()
        sample, residue = (sample, 0) if sample else (self.task.sample, self.task.residue)
        if self.task.kind in FAILING:
            self._fail_calls(only)
        elif self.task.kind == WINDOW:
            self._crash_cleanings(only)
        elif self.task.kind == SHORT:
            self._shorten_calls(only)
        else:
            for number, crash in enumerate(crashes(self.task)):
                if number % sample == residue and (not only or only == crash.detail):
                    self._try(crash)
                if len(self.failures) >= most or self._is_over:
                    break
        seconds = time.monotonic() - began
        disks = frozenset(self._found)
        return Result(self.task, disks, self.outcomes, self.failures, seconds)

    @property
    def _is_over(self) -> bool:
        """Whether the time of the task is over."""
        return time.monotonic() > self.task.until_s

    def _numbers(self) -> Iterator[int]:
        """Count from 1 until the time of the task is over."""
        return takewhile(lambda _: not self._is_over, count(1))

    def _try(self, crash: Crash) -> None:
        try:
            outcome = self._classify(crash, self._start(crash))
        except Exception as error:
            self._failed(crash, error)
        else:
            self.outcomes[crash.kind, outcome] += 1

    def _failed(self, crash: Crash, error: Exception) -> None:
        self.outcomes[crash.kind, WRONG] += 1
        if len(self.failures) < _MAX_FAILURES:
            self.failures.append(self._failure(crash, error))

    def _fail_calls(self, only: str) -> None:
        task = self.task
        fault = FAULTS[task.kind.partition(" ")[2]]
        for n in self._numbers():
            try:
                run, failed = fail_call(task.scenario, n, fault, flush=task.flush)
            except Exception as error:
                self._failed(Crash(task.kind, 0, f"call {n}", Disk(), FIRST_BOOT), error)
                if len(self.failures) >= _MAX_FAILURES:
                    return
                continue
            if not failed:
                return
            self.history = run.history
            for crash in crashes_after(run):
                detail = f"call {n}, {crash.detail}"
                if not only or only in (detail, f"call {n}"):
                    self._try(crash._replace(kind=task.kind, detail=detail))

    def _crash_cleanings(self, only: str) -> None:
        history, flush = self.task.scenario, self.task.flush
        for window in windows(history):
            if self._is_over:
                return
            name = f"{window.first} to {window.end}"
            if not only.startswith(name) and only:
                continue
            try:
                recording = cleaned(history, window, flush=flush)
            except Exception as error:
                self._failed(Crash(WINDOW, 0, name, Disk(), FIRST_BOOT), error)
                continue
            self.history = recording.history
            base, operations = recording.base, recording.operations
            end = len(operations)
            every = deaths(base, operations, 0, end, A_FEW)
            if flush:
                every = chain(every, power_losses(base, operations, 0, end, 2, A_FEW))
            for crash in every:
                detail = f"{name}, {crash.operations} operations, {crash.detail}"
                if not only or only == detail:
                    self._try(crash._replace(kind=f"{WINDOW}, {crash.kind}", detail=detail))

    def _shorten_calls(self, only: str) -> None:
        task = self.task
        for n in self._numbers():
            detail = f"call {n}"
            if only and only != detail:
                continue
            try:
                if not shorten_call(task.scenario, n, flush=task.flush):
                    return
            except Exception as error:
                self._failed(Crash(task.kind, 0, detail, Disk(), FIRST_BOOT), error)
                if len(self.failures) >= _MAX_FAILURES:
                    return
            else:
                self.outcomes[task.kind, "equal"] += 1

    def _start(self, crash: Crash) -> Found:
        identity = crash.disk.identity()
        found = self._found.get(identity)
        if found is None:
            filesystem = RecordingFileSystem(crash.disk.copy(), crash.boot)
            found = self.restarts.start_on(filesystem, probe=self.task.kind in DAMAGES)
            self._found[identity] = found
            if self.task.lost is not None:
                return found
            if filesystem.operations and self.task.kind in CRASHES:
                self._in_recovery(crash, filesystem)
                live_on(found, filesystem, flush=self.task.flush)
            if self.task.kind in (*CRASHES, STALE, LATER):
                produce_on(found, filesystem, self.history, flush=self.task.flush)
        return found

    def _in_recovery(self, crash: Crash, recovered: RecordingFileSystem) -> None:
        """Let the process die again while it recovers, also within a write if none was torn."""
        operations = recovered.operations
        tears = A_FEW if crash.detail == "whole" else NOWHERE
        for again in deaths(crash.disk, operations, 0, len(operations), tears):
            if self._is_over:
                return
            identity = again.disk.identity()
            if identity not in self._found:
                disk = again.disk.copy()
                found = self._found[identity] = self.restarts.start(disk, crash.boot)
                self._check(crash, found)
                self.outcomes["death in recovery", "equal"] += 1

    def _check(self, crash: Crash, found: Found) -> None:
        promised = self.task.flush or crash.boot == FIRST_BOOT
        check(found, self.history, crash.operations, promised=promised)

    def _classify(self, crash: Crash, found: Found) -> str:
        if self.task.kind in DAMAGES:
            return damage.classify(crash, found, self.history)
        self._check(crash, found)
        if found.detected:
            return "detected"
        return "tail cut" if found.cut else "equal"

    def _failure(self, crash: Crash, error: Exception) -> str:
        task = self.task
        what = str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
        where = f"{task.kind}:{task.scenario}:{task.mode}:{crash.operations}:{crash.detail}"
        return f"{what}\n    python -m tests.crash --repeat '{where}'"


def run(task: Task, sample: int = 0) -> Result:
    """Run one task, or one in `sample` of its crashes."""
    return Runner(task).run(sample=sample)


def pair_tasks() -> Iterator[Task]:
    """Yield the tasks of all pairs of operations: a few crashes of each, then others of each."""
    every = [
        (kind, pair.name, flush)
        for pair in pairs()
        for flush in (True, False)
        for kind in CRASHES
        # Without syncs a loss of power may lose everything.
        if flush or (kind == "death" and not pair.needs_flush)
    ]
    for residue in range(max(PAIR_SAMPLES.values())):
        for kind, name, flush in every:
            if residue < PAIR_SAMPLES[kind]:
                yield pair_task(kind, name, flush=flush, residue=residue)


def pair_task(kind: str, name: str, *, flush: bool = True, residue: int = 0) -> Task:
    """Return one task of a pair of operations."""
    return Task(kind, name, flush, WHOLE_PAIR, WHOLE_PAIR, PAIR_SAMPLES[kind], residue)


def pair_searches(name: str) -> Iterator[Task]:
    """Yield tasks that search for a bug by a pair, those first that are done soonest.

    A missing sync shows when everything is lost that no sync covers, a wrong order when one
    operation is lost. Writes are not torn, and a recovery is not interrupted.
    """
    for kind, lost, sample in (("death", 0, 1), ("power", 0, 1), ("power", 1, _LOST_ALONE_SAMPLE)):
        yield pair_task(kind, name)._replace(lost=lost, sample=sample)


def tasks_of(kinds: Iterable[str], scenarios: Iterable[str] = SCENARIOS) -> list[Task]:
    """Return every task of some kinds; the kinds take turns, so that each of them gets time."""
    by_kind = [list(_tasks_of(kind, scenarios)) for kind in kinds]
    return [task for tasks in zip_longest(*by_kind) for task in tasks if task is not None]


def _tasks_of(kind: str, scenarios: Iterable[str]) -> Iterator[Task]:
    if kind == WINDOW:
        for word in sorted(histories(), key=len):
            yield from (Task(kind, word, flush, 0, 0) for flush in (True, False))
        return
    for scenario in scenarios:
        for flush in (True, False):
            length = len(_recording(scenario, flush).operations)
            if kind not in (*CRASHES, STALE, LATER, "truncated"):
                yield Task(kind, scenario, flush, length, length)
                continue
            for first in range(0, length + 1, _STEP):
                yield Task(kind, scenario, flush, first, min(first + _STEP - 1, length))


class Campaign:
    """The results of many tasks."""

    def __init__(self) -> None:
        self.disks: set[int] = set()
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.failures: list[str] = []
        self.tasks = 0
        self.seconds = 0.0

    def add(self, result: Result) -> None:
        """Add the result of a task."""
        self.tasks += 1
        self.disks |= result.disks
        self.outcomes += result.outcomes
        self.failures += result.failures

    def run_until(self, until_s: float, tasks: Iterable[Task], processes: int) -> int:
        """Run as many tasks as there is time for; return how many were not begun.

        Args:
            until_s: the end, on the monotonic clock. Tasks that have begun end soon after it.
            tasks: the tasks, in order.
            processes: how many are run at a time.
        """
        began = time.monotonic()
        left = iter(tasks)
        with multiprocessing.get_context("fork").Pool(processes) as pool:
            for result in pool.imap_unordered(run, self._until(left, until_s)):
                self.add(result)
        self.seconds += time.monotonic() - began
        return sum(1 for _ in left)

    def _until(self, tasks: Iterator[Task], end: float) -> Iterator[Task]:
        # The pool would take all tasks at once. It gets them as others are finished.
        given = 0
        while time.monotonic() < end:
            if given > self.tasks + 4:
                time.sleep(0.002)
                continue
            task = next(tasks, None)
            if task is None:
                return
            given += 1
            yield task._replace(until_s=end)

    @property
    def wrong(self) -> int:
        """The number of wrong outcomes."""
        return sum(n for (_, outcome), n in self.outcomes.items() if outcome == WRONG)

    def table(self) -> list[str]:
        """Return the figures as lines of text."""
        pace = len(self.disks) / self.seconds if self.seconds else 0.0
        rows = [f"{'disks, each once':<28}{len(self.disks):>10,} ({pace:,.0f}/s)"]
        for (kind, outcome), number in sorted(self.outcomes.items()):
            rows.append(f"  {kind + ': ' + outcome:<40}{number:>10,}")
        return rows
