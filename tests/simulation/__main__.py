"""Run the simulation for as long as you like: `python -m tests.simulation --seconds 300`, or
`make sim`.

Prints every failure with the seed that repeats it, then the figures: events, group-hours,
rebalances, how often everything was reached, and which planted bugs were found how soon. The exit
status is 0 only if no invariant broke, everything that has to be reached was, and every planted bug
was found.
"""

import os
import time

import click

from tests.simulation.campaign import PROFILES, Campaign, run
from tests.simulation.planted import search, search_order
from tests.simulation.plants import CANARY, PLANTS

# In fewer seconds than this rare things may be missed without fault.
REACH_NEEDS_SECONDS = 45
# Runs a planted bug may take; see test_planted_bugs.py.
MOST_RUNS = 400


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="How long to run seeds.")
@click.option("--first-seed", default=0, show_default=True, help="The seed to begin with.")
@click.option("--processes", default=os.cpu_count() or 1, show_default=True, help="At a time.")
@click.option("--plants/--no-plants", default=True, help="Whether to hunt the planted bugs too.")
@click.option(
    "--repeat",
    type=(click.Choice(list(PROFILES)), int),
    default=None,
    metavar="KIND SEED",
    help=f"One run only: {' or '.join(PROFILES)}, and its seed.",
)
def main(
    *, seconds: float, first_seed: int, processes: int, plants: bool, repeat: tuple[str, int] | None
) -> None:
    """Run the coordinator under simulated clients, faults and time."""
    if repeat is not None:
        done = run(*repeat)
        click.echo(done.failure or f"{done.name}: {done.events:,} events, trace {done.digest}")
        raise SystemExit(1 if done.failure else 0)
    campaign = Campaign()
    campaign.run_for(seconds, first_seed, processes)
    for line in (*campaign.failures, *campaign.table()):
        click.echo(line)
    missing = campaign.reach.missing() if seconds >= REACH_NEEDS_SECONDS else []
    for name in missing:
        click.echo(f"never reached: {name}")
    lost = _hunt() if plants else 0
    click.echo(
        f"{len(campaign.failures)} failures, {len(missing)} not reached, {lost} plants not found"
    )
    raise SystemExit(1 if campaign.failures or missing or lost else 0)


def _hunt() -> int:
    """Look for every planted bug, print the table, say how many were not found."""
    lost = 0
    click.echo(f"\n{'planted bug':<68}{'by':<16}{'runs':>5}{'seconds':>9}")
    for plant in (*PLANTS, CANARY):
        began = time.monotonic()
        found = search(plant, search_order(MOST_RUNS))
        seconds = time.monotonic() - began
        lost += found is None
        by, runs = (found.invariant, found.runs) if found else ("NOT FOUND", MOST_RUNS)
        click.echo(f"{plant.name:<68}{by:<16}{runs:>5}{seconds:>9.2f}")
    return lost


if __name__ == "__main__":
    main()
