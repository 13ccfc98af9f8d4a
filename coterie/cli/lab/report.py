"""`coterie lab report`: a sweep as one HTML page."""

import os

import click

from coterie.cli.errors import CommandFailed
from coterie.cli.lab.errors import lab_errors, need_pyarrow
from coterie.cli.options import html_option
from coterie.cli.output import note, printable


@click.command("report")
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@html_option
def command(*, directory: str, path: str) -> None:
    """Write the sweep in DIR as one HTML page that needs no network and no other file."""
    need_pyarrow()
    from coterie.lab.report.page import render
    from coterie.lab.store import Store
    from coterie.pipeline.report.page import write_page

    with lab_errors():
        store = Store(directory)
        page = render(store.plan_text(), store.runs(), store.timelines())
    try:
        write_page(path, page)
    except OSError as error:
        raise CommandFailed(
            f"The page can't be written to {printable(path)}: {error.strerror}."
        ) from None
    note(f"{os.path.getsize(path) / 1e6:.2f} MB")
    click.echo(path)
