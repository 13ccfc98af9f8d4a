"""`coterie console`: groups, topics and records of any Kafka, in a browser."""

import asyncio
import functools
import sys
import threading
import webbrowser
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from coterie.cli.broker import broker_options, cluster_of
from coterie.cli.cluster.port import control_port, location_options
from coterie.cli.errors import CommandFailed
from coterie.cli.output import note
from coterie.cli.registry_option import registry_at, registry_option
from coterie.cli.values import WholeNumber
from coterie.client.cluster import Cluster
from coterie.client.errors import ClientError

if TYPE_CHECKING:
    from coterie.client.registry.address import RegistryAddress
    from coterie.console.places import Place


@click.command("console")
@click.option(
    "--port",
    type=WholeNumber(0, 65535),
    default=0,
    metavar="PORT",
    help="Port on the loopback address; 0, the default, chooses a free one.",
)
@click.option("--allow-changes", is_flag=True, help="Let the page change groups and topics.")
@registry_option
@location_options
@click.option("--no-browser", is_flag=True, help="Print the address only; open no browser.")
@broker_options
def command(
    *,
    port: int,
    allow_changes: bool,
    schema_registry: "RegistryAddress | None",
    no_browser: bool,
) -> None:
    """Open the console: one page that shows the groups of a Kafka cluster, live.

    It shows why a group rebalances while it does: who joined, who is waited for and how long still.
    It works with any Kafka; what only Coterie records is read from the journal of a Coterie broker.
    What only its memory has (when a member was last heard, who has locked which records) is asked
    of the control port that --control-file or --control-url names.
    It listens on the loopback address only. The printed address has a token, without which nothing
    is answered. It is read-only unless --allow-changes is given. A cluster that does not answer yet
    is shown as soon as it does. The command runs until Ctrl-C or SIGTERM.
    """
    context = click.get_current_context()
    from coterie.console.over_control import HttpControl
    from coterie.console.places import Place

    port_of_control = control_port(context)
    with cluster_of(context) as cluster:
        bootstrap = ",".join(map(str, cluster.addresses))
    connect = functools.partial(cluster_of, context)
    registry = registry_at(schema_registry)
    place = Place(
        connect,
        bootstrap,
        allows_changes=allow_changes,
        control=None if port_of_control is None else HttpControl(port_of_control),
        registry=registry,
    )
    sys.exit(asyncio.run(_run(connect, place, port, with_browser=not no_browser)))


async def _run(
    connect: Callable[[], Cluster], place: "Place", port: int, *, with_browser: bool
) -> int:
    from coterie.console.serving import ConsoleServer
    from coterie.server.run import signalled

    stopping = signalled()
    try:
        console = await asyncio.to_thread(ConsoleServer, place, port)
    except OSError as error:
        raise CommandFailed(
            f"The console cannot listen on port {port}: {error.strerror or error}.",
            "Choose another --port, or 0 for a free one.",
        ) from error
    # The line that programs wait for comes first, and has nothing else after the address.
    click.echo(f"console on {console.url}")
    read_only = "" if place.allows_changes else ", read-only"
    note(f"It shows {place.bootstrap}{read_only}. Ctrl-C ends it.")
    if with_browser and not await asyncio.to_thread(webbrowser.open, console.url):
        note("No browser was found: open the address above.")
    unreached = threading.Thread(target=_note_unreached, args=(connect,), daemon=True)
    unreached.start()
    await stopping.wait()
    await asyncio.to_thread(console.close)
    return 0


def _note_unreached(connect: Callable[[], Cluster]) -> None:
    """Say it if the cluster does not answer; the page shows when it does."""
    with connect() as cluster:
        try:
            cluster.brokers()
        except ClientError as error:
            note(f"{error.cause} The page shows the cluster as soon as it answers.")
