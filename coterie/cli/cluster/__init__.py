"""`coterie cluster`: what is where in a cluster, and what goes wrong in one.

`status` works with any Kafka. The other verbs are for `coterie serve --brokers N --control PORT`;
each is one request to its control port (docs/control.md).
"""

import click

from coterie.cli.cluster.port import port_options
from coterie.cli.main import LazyCommands


class ClusterCommands(LazyCommands):
    """The commands, one in each module of this package."""

    summaries = {
        "status": "Show the brokers, and what each leads and coordinates.",
        "kill": "End a broker as kill -9 does.",
        "stop": "Stop a broker in order.",
        "start": "Start a broker again.",
        "pause": "Let a broker be silent, as SIGSTOP does.",
        "resume": "Let a paused broker go on.",
        "move": "Let another broker lead a partition.",
        "move-coordinator": "Let another broker coordinate a group.",
        "elect": "Let the first replicas lead again.",
        "cut": "Take the end of a log away.",
        "delay-metadata": "Let clients see changes later.",
    }
    package = "coterie.cli.cluster"


@click.command("cluster", cls=ClusterCommands)
@port_options
def command() -> None:
    """Show a cluster; kill, stop and start its brokers, and move what they lead.

    `status` works with any Kafka. The other commands need `coterie serve --brokers 3 --control PORT
    --control-file FILE`, and find it by --control-file FILE.
    """
