"""`coterie lab report`: a sweep as one HTML page."""

import os

import click

from coterie.cli.errors import CommandFailed
from coterie.cli.lab.errors import lab_errors, need_pyarrow
from coterie.cli.options import html_option
from coterie.cli.output import note, printable


@click.command("report")
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--measured", "live", multiple=True, metavar="DIR", type=click.Path(exists=True),
    help="Show the runs of `coterie lab live` in this directory, too; repeatable.",
)  # fmt: skip
@html_option
def command(*, directory: str, live: tuple[str, ...], path: str) -> None:
    """Write the sweep, or the live runs, in DIR as one HTML page that needs no other file."""
    need_pyarrow()
    from coterie.lab.report.page import Live, render
    from coterie.lab.store import Store
    from coterie.pipeline.report.page import write_page

    with lab_errors():
        store = Store(directory)
        stores = [Store(each) for each in live]
        measured = Live(
            [row for each in stores for row in each.runs()],
            [row for each in stores for row in each.timelines()],
        )
        page = render(store.plan_text(), store.runs(), store.timelines(), measured)
    try:
        write_page(path, page)
    except OSError as error:
        raise CommandFailed(
            f"The page can't be written to {printable(path)}: {error.strerror}."
        ) from None
    note(f"{os.path.getsize(path) / 1e6:.2f} MB")
    click.echo(path)
