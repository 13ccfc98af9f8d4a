"""Move leaders and coordinators and kill brokers under load: `python -m tests.failover`."""

import logging
import sys
import tempfile
import time
from pathlib import Path

import click

from coterie.testing import cluster
from tests.failover.libraries import LIBRARIES
from tests.failover.remote import remote_libraries
from tests.failover.run import PARTITIONS, REGISTER, TOPIC, Plan, Run


@click.command()
@click.option(
    "--moves", default=1_000, show_default=True, help="Moves of leaders and coordinators."
)
@click.option("--kills", default=200, show_default=True, help="Brokers that are killed.")
@click.option("--pause-ms", default=20, show_default=True, help="The time between two moves.")
@click.option("--seed", default=0, show_default=True, help="Of the choices.")
def main(moves: int, kills: int, pause_ms: int, seed: int) -> None:
    """Run clients of five libraries against a cluster whose brokers die; print what was seen."""
    # Clients write some lines about each connection that ends, in the threads that do the work.
    logging.disable(logging.CRITICAL)
    with (
        cluster(topics={TOPIC: PARTITIONS, REGISTER[0]: 1}) as kafka,
        tempfile.TemporaryDirectory(prefix="failover-") as directory,
        remote_libraries(kafka.bootstrap_servers, Path(directory)) as remote,
    ):
        run = Run(kafka, Plan(moves, kills, pause_ms / 1000, seed), [*LIBRARIES, *remote])
        began_s = time.monotonic()
        run.carry_out()
        seconds = time.monotonic() - began_s
    for what, count in sorted(run.ledger.counts.items()):
        print(f"{count:8} {what}")
    for name, history in run.histories.items():
        print(
            f"{len(history):8} operations on the register of {name}, "
            f"longest gap between commits {run.gaps_s[name] * 1000:.0f} ms"
        )
    print(f"{seconds:8.1f} seconds")
    for text in run.ledger.violations:
        print(f"VIOLATED {text}")
    sys.exit(bool(run.ledger.violations))


if __name__ == "__main__":
    main()
