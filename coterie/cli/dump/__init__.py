"""`coterie dump`: print the files of a log, frames of the protocol, and compiled codecs."""

import click

from coterie.cli.main import LazyCommands


class DumpCommands(LazyCommands):
    """The commands, one in each module of this package."""

    summaries = {
        "log": "Print the records or batches in the files of a log.",
        "producers": "Print snapshots of producers and indexes of aborted transactions.",
        "security": "Print the users, rules and tokens of a data directory, without keys.",
        "frame": "Print a request or response frame field by field.",
        "codec": "Print the compiled source of a codec.",
    }
    package = "coterie.cli.dump"


@click.command("dump", cls=DumpCommands)
def command() -> None:
    """Print the contents of log files, of a protocol frame, or of a compiled codec."""
