"""`coterie cluster start`: start a broker again."""

import click

from coterie.cli.cluster.port import ask, node_argument, port_options


@click.command("start")
@node_argument
@port_options
def command(*, node_id: int) -> None:
    """Start a broker that was killed or stopped, at its address.

    It leads what nothing else leads. `coterie cluster elect` lets the first replicas lead again.
    """
    ask("POST", "brokers", node_id, "start")
    click.echo(f"Started broker {node_id}.")
