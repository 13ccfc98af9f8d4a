"""Many seeds, one after the other or on several processes, and what came of them.

A seed is run as it is and as a storm: two runs. A failure is reported as text that names the run,
so that it can be repeated alone.
"""

import multiprocessing
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.simulation.profile import Profile, profile_of, storm_of
from tests.simulation.reach import Reach
from tests.simulation.world import World

PROFILES = {"profile": profile_of, "storm": storm_of}


class Run(NamedTuple):
    """One run: what it amounted to, or why it failed."""

    name: str
    events: int
    group_hours: float
    rebalances: int
    digest: str
    reach: Reach
    failure: str | None


def run(kind: str, seed: int) -> Run:
    """One seed of one kind, "profile" or "storm"."""
    profile: Profile = PROFILES[kind](seed)
    world = World(profile)
    name = f"{kind} {seed}"
    try:
        done = world.run()
    except Exception as error:
        failure = f"{name}: {type(error).__name__}: {error}"
        return Run(name, 0, 0.0, 0, "", world.subject.reach, failure)
    return Run(
        name,
        done.events,
        done.group_hours,
        done.rebalances,
        done.digest,
        world.subject.reach,
        None,
    )


def _run(task: tuple[str, int]) -> Run:
    return run(*task)


def tasks(first_seed: int) -> Iterator[tuple[str, int]]:
    """Every seed from the first on, in both kinds, without end."""
    seed = first_seed
    while True:
        for kind in PROFILES:
            yield kind, seed
        seed += 1


class Campaign:
    """The sum of many runs."""

    def __init__(self) -> None:
        self.runs = 0
        self.events = 0
        self.group_hours = 0.0
        self.rebalances = 0
        self.reach = Reach()
        self.failures: list[str] = []
        self.seconds = 0.0

    def add(self, done: Run) -> None:
        """Count a run in."""
        self.runs += 1
        self.events += done.events
        self.group_hours += done.group_hours
        self.rebalances += done.rebalances
        self.reach.add(done.reach)
        if done.failure is not None:
            self.failures.append(done.failure)

    def run_for(self, seconds: float, first_seed: int, processes: int) -> None:
        """Run seed after seed until the time is up."""
        began = time.monotonic()
        with multiprocessing.Pool(processes) as pool:
            for done in pool.imap_unordered(_run, self._until(began + seconds, first_seed)):
                self.add(done)
        self.seconds = time.monotonic() - began

    def _until(self, end: float, first_seed: int) -> Iterator[tuple[str, int]]:
        # The pool takes tasks in advance as fast as it can, so they are handed out at about the
        # speed at which they are done.
        for handed_out, task in enumerate(tasks(first_seed)):
            while handed_out > self.runs + 8 and time.monotonic() < end:
                time.sleep(0.002)
            if time.monotonic() >= end:
                return
            yield task

    def run_seeds(self, kinds: Iterable[str], seeds: Iterable[int]) -> None:
        """Run some seeds in this process."""
        for seed in seeds:
            for kind in kinds:
                self.add(run(kind, seed))

    def table(self) -> list[str]:
        """The figures, for people."""
        pace = self.events / self.seconds if self.seconds else 0.0
        return [
            f"{'runs':<14}{self.runs:,}",
            f"{'events':<14}{self.events:,} ({pace:,.0f}/s)",
            f"{'group-hours':<14}{self.group_hours:,.1f}",
            f"{'rebalances':<14}{self.rebalances:,}",
            *self.reach.rows(),
        ]
