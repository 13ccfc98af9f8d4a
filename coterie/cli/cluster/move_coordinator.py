"""`coterie cluster move-coordinator`: let another broker coordinate a group."""

import click

from coterie.cli.cluster.port import ask, complete_coordinated, port_options, to_option
from coterie.cli.output import printable


@click.command("move-coordinator")
@click.argument("name", metavar="GROUP", shell_complete=complete_coordinated)
@to_option
@click.option("--transactional", is_flag=True, help="GROUP is a transactional id.")
@port_options
def command(*, name: str, to: int, transactional: bool) -> None:
    """Let another broker coordinate a group, or a transactional id.

    All groups of the same partition of __consumer_offsets go with it.
    """
    ask("POST", "transactions" if transactional else "groups", name, "move", to=to)
    kind = "the transactions of" if transactional else "group"
    click.echo(f"Broker {to} coordinates {kind} '{printable(name)}'.")
