"""Runs of many seeds, in this process or in several, and their sum.

Each seed makes two runs: one with an ordinary profile, one as a storm. The text of a failure names
its run, so that the run can be repeated alone.
"""

import multiprocessing
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.simulation.coverage import Coverage
from tests.simulation.profile import Profile, profile_of, storm_of
from tests.simulation.world import World

PROFILES = {"profile": profile_of, "storm": storm_of}


class Run(NamedTuple):
    """The figures of one run; `failure` is the reason if it failed."""

    name: str
    events: int
    group_hours: float
    rebalances: int
    digest: str
    coverage: Coverage
    failure: str | None


def run(kind: str, seed: int) -> Run:
    """Run one seed as one kind, "profile" or "storm"."""
    profile: Profile = PROFILES[kind](seed)
    world = World(profile)
    name = f"{kind} {seed}"
    try:
        outcome = world.run()
    except Exception as error:
        failure = f"{name}: {type(error).__name__}: {error}"
        return Run(name, 0, 0.0, 0, "", world.harness.coverage, failure)
    return Run(
        name,
        outcome.events,
        outcome.group_hours,
        outcome.rebalances,
        outcome.digest,
        world.harness.coverage,
        None,
    )


def _run(task: tuple[str, int]) -> Run:
    return run(*task)


def tasks(first_seed: int) -> Iterator[tuple[str, int]]:
    """Yield every seed from the first on, as both kinds, without end."""
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
        self.coverage = Coverage()
        self.failures: list[str] = []
        self.seconds = 0.0

    def add(self, result: Run) -> None:
        """Add the figures of a run."""
        self.runs += 1
        self.events += result.events
        self.group_hours += result.group_hours
        self.rebalances += result.rebalances
        self.coverage.add(result.coverage)
        if result.failure is not None:
            self.failures.append(result.failure)

    def run_for(self, seconds: float, first_seed: int, processes: int) -> None:
        """Run seed after seed until the time is up."""
        began = time.monotonic()
        with multiprocessing.Pool(processes) as pool:
            for result in pool.imap_unordered(_run, self._until(began + seconds, first_seed)):
                self.add(result)
        self.seconds = time.monotonic() - began

    def _until(self, end: float, first_seed: int) -> Iterator[tuple[str, int]]:
        # The pool would take any number of tasks in advance. Yielding them at about the speed at
        # which runs finish lets it stop when the time is up.
        for yielded, task in enumerate(tasks(first_seed)):
            while yielded > self.runs + 8 and time.monotonic() < end:
                time.sleep(0.002)
            if time.monotonic() >= end:
                return
            yield task

    def run_seeds(self, kinds: Iterable[str], seeds: Iterable[int]) -> None:
        """Run these seeds in this process."""
        for seed in seeds:
            for kind in kinds:
                self.add(run(kind, seed))

    def table(self) -> list[str]:
        """Return the figures as printable lines."""
        rate = self.events / self.seconds if self.seconds else 0.0
        return [
            f"{'runs':<14}{self.runs:,}",
            f"{'events':<14}{self.events:,} ({rate:,.0f}/s)",
            f"{'group-hours':<14}{self.group_hours:,.1f}",
            f"{'rebalances':<14}{self.rebalances:,}",
            *self.coverage.rows(),
        ]
