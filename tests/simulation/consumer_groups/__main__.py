"""Run seeds of the simulation of consumer groups.

    python -m tests.simulation.consumer_groups SEED [COUNT]
    python -m tests.simulation.consumer_groups --seconds 120

For a time it runs seeds in all processors, and then searches for every planted bug. It prints each
failure with its seed, and what has occurred. The exit status is 0 only if nothing failed and every
planted bug was found. One seed alone ends with the traceback of its failure.
"""

import click

from tests.simulation.consumer_groups.world import World
from tests.simulation.seeds import Simulation, run_many

_SIMULATION = Simulation(World, "tests.simulation.consumer_groups.plants")


@click.command()
@click.argument("seed", default=1)
@click.argument("number", default=1)
@click.option("--seconds", type=float, default=None, help="Run seeds for a time; then plants.")
def main(seed: int, number: int, seconds: float | None) -> None:
    """Run seeds from SEED on, NUMBER of them or for a time."""
    if seconds is None and number == 1:
        World(seed).run()
        return
    raise SystemExit(run_many(_SIMULATION, seed, number, seconds))


if __name__ == "__main__":
    main()
