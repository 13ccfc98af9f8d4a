"""Many crashes, cut into tasks for several processes, and what came of them.

A task is one kind of crash or damage over a few prefixes of one recording. Disks that were seen
before in the task are not started again, only compared; over all tasks the figures count each disk
once. A failure is one line, with the command that repeats it.
"""

import multiprocessing
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, count, zip_longest
from typing import NamedTuple

from tests.crash import damage
from tests.crash.disk import FIRST_BOOT, Disk, RecordingFileSystem
from tests.crash.failures import FAULTS, crashes_after, fail_call, shorten_call
from tests.crash.history import History
from tests.crash.losses import A_FEW, NOWHERE, Crash, deaths, power_losses
from tests.crash.restart import Found, Restarts, Wrong, check, live_on
from tests.crash.scenarios import STORIES, Recording, record
from tests.crash.windows import cleaned, histories, windows

CRASHES = ("death", "power")
DAMAGES = ("truncated", "flipped", "sectors")
FAILING = tuple(f"failing {name}" for name in FAULTS)
SHORT = "short calls"
WINDOW = "window"
KINDS = (*CRASHES, *FAILING, WINDOW, SHORT, "flipped", "sectors", "truncated")
WRONG = "WRONG"
# Failures of one task that are told; the others are like them.
_MOST_TOLD = 5
# Unsynced operations lost at once where a loss of power costs acknowledged records anyway.
_LOST_WITHOUT_SYNC = 1
_LOST = 3
# Prefixes in one task: long enough for disks to repeat within it, short enough to share the work.
_STEP = 4


class Task(NamedTuple):
    """One kind of crash, over the prefixes `first` to `last` of one story's operations."""

    kind: str
    story: str
    flush: bool
    first: int
    last: int

    @property
    def mode(self) -> str:
        return "commit" if self.flush else "never"


class Result(NamedTuple):
    """What a task came to.

    Attributes:
        task: which.
        disks: the identities of the disks started on.
        outcomes: how often each (kind, outcome) was.
        failures: what is wrong, one line each.
        seconds: how long it took.
    """

    task: Task
    disks: frozenset[int]
    outcomes: Counter[tuple[str, str]]
    failures: list[str]
    seconds: float


@lru_cache(maxsize=4)
def _recording(story: str, flush: bool) -> Recording:
    return record(story, flush=flush)


def forget_recordings() -> None:
    """Record every story anew: the product has changed."""
    _recording.cache_clear()


def length_of(kind: str, story: str, *, flush: bool) -> int:
    """How many operations a story has, where a kind of crash comes after each of them."""
    return len(_recording(story, flush).operations) if kind in (*CRASHES, *DAMAGES) else 0


def crashes(task: Task) -> Iterator[Crash]:
    """The disks of a task."""
    recording = _recording(task.story, task.flush)
    base, operations = recording.base, recording.operations
    if task.kind == "death":
        yield from deaths(base, operations, task.first, task.last)
    elif task.kind == "power":
        most = _LOST if task.flush else _LOST_WITHOUT_SYNC
        yield from power_losses(base, operations, task.first, task.last, most)
    elif task.kind == "truncated":
        yield from damage.truncations(base, operations, task.first, task.last)
    else:
        disk = after(recording, task.last)
        one = damage.flips if task.kind == "flipped" else damage.sectors
        yield from one(disk, task.last)


def after(recording: Recording, operations: int) -> Disk:
    """The disk after so many operations."""
    disk = recording.base.copy()
    for operation in recording.operations[:operations]:
        disk.apply(operation)
    return disk


