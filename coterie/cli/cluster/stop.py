"""`coterie cluster stop`: stop a broker in order."""

import click

from coterie.cli.cluster.port import ask, node_argument, port_options


@click.command("stop")
@node_argument
@port_options
def command(*, node_id: int) -> None:
    """Stop a broker in order, as SIGTERM does: others take over before it ends."""
    ask("POST", "brokers", node_id, "stop")
    click.echo(f"Stopped broker {node_id}.")
