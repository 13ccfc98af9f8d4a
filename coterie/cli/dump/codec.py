"""`coterie dump codec`: the compiled source of a codec."""

import click

from coterie.cli.dump.apis import api_name, api_named, complete_api
from coterie.cli.errors import CommandFailed
from coterie.cli.values import SHORT_NATURAL
from coterie.protocol.api_keys import declared_versions
from coterie.protocol.apis import request_class, response_class
from coterie.protocol.compile import source_of


@click.command("codec")
@click.argument("api", metavar="API", shell_complete=complete_api)
@click.argument("version", type=SHORT_NATURAL, required=False)
@click.option("--response", is_flag=True, help="Print the codec of the response.")
@click.option(
    "--direction",
    type=click.Choice(["decode", "encode", "frame"]),
    help="Direction of the codec.  [default: what a server uses: decode for requests, frame for"
    " responses]",
)
def command(*, api: str, version: int | None, response: bool, direction: str | None) -> None:
    """Print the Python source that a message's declaration is compiled to.

    API is a name or a number, such as JoinGroup, JoinGroupResponse or 11. VERSION is the newest one
    by default.
    """
    key = api_named(api)
    first, last = declared_versions(key)
    version = last if version is None else version
    if not first <= version <= last:
        raise CommandFailed(f"{api_name(key)} has versions {first} to {last}, not {version}.")
    response = response or api.lower().endswith("response")
    if direction == "frame" and not response:
        raise click.UsageError("--direction frame is only for responses. Add --response.")
    cls = response_class(key) if response else request_class(key)
    source, _ = source_of(cls, direction or ("frame" if response else "decode"), version)
    click.echo(source, nl=False)