class Runner:
    """Starts on the disks of one task."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.history = History()
        if task.kind in (*CRASHES, *DAMAGES):
            self.history = _recording(task.story, task.flush).history
        self.restarts = Restarts(flush=task.flush)
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.failures: list[str] = []
        self._found: dict[int, Found] = {}

    def run(self, only: str = "", most: int = _MOST_TOLD, sample: int = 1) -> Result:
        """Try the disks of the task.

        Args:
            only: the detail of the one to try.
            most: of crashes and damage, stop when so many are wrong.
            sample: of crashes and damage, try one of so many.
        """
        began = time.monotonic()
        if self.task.kind in FAILING:
            self._fail_calls(only)
        elif self.task.kind == WINDOW:
            self._crash_cleanings(only)
        elif self.task.kind == SHORT:
            self._shorten_calls(only)
        else:
            for number, crash in enumerate(crashes(self.task)):
                if not number % sample and (not only or only == crash.detail):
                    self._try(crash)
                if len(self.failures) >= most:
                    break
        seconds = time.monotonic() - began
        disks = frozenset(self._found)
        return Result(self.task, disks, self.outcomes, self.failures, seconds)

    def _try(self, crash: Crash) -> None:
        try:
            outcome = self._judge(crash, self._start(crash))
        except Exception as error:
            self._failed(crash, error)
        else:
            self.outcomes[crash.kind, outcome] += 1

    def _failed(self, crash: Crash, error: Exception) -> None:
        self.outcomes[crash.kind, WRONG] += 1
        if len(self.failures) < _MOST_TOLD:
            self.failures.append(self._told(crash, error))

    def _fail_calls(self, only: str) -> None:
        task = self.task
        fault = FAULTS[task.kind.partition(" ")[2]]
        for n in count(1):
            try:
                stage, failed = fail_call(task.story, n, fault, flush=task.flush)
            except Exception as error:
                self._failed(Crash(task.kind, 0, f"call {n}", Disk(), FIRST_BOOT), error)
                if len(self.failures) >= _MOST_TOLD:
                    return
                continue
            if not failed:
                return
            self.history = stage.history
            for crash in crashes_after(stage):
                detail = f"call {n}, {crash.detail}"
                if not only or only in (detail, f"call {n}"):
                    self._try(crash._replace(kind=task.kind, detail=detail))

    def _crash_cleanings(self, only: str) -> None:
        history, flush = self.task.story, self.task.flush
        for window in windows(history):
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
        for n in count(1):
            detail = f"call {n}"
            if only and only != detail:
                continue
            try:
                if not shorten_call(task.story, n, flush=task.flush):
                    return
            except Exception as error:
                self._failed(Crash(task.kind, 0, detail, Disk(), FIRST_BOOT), error)
                if len(self.failures) >= _MOST_TOLD:
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
            if filesystem.operations and self.task.kind in CRASHES:
                self._in_recovery(crash, filesystem)
                live_on(found, filesystem, flush=self.task.flush)
        return found

    def _in_recovery(self, crash: Crash, recovered: RecordingFileSystem) -> None:
        """The process dies again, while it recovers; amid a write too if none was torn before."""
        operations = recovered.operations
        tears = A_FEW if crash.detail == "whole" else NOWHERE
        for again in deaths(crash.disk, operations, 0, len(operations), tears):
            identity = again.disk.identity()
            if identity not in self._found:
                disk = again.disk.copy()
                found = self._found[identity] = self.restarts.start(disk, crash.boot)
                self._check(crash, found)
                self.outcomes["death in recovery", "equal"] += 1

    def _check(self, crash: Crash, found: Found) -> None:
        promised = self.task.flush or crash.boot == FIRST_BOOT
        check(found, self.history, crash.operations, promised=promised)

    def _judge(self, crash: Crash, found: Found) -> str:
        if self.task.kind in DAMAGES:
            return damage.judge(crash, found, self.history)
        self._check(crash, found)
        if found.detected:
            return "detected"
        return "tail cut" if found.cut else "equal"

    def _told(self, crash: Crash, error: Exception) -> str:
        task = self.task
        what = str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
        where = f"{task.kind}:{task.story}:{task.mode}:{crash.operations}:{crash.detail}"
        return f"{what}\n    python -m tests.crash --repeat '{where}'"


def run(task: Task, sample: int = 1) -> Result:
    """Do one task, or one of so many of its crashes."""
    return Runner(task).run(sample=sample)


def tasks_of(kinds: Iterable[str], stories: Iterable[str] = STORIES) -> list[Task]:
    """Every task of some kinds; those with the most work take turns, so that none is left out."""
    by_kind = [list(_tasks_of(kind, stories)) for kind in kinds]
    return [task for tasks in zip_longest(*by_kind) for task in tasks if task is not None]


def _tasks_of(kind: str, stories: Iterable[str]) -> Iterator[Task]:
    if kind == WINDOW:
        for word in sorted(histories(), key=len):
            yield from (Task(kind, word, flush, 0, 0) for flush in (True, False))
        return
    for story in stories:
        for flush in (True, False):
            length = len(_recording(story, flush).operations)
            if kind not in (*CRASHES, "truncated"):
                yield Task(kind, story, flush, length, length)
                continue
            for first in range(0, length + 1, _STEP):
                yield Task(kind, story, flush, first, min(first + _STEP - 1, length))


class Campaign:
    """The sum of many tasks."""

    def __init__(self) -> None:
        self.disks: set[int] = set()
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.failures: list[str] = []
        self.tasks = 0
        self.seconds = 0.0

    def add(self, result: Result) -> None:
        """Count a task in."""
        self.tasks += 1
        self.disks |= result.disks
        self.outcomes += result.outcomes
        self.failures += result.failures

    def run_for(self, seconds: float, tasks: list[Task], processes: int) -> int:
        """Do as many tasks as there is time for; returns how many were left over."""
        began = time.monotonic()
        left = iter(tasks)
        with multiprocessing.get_context("fork").Pool(processes) as pool:
            for result in pool.imap_unordered(run, self._until(left, began + seconds)):
                self.add(result)
        self.seconds += time.monotonic() - began
        return sum(1 for _ in left)

    def _until(self, tasks: Iterator[Task], end: float) -> Iterator[Task]:
        # The pool takes tasks as fast as it can; they are handed out as they are done.
        handed_out = 0
        while time.monotonic() < end:
            if handed_out > self.tasks + 4:
                time.sleep(0.002)
                continue
            task = next(tasks, None)
            if task is None:
                return
            handed_out += 1
            yield task

    @property
    def wrong(self) -> int:
        """How many of all were wrong."""
        return sum(n for (_, outcome), n in self.outcomes.items() if outcome == WRONG)

    def table(self) -> list[str]:
        """The figures, for people."""
        pace = len(self.disks) / self.seconds if self.seconds else 0.0
        rows = [f"{'disks, each once':<28}{len(self.disks):>10,} ({pace:,.0f}/s)"]
        for (kind, outcome), number in sorted(self.outcomes.items()):
            rows.append(f"  {kind + ': ' + outcome:<40}{number:>10,}")
        return rows
