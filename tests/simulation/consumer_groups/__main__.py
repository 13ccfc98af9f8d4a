"""Run seeds of the simulation of consumer groups.

    python -m tests.simulation.consumer_groups SEED [COUNT]
    python -m tests.simulation.consumer_groups --seconds 120

For a time it runs seeds in all processors, and then searches for every planted bug. It prints each
failure with its seed, and what has occurred. The exit status is 0 only if nothing failed and every
planted bug was found. One seed alone ends with the traceback of its failure.
"""

import multiprocessing
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from typing import NamedTuple

import click

from tests.simulation.consumer_groups.plants import PLANTS
from tests.simulation.consumer_groups.world import World, run_world
from tests.simulation.planted import search

# Runs that a planted bug may take; the test suite has fewer, see test_consumer_groups.py.
_SEARCHED = range(1, 100)


class Run(NamedTuple):
    """What a run has come to; `failure` is None if everything held."""

    failure: str | None
    coverage: Counter[str]


def run(seed: int) -> Run:
    """Run one seed."""
    world = World(seed)
    try:
        world.run()
    except Exception as error:
        failure = f"seed {seed}: {type(error).__name__}: {error}"
        return Run(failure[:600], world.coverage)
    return Run(None, world.coverage)


def _until(seeds: Iterable[int], end: float) -> Iterator[int]:
    for seed in seeds:
        if time.monotonic() >= end:
            return
        yield seed


def _found(number: int) -> str:
    # A fault is a function, which cannot be sent to another process.
    plant = PLANTS[number]
    began = time.monotonic()
    found = search(plant, _SEARCHED, run_world)
    what = "NOT FOUND" if found is None else f"{found.invariant:<12}{found.runs:>4} runs"
    return f"{plant.name:<72}{what}{time.monotonic() - began:>7.1f} s"


@click.command()
@click.argument("seed", default=1)
@click.argument("number", default=1)
@click.option("--seconds", type=float, default=None, help="Run seeds for a time; then plants.")
def main(seed: int, number: int, seconds: float | None) -> None:
    """Run seeds from SEED on, NUMBER of them or for a time."""
    if seconds is None and number == 1:
        World(seed).run()
        return
    coverage: Counter[str] = Counter()
    runs = failures = 0
    began = time.monotonic()
    with multiprocessing.Pool() as pool:
        if seconds is None:
            results = list(pool.imap_unordered(run, range(seed, seed + number)))
        else:
            results = []
            together = multiprocessing.cpu_count()
            for first in _until(count(seed, together), began + seconds):
                results += pool.map(run, range(first, first + together))
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
        for line in pool.imap(_found, range(len(PLANTS))) if seconds is not None else ():
            missed += "NOT FOUND" in line
            click.echo(line)
    raise SystemExit(1 if failures or missed else 0)


if __name__ == "__main__":
    main()
