"""`coterie pipeline`: rebalance forensics over the coordinator's log and journal.

Needs the extra `coterie[pipeline]`. What a command needs of it is imported when that command runs,
so that help, completion and `doctor` work without it.
"""

import click

from coterie.cli.main import LazyCommands


class PipelineCommands(LazyCommands):
    """The commands: `x` is the object `x` of the module coterie/cli/pipeline_x.py."""

    about = {
        "run": "Make tables of what is new in the logs, with Spark.",
        "report": "Write the tables as one HTML page.",
        "show": "Tell the story of one group in the terminal.",
        "check": "Hold the tables against the coordinator's rules.",
        "replay": "Tell what another assignor would have done.",
        "doctor": "Tell what the pipeline needs and what is missing.",
    }
    modules = "coterie.cli.pipeline_"


@click.command(
    cls=PipelineCommands,
    short_help="Tell the history of groups from logs: who caused which rebalance.",
)
def pipeline() -> None:
    """Tell the history of consumer groups from a coordinator's log and journal: every rebalance,
    whose doing it was, how long partitions had no owner, what moved and what needed not to.

    \b
    coterie pipeline run --input DATA-DIR --output TABLES    tables of it all, with Spark
    coterie pipeline report TABLES --html PAGE.html          one page to look at
    coterie pipeline show TABLES GROUP                       one group, in the terminal
    """
