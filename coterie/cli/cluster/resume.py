"""`coterie cluster resume`: let a paused broker go on."""

import click

from coterie.cli.cluster.port import ask, node_argument, port_options


@click.command("resume")
@node_argument
@port_options
def command(*, node_id: int) -> None:
    """Let a paused broker go on; it is in sync again if the others have taken it for dead."""
    ask("POST", "brokers", node_id, "resume")
    click.echo(f"Resumed broker {node_id}.")
