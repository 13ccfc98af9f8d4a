"""Crashes of a whole broker while a recorded story runs, story by story and many at once.

What must hold after a crash is what a subclass of `StoryCrashes` checks.
"""

import math
import multiprocessing
import random
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple, Protocol

from coterie.server.broker import Broker
from tests.crash.broker_run import start_broker
from tests.crash.disk import Disk, Operation, RecordingFileSystem
from tests.crash.losses import A_FEW, Crash, deaths, power_losses
from tests.planting import Plant, planted
from tests.unit.server.manual_loop import ManualLoop

DEATH, POWER = "death", "power"
# How many unsynced operations a loss of power loses, or keeps, at once.
_LOST = 1
# A sparse search for a planted bug comes first: one prefix, and one of its crashes, in so many.
_SEARCH_STEPS = ((16, 5), (4, 3), (1, 1))


class RecordedStory(Protocol):
    """A story that was recorded.

    Attributes:
        flush: whether the broker syncs before it answers.
        base: the disk before it.
        operations: what was done on the disk.
        now_ms: when it ended.
    """

    @property
    def flush(self) -> bool: ...

    @property
    def base(self) -> Disk: ...

    @property
    def operations(self) -> list[Operation]: ...

    @property
    def now_ms(self) -> float: ...


class StoryCrashes(ABC):
    """The crashes of one story.

    Attributes:
        what: what the stories are about; also the end of the option that repeats a crash.
        stories: their names.
        settings: of the broker.
        story: what was recorded.
        tried: how many disks were started on, by the kind of crash.
    """

    what: ClassVar[str]
    stories: ClassVar[Sequence[str]]
    settings: ClassVar[Mapping[str, str]]

    def __init__(self, name: str, *, flush: bool) -> None:
        """Record a story, unless that was done before."""
        self.story: Any = _recorded(type(self).record, name, flush)
        self.tried: Counter[str] = Counter()
        self._name = f"{name}:{'commit' if flush else 'never'}"
        self._seen: set[int] = set()

    @staticmethod
    @abstractmethod
    def record(name: str, *, flush: bool) -> RecordedStory:
        """Run a story and return what it did."""

    @abstractmethod
    def check(self, crash: Crash) -> None:
        """Start on the disk of a crash, and check everything.

        Raises:
            AssertionError: something is wrong.
        """

    def start_after(self, crash: Crash) -> Broker:
        """Start a broker on the disk that a crash has left."""
        loop = ManualLoop()
        loop.now_ms = self.story.now_ms
        filesystem = RecordingFileSystem(crash.disk.copy(), crash.boot)
        return start_broker(filesystem, loop, self.settings, flush=self.story.flush)

    @property
    def end(self) -> int:
        """How many operations the story has."""
        return len(self.story.operations)

    def crashes(self, kind: str, operations: int) -> Iterator[Crash]:
        """Yield the disks that crashes after so many operations leave."""
        base, every = self.story.base, self.story.operations
        if kind == DEATH:
            return deaths(base, every, operations, operations, A_FEW)
        # Without syncs a loss of power may lose anything.
        assert self.story.flush, "without syncs nothing is promised"
        return power_losses(base, every, operations, operations, _LOST, A_FEW)

    def run(
        self,
        kind: str,
        operations: int,
        sample: int = 1,
        only: str = "",
        until_s: float = math.inf,
    ) -> list[str]:
        """Try crashes after so many operations.

        Args:
            kind: the kind of crash.
            operations: how many operations were done.
            sample: one in this many crashes is tried.
            only: try only the crash with this detail.
            until_s: nothing is tried later, on the monotonic clock.

        Returns:
            What was wrong, with the option that repeats it; at most one failure.
        """
        for number, crash in enumerate(self.crashes(kind, operations)):
            if time.monotonic() > until_s:
                break
            if (number + operations) % sample or only not in ("", crash.detail):
                continue
            identity = hash((crash.disk.identity(), operations))
            if identity in self._seen:
                continue
            self._seen.add(identity)
            self.tried[f"{self.what}, {crash.kind}"] += 1
            try:
                self.check(crash)
            except Exception as error:
                where = f"{kind}:{self._name}:{operations}:{crash.detail}"
                command = f"python -m tests.crash --repeat-{self.what}"
                return [f"{type(error).__name__}: {error}\n    {command} '{where}'"]
        return []


# A story is the same each time, and its recording takes longer than a crash.
@lru_cache(maxsize=12)
def _recorded(record: Callable[..., RecordedStory], name: str, flush: bool) -> RecordedStory:
    return record(name, flush=flush)


def repeat(of: type[StoryCrashes], where: str) -> list[str]:
    """Repeat the crash that a failure has printed."""
    kind, name, mode, operations, detail = where.split(":", 4)
    return of(name, flush=mode == "commit").run(kind, int(operations), only=detail)


def all_kinds(of: type[StoryCrashes]) -> list[tuple[str, str, bool]]:
    """Return every kind of crash: kind, story and whether the broker syncs."""
    return [
        (kind, name, flush)
        for kind in (DEATH, POWER)
        for name in of.stories
        for flush in (True, False)
        if flush or kind == DEATH
    ]


class _Task(NamedTuple):
    """The crashes of one kind after one number of operations of a story."""

    of: type[StoryCrashes]
    kind: str
    story: str
    flush: bool
    operations: int


def crash_until(
    of: type[StoryCrashes], until_s: float, processes: int
) -> tuple[Counter[str], list[str]]:
    """Try as many crashes as there is time for, until a time on the monotonic clock.

    Returns:
        How many disks were started on, by the kind of crash, and the failures.
    """
    tasks = [
        _Task(of, kind, name, flush, operations)
        for kind, name, flush in all_kinds(of)
        for operations in range(of(name, flush=flush).end + 1)
    ]
    # Each kind and each part of a story gets time.
    random.Random(1).shuffle(tasks)
    tried: Counter[str] = Counter()
    failures: list[str] = []
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        work = partial(_run, until_s=until_s)
        for found, wrong in pool.imap_unordered(work, tasks):
            tried += found
            failures += wrong
    return tried, failures


def _run(task: _Task, until_s: float) -> tuple[Counter[str], list[str]]:
    if time.monotonic() > until_s:
        return Counter(), []
    crashes = task.of(task.story, flush=task.flush)
    return crashes.tried, crashes.run(task.kind, task.operations, until_s=until_s)


def find(of: type[StoryCrashes], plant: Plant) -> str:
    """Search for a plant; return the kind of crash that found it, or an empty string.

    A plant may break the story itself, in which the broker is killed, too.
    """
    with planted(plant):
        _recorded.cache_clear()
        try:
            for where in plant.kinds:
                kind, name, mode = where.split(":")
                try:
                    crashes = of(name, flush=mode == "commit")
                except AssertionError:
                    return "story"
                for step, sample in _SEARCH_STEPS:
                    if any(crashes.run(kind, at, sample) for at in range(crashes.end, -1, -step)):
                        return kind
        finally:
            _recorded.cache_clear()
    return ""
