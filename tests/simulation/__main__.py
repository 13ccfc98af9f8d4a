"""Run the simulation for any time: `python -m tests.simulation --seconds 300`, or `make sim`.

Prints every failure with the seed that repeats it, then the figures: events, group-hours,
rebalances, how often everything occurred, and how soon each planted bug was found. The exit status
is 0 only if no invariant was violated, everything that is required occurred, and every planted bug
was found.
"""

import os
import time

import click

from tests.simulation.campaign import PROFILES, Campaign, run
from tests.simulation.planted import search, search_order
from tests.simulation.plants import CANARY, PLANTS

# A shorter campaign may miss rare transitions and errors.
COVERAGE_NEEDS_SECONDS = 45
# Runs that a planted bug may take; the test suite stops sooner, see test_planted_bugs.py.
MAX_RUNS = 400


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="How long to run seeds.")
@click.option("--first-seed", default=0, show_default=True, help="The first seed.")
@click.option(
    "--processes", default=os.cpu_count() or 1, show_default=True, help="Parallel processes."
)
@click.option("--plants/--no-plants", default=True, help="Also search for the planted bugs.")
@click.option(
    "--repeat",
    type=(click.Choice(list(PROFILES)), int),
    default=None,
    metavar="KIND SEED",
    help=f"Repeat one run: {' or '.join(PROFILES)}, and its seed.",
)
def main(
    *, seconds: float, first_seed: int, processes: int, plants: bool, repeat: tuple[str, int] | None
) -> None:
    """Run the coordinator with simulated clients, faults and time."""
    if repeat is not None:
        result = run(*repeat)
        click.echo(
            result.failure or f"{result.name}: {result.events:,} events, trace {result.digest}"
        )
        raise SystemExit(1 if result.failure else 0)
    campaign = Campaign()
    campaign.run_for(seconds, first_seed, processes)
    for line in (*campaign.failures, *campaign.table()):
        click.echo(line)
    missing = campaign.coverage.missing() if seconds >= COVERAGE_NEEDS_SECONDS else []
    for name in missing:
        click.echo(f"never occurred: {name}")
    not_found = _search_plants() if plants else 0
    click.echo(
        f"{len(campaign.failures)} failures, {len(missing)} never occurred,"
        f" {not_found} planted bugs not found"
    )
    raise SystemExit(1 if campaign.failures or missing or not_found else 0)


def _search_plants() -> int:
    """Search for every planted bug, print a table and return how many were not found."""
    not_found = 0
    click.echo(f"\n{'planted bug':<68}{'violates':<44}{'runs':>5}{'seconds':>9}")
    for plant in (*PLANTS, CANARY):
        began = time.monotonic()
        found = search(plant, search_order(MAX_RUNS))
        seconds = time.monotonic() - began
        not_found += found is None
        violated, runs = (found.invariant, found.runs) if found else ("NOT FOUND", MAX_RUNS)
        click.echo(f"{plant.name:<68}{violated:<44}{runs:>5}{seconds:>9.2f}")
    return not_found


if __name__ == "__main__":
    main()
