"""`coterie pipeline`: analyse the rebalances recorded in a coordinator's log and journal.

Most commands need the extra `coterie[pipeline]`, and none but those with `--engine spark` needs
Java. The extra is imported when they run, so that help, completion and `doctor` work without it.
"""

import sys
from typing import Any

import click

from coterie.cli.errors import INTERRUPTED
from coterie.cli.main import LazyCommands
from coterie.cli.output import note


class PipelineCommands(LazyCommands):
    """The commands, one in each module of this package."""

    summaries = {
        "run": "Make tables from the logs.",
        "report": "Write the tables as one HTML page.",
        "show": "Show the rebalances of one group in the terminal.",
        "check": "Check the tables against the rules of a coordinator.",
        "replay": "Replay the history with another assignor.",
        "doctor": "Check whether the pipeline can run on this machine.",
    }
    package = "coterie.cli.pipeline"

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; Ctrl-C ends it with the exit code that shells expect."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            note("\nInterrupted. What was not finished has no effect; the same command repeats it.")
            sys.exit(INTERRUPTED)


@click.command("pipeline", cls=PipelineCommands)
def command() -> None:
    """Analyse the rebalances of consumer groups from a coordinator's log and journal: what caused
    them, how long partitions had no owner, which partitions moved, and which moves were needless.

    \b
    coterie pipeline run --input DATA-DIR --output TABLES    make the tables
    coterie pipeline report TABLES --html PAGE.html          write them as one page
    coterie pipeline show TABLES GROUP                       show one group in the terminal

    Small logs are processed in this process; Spark is started for more than about 64 MB, or with
    --engine spark. `show DATA-DIR GROUP` reads a broker's data directory without any tables.
    """
