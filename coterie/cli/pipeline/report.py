"""`coterie pipeline report`: write the tables as one HTML page."""

import os
import time

import click

from coterie.cli.errors import CommandFailed
from coterie.cli.options import html_option
from coterie.cli.output import note, printable
from coterie.cli.pipeline.session import pipeline_errors
from coterie.client.names import counted


@click.command("report")
@click.argument("output", metavar="OUTPUT", type=click.Path(exists=True, file_okay=False))
@html_option
@click.option("--title", metavar="TEXT", help="Heading of the page.  [default: Rebalances]")
def command(*, output: str, path: str, title: str | None) -> None:
    """Write the tables that `coterie pipeline run` made in OUTPUT as one HTML page.

    The page shows ownership over time, the rebalances with their causes and costs, the members that
    caused them, lag and progress, and the state of the log. It is one file and needs no network.
    Neither Spark nor Java is used.
    """
    began = time.monotonic()
    with pipeline_errors():
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
        f"{counted(count, 'rebalance')} of {counted(len(content.groups), 'group')},"
        f" {os.path.getsize(path) / 1e6:.1f} MB, {time.monotonic() - began:.1f} s"
    )
    click.echo(path)
