"""`python -m tests.simulation` (`make sim`): seeds until the time is up, then every planted bug.

Prints what was run; the exit status tells whether a check failed or a bug was not found.
"""

import time

import click

from tests.simulation.planted import search
from tests.simulation.plants import CANARY, PLANTS
from tests.simulation.profile import profile_of, storm_of
from tests.simulation.world import World

HUNT_MS = 30_000
HUNT_SEEDS = range(60)


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="How long to run seeds.")
@click.option("--first-seed", default=0, show_default=True, help="The seed to begin with.")
@click.option("--plants/--no-plants", default=True, help="Whether to hunt the planted bugs too.")
def main(seconds: float, first_seed: int, *, plants: bool) -> None:
    """Run the coordinator under simulated clients, faults and time."""
    runs = events = rebalances = 0
    group_hours = 0.0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seed = first_seed + runs // 2
        outcome = World(storm_of(seed) if runs % 2 else profile_of(seed)).run()
        runs += 1
        events += outcome.events
        rebalances += outcome.rebalances
        group_hours += outcome.group_hours
    click.echo(
        f"{runs} runs held: {events} events, {rebalances} rebalances, {group_hours:.2f} group-hours"
    )
    if not plants:
        return
    missed = [plant.name for plant in (CANARY, *PLANTS) if not _hunt(plant)]
    click.echo(f"{len(PLANTS) + 1 - len(missed)} of {len(PLANTS) + 1} planted bugs found")
    if missed:
        raise SystemExit("not found: " + "; ".join(missed))


def _hunt(plant) -> bool:
    found = search(plant, HUNT_SEEDS, HUNT_MS)
    click.echo(f"{found or 'NOT FOUND'}: {plant.name}")
    return found is not None


main()
