"""`coterie cluster move`: let another broker lead a partition."""

import click

from coterie.cli.cluster.port import ask, partition_arguments, port_options, to_option
from coterie.cli.output import printable


@click.command("move")
@partition_arguments
@to_option
@port_options
def command(*, topic: str, partition: int, to: int) -> None:
    """Let another broker lead a partition; its leader epoch grows by one.

    A broker without a replica gets that of the present leader.
    """
    ask("POST", "topics", topic, "move", partition=partition, to=to)
    click.echo(f"Broker {to} leads {printable(topic)}-{partition}.")
