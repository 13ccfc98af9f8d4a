"""`coterie console`: groups, topics and records of any Kafka, in a browser."""

import functools
import threading
import webbrowser

import click

from coterie.cli.broker import broker_options, cluster_of, connected
from coterie.cli.errors import CommandFailed
from coterie.cli.output import note
from coterie.cli.values import WholeNumber


@click.command("console")
@click.option(
    "--port",
    type=WholeNumber(0, 65535),
    default=0,
    metavar="PORT",
    help="Port on the loopback address; 0, the default, chooses a free one.",
)
@click.option("--allow-changes", is_flag=True, help="Let the page change groups and topics.")
@click.option("--no-browser", is_flag=True, help="Print the address only; open no browser.")
@broker_options
def command(*, port: int, allow_changes: bool, no_browser: bool) -> None:
    """Open the console: one page that shows the groups of a Kafka cluster, live.

    It shows why a group rebalances while it does: who joined, who is waited for and how long still.
    It works with any Kafka; what only Coterie records is read from the journal of a Coterie broker.
    It listens on the loopback address only. The printed address has a token, without which nothing
    is answered. It is read-only unless --allow-changes is given. It runs until Ctrl-C.
    """
    from coterie.console.places import Place
    from coterie.console.serving import ConsoleServer

    context = click.get_current_context()
    with connected() as cluster:
        # A wrong address is an error of the command, not of its page.
        cluster.brokers()
        bootstrap = ",".join(str(each) for each in cluster.addresses)
    place = Place(functools.partial(cluster_of, context), bootstrap, allows_changes=allow_changes)
    try:
        console = ConsoleServer(place, port)
    except OSError as error:
        raise CommandFailed(
            f"The console cannot listen on port {port}: {error.strerror or error}.",
            "Choose another --port, or 0 for a free one.",
        ) from error
    with console:
        click.echo(f"console on {console.url}")
        if not no_browser and not webbrowser.open(console.url):
            note("No browser was found: open the address above.")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return
