"""Run seeds of the simulation of share groups.

    python -m tests.simulation.share_groups SEED [COUNT]
    python -m tests.simulation.share_groups --seconds 120

For a time it runs seeds in all processors, and then searches for every planted bug. It prints each
failure with its seed, and what has occurred. The exit status is 0 only if nothing failed and every
planted bug was found. One seed alone prints the digest of its trace, or with `--trace` all of it,
and ends with the traceback of its failure.
"""

import click

from tests.simulation.seeds import Simulation, run_many
from tests.simulation.share_groups.world import ROUNDS, ShareWorld

# What must occur in so many seeds.
USUAL_RUNS = 8
_REQUIRED = (
    "delivered again", "last attempt", "archived by a release", "renewed", "refused",
    "records deleted", "late answer", "restart", "move", "stop", "kill",
)  # fmt: skip
# It finds writes that overtake each other.
_FIRST_SEEDS = (10,)
_SIMULATION = Simulation(
    ShareWorld, "tests.simulation.share_groups.plants", _REQUIRED, USUAL_RUNS, _FIRST_SEEDS
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
    world = ShareWorld(seed, traces=trace)
    try:
        world.run(rounds)
    finally:
        for line in world.trace:
            click.echo(line)
        click.echo(f"trace {world.digest}")


if __name__ == "__main__":
    main()
