"""`coterie docs`: open the documentation that came with the package, without a network.

The pages are served on the loopback until Ctrl-C, and not opened as files: the search of the pages
needs a server, and browsers that run in a sandbox of their own cannot read files of other programs.
"""

import json
import webbrowser
from difflib import get_close_matches

import click
from click.shell_completion import CompletionItem

from coterie.cli.docs.pages import HOME, NoPages, Pages, load
from coterie.cli.docs.serving import serving
from coterie.cli.errors import CommandFailed
from coterie.cli.options import json_option
from coterie.cli.output import note
from coterie.cli.values import WholeNumber


def _complete(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the names of pages that begin with the typed text."""
    try:
        names = load().names
    except NoPages:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command("docs")
@click.option(
    "--page",
    default=HOME,
    metavar="NAME",
    shell_complete=_complete,
    help="Page to open, such as testing or reference/settings.",
)
@click.option(
    "--port",
    type=WholeNumber(0, 65535),
    metavar="PORT",
    default=0,
    help="Port of the pages on 127.0.0.1; by default a free one.",
)
@click.option(
    "--browser/--no-browser", "opens_browser", default=True, help="Whether to open a browser."
)
@json_option
def command(*, page: str, port: int, opens_browser: bool, as_json: bool) -> None:
    """Open the documentation in a browser.

    The pages are those of this version, with a search. They are served on 127.0.0.1 until Ctrl-C,
    and load nothing from other machines.
    """
    try:
        pages = load()
    except NoPages as error:
        raise CommandFailed(str(error), error.remedy) from None
    name = page.removesuffix(".html").removesuffix(".md")
    if name not in pages.names:
        raise CommandFailed(f"There is no page '{page}'.", _similar(name, pages))
    try:
        server = serving(pages, port)
    except OSError as error:
        raise CommandFailed(
            f"127.0.0.1:{port}: {error.strerror}", "Use another --port, or none for a free one."
        ) from None
    with server:
        url = f"http://127.0.0.1:{server.server_port}/{name}.html"
        click.echo(json.dumps({"url": url, "pages": len(pages.names)}) if as_json else url)
        if opens_browser and not webbrowser.open(url):
            note("No browser could be started; open the address in one.")
        if not as_json:
            note("Ctrl-C ends it.")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return


def _similar(name: str, pages: Pages) -> str:
    close = get_close_matches(name, pages.names, 3) or [
        each for each in pages.names if name in each
    ]
    return f"Did you mean {', '.join(close)}?" if close else "The first page lists the others."
