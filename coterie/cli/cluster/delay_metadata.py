"""`coterie cluster delay-metadata`: let clients see changes later."""

import click

from coterie.cli.cluster.port import ask, port_options
from coterie.cli.values import NATURAL


@click.command("delay-metadata")
@click.argument("milliseconds", metavar="MS", type=NATURAL)
@port_options
def command(*, milliseconds: int) -> None:
    """Let clients be shown each change so much later; the brokers know it at once.

    0 ends the delay.
    """
    ask("POST", "cluster", "metadata_delay", milliseconds=milliseconds)
    click.echo(f"Clients see changes after {milliseconds} ms.")
