"""`coterie lab`: compare the protocols of group rebalancing on the same workload."""

import click

from coterie.cli.main import LazyCommands


class LabCommands(LazyCommands):
    """The commands, one in each module of this package."""

    summaries = {
        "list": "List scenarios, machines and settings.",
        "run": "Run a scenario under some machines.",
        "sweep": "Run many scenarios, sizes and seeds into a directory.",
        "live": "Run a scenario with real processes.",
        "compare": "Compare machines or sweeps, pair by pair.",
        "report": "Write a sweep as one HTML page.",
    }
    package = "coterie.cli.lab"


@click.command("lab", cls=LabCommands)
def command() -> None:
    """Compare protocols of group rebalancing, from the watchers of ZooKeeper to KIP-429,
    KIP-848, Connect and RocketMQ: in virtual time, on the same workload and the same failures."""
