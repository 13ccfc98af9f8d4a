"""Run seeds of the simulation of brokers.

    python -m tests.simulation.brokers SEED [COUNT]
    python -m tests.simulation.brokers SEED --trace
    python -m tests.simulation.brokers --seconds 120

One seed prints the digest of its trace, or with `--trace` all of it, and ends with the traceback of
its failure. The same seed gives the same trace, byte for byte. For a time it runs seeds in all
processors, the usual number of them at least, and then searches for every planted bug. After the
usual number it says which pairs of a state and an event have never occurred. The exit status is 0
only if nothing failed, each pair has occurred and every planted bug was found.
"""

import click

from tests.simulation.brokers.pairs import required_pairs
from tests.simulation.brokers.world import ROUNDS, World
from tests.simulation.seeds import Simulation, run_many

# In so many seeds each pair of a state and an event occurs.
USUAL_RUNS = 60
# They find a sync that a give-up forgets, and members of an upgraded group without a session.
_FIRST_SEEDS = (26, 21)
_SIMULATION = Simulation(
    World,
    "tests.simulation.brokers.plants",
    tuple(required_pairs()),
    USUAL_RUNS,
    _FIRST_SEEDS,
)


@click.command()
@click.argument("seed", default=1)
@click.argument("number", default=1)
@click.option("--seconds", type=float, default=None, help="Run seeds for a time; then plants.")
@click.option("--rounds", default=ROUNDS, help="The number of storms of one seed.")
@click.option("--trace", is_flag=True, help="Print the trace of one seed.")
def main(seed: int, number: int, seconds: float | None, rounds: int, trace: bool) -> None:
    """Run seeds from SEED on, NUMBER of them or for a time."""
    if seconds is not None or number != 1:
        raise SystemExit(run_many(_SIMULATION, seed, number, seconds))
    world = World(seed, traces=trace)
    try:
        world.run(rounds)
    finally:
        for line in world.trace:
            click.echo(line)
        click.echo(f"trace {world.digest}")


if __name__ == "__main__":
    main()
