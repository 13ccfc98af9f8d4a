"""Many seeds of a simulation in all processors, and the search for its planted bugs."""

import importlib
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, count
from typing import NamedTuple, Protocol

import click

from tests.simulation.planted import search

# Each planted bug is found within this time of one processor.
_SEARCH_S = 60.0


class SeededWorld(Protocol):
    """The world of a seed.

    Attributes:
        coverage: how often things have occurred.
    """

    coverage: Counter[str]

    def run(self) -> None:
        """Run it; what does not hold is raised."""


class Simulation(NamedTuple):
    """A simulation.

    Attributes:
        world: makes the world of a seed.
        plants: the module that has `PLANTS`.
        required: what must occur in so many runs as are usual.
        usual_runs: how many that are; a campaign for a time has as many at least.
        first_seeds: a search for a planted bug begins with these, which find what is rarest.
    """

    world: Callable[[int], SeededWorld]
    plants: str
    required: tuple[str, ...] = ()
    usual_runs: int = 1
    first_seeds: tuple[int, ...] = ()


class Run(NamedTuple):
    """What a run has come to; `failure` is None if everything held."""

    failure: str | None
    coverage: Counter[str]


def run_seed(simulation: Simulation, seed: int) -> Run:
    """Run one seed."""
    world = simulation.world(seed)
    try:
        world.run()
    except Exception as error:
        failure = f"seed {seed}: {type(error).__name__}: {error}"
        return Run(failure[:600], world.coverage)
    return Run(None, world.coverage)


def run_many(simulation: Simulation, first: int, number: int, seconds: float | None) -> int:
    """Run seeds and print what they have come to; for a time, and then search for the plants.

    Args:
        simulation: the simulation.
        first: the first seed.
        number: how many seeds, if it is not for a time.
        seconds: for how long.

    Returns:
        The exit status: 0 if nothing failed, every plant was found and, in so many runs as are
        usual, all that is required has occurred.
    """
    coverage: Counter[str] = Counter()
    runs = failures = 0
    began = time.monotonic()
    run = partial(run_seed, simulation)
    with multiprocessing.Pool() as pool:
        if seconds is None:
            results = list(pool.imap_unordered(run, range(first, first + number)))
        else:
            results = []
            together = multiprocessing.cpu_count()
            for each in count(first, together):
                if len(results) >= simulation.usual_runs and time.monotonic() >= began + seconds:
                    break
                results += pool.map(run, range(each, each + together))
        for result in results:
            runs += 1
            coverage += result.coverage
            if result.failure is not None:
                failures += 1
                click.echo(result.failure)
        for name, times in sorted(coverage.items()):
            click.echo(f"{times:>9} {name}")
        click.echo(f"{runs} runs, {failures} failures, {time.monotonic() - began:.1f} s")
        missed = 0
        for name in simulation.required if runs >= simulation.usual_runs else ():
            if not coverage[name]:
                missed += 1
                click.echo(f"NEVER     {name}")
        if seconds is None:
            return 1 if failures or missed else 0
        numbers = range(len(importlib.import_module(simulation.plants).PLANTS))
        for line in pool.imap(partial(_found, simulation), numbers):
            missed += "NOT FOUND" in line
            click.echo(line)
    return 1 if failures or missed else 0


def _until(seeds: Iterable[int], clock: Callable[[], float], end: float) -> Iterator[int]:
    for seed in seeds:
        if clock() >= end:
            return
        yield seed


def _found(simulation: Simulation, number: int) -> str:
    # A fault is a function, which cannot be sent to another process.
    plant = importlib.import_module(simulation.plants).PLANTS[number]
    began = time.process_time()
    seeds = _until(chain(simulation.first_seeds, count(1)), time.process_time, began + _SEARCH_S)
    found = search(plant, seeds, lambda seed: simulation.world(seed).run())
    what = "NOT FOUND" if found is None else f"{found.invariant:<16}{found.runs:>4} runs"
    return f"{plant.name:<84}{what}{time.process_time() - began:>7.1f} s"
