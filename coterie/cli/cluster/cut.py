"""`coterie cluster cut`: take the end of a log away."""

import click

from coterie.cli.cluster.port import ask, partition_arguments, port_options
from coterie.cli.output import printable
from coterie.cli.values import LONG_NATURAL


@click.command("cut")
@partition_arguments
@click.option(
    "--to-offset",
    required=True,
    metavar="OFFSET",
    type=LONG_NATURAL,
    help="First record that is gone; all of its batch goes.",
)
@port_options
def command(*, topic: str, partition: int, to_offset: int) -> None:
    """Take the end of a partition away, as an unclean election does.

    The records from the offset on are lost, also acknowledged ones, and later ones get their
    offsets. Another replica leads, if there is one.
    """
    ask("POST", "topics", topic, "cut", partition=partition, to_offset=to_offset)
    click.echo(f"Cut {printable(topic)}-{partition} at offset {to_offset}.")
