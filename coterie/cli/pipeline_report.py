"""`coterie pipeline report`: the tables as one page to look at."""

import os
import time

import click

from coterie.cli.broker import CommandFailed
from coterie.cli.output import note, printable
from coterie.cli.pipeline_session import told_errors


@click.command("report", short_help="Write the tables as one HTML page.")
@click.argument("output", metavar="OUTPUT", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--html",
    "path",
    required=True,
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Where to write the page; an old one is replaced at once.",
)
@click.option("--title", metavar="TEXT", help="The page's heading.  [default: Rebalances]")
def report(*, output: str, path: str, title: str | None) -> None:
    """Write what `coterie pipeline run` made in OUTPUT as one page: ownership over time with the
    rebalances and their causes, whose doing they were, what they cost, lag and progress, the state
    of the log.

    The page needs nothing else: no network, no other file. Neither Spark nor Java is used.
    """
    began = time.monotonic()
    with told_errors():
        from coterie.pipeline.report.page import DEFAULT_TITLE, render, write_page
        from coterie.pipeline.report.reading import read_content
        from coterie.pipeline.store import Store

        content = read_content(Store.reading(output))
        page = render(content, title or DEFAULT_TITLE)
        try:
            write_page(path, page)
        except OSError as error:
            raise CommandFailed(
                f"The page can't be written to {printable(path)}: {error.strerror}."
            ) from None
    count = sum(len(group.rebalances) for group in content.groups)
    note(
        f"{count:,} rebalances of {len(content.groups):,} groups,"
        f" {os.path.getsize(path) / 1e6:.1f} MB, {time.monotonic() - began:.1f} s"
    )
    click.echo(path)
