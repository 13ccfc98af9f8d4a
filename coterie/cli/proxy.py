"""`coterie proxy`: record the requests and responses between clients and a broker."""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from coterie.address import LOOPBACK, Address
from coterie.cli.broker import command_config, security_of_command
from coterie.cli.errors import CommandFailed
from coterie.cli.recording_options import RecordingArguments, recording_options
from coterie.client.security import Security

if TYPE_CHECKING:
    from coterie.recording.files import RecordingOptions


def _address(_: click.Context, option: click.Parameter, text: str | None) -> Address | None:
    """Read HOST:PORT; the port of --listen may be 0."""
    if text is None:
        return None
    host, _colon, port = text.rpartition(":")
    if option.name == "listen" and port == "0" and host:
        return Address(host.strip("[]"), 0)
    try:
        return Address.parse(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from error


@click.command("proxy")
@click.option(
    "--listen",
    required=True,
    metavar="HOST:PORT",
    callback=_address,
    help="Address for clients; port 0 chooses a free one. Further brokers get the next ports.",
)
@click.option(
    "--upstream",
    required=True,
    metavar="HOST:PORT",
    callback=_address,
    help="A broker of the cluster to record.",
)
@command_config
@recording_options
@click.option("--allow-remote", is_flag=True, help="Allow connections from other machines.")
def command(
    *,
    listen: Address,
    upstream: Address,
    recording: RecordingArguments,
    allow_remote: bool,
) -> None:
    """Pass requests of clients on to a broker and its responses back, and record both.

    Clients connect to --listen instead of the broker. Addresses of brokers in responses are
    replaced, so that clients stay on the proxy. With --command-config the proxy logs in for its
    clients, which speak plain text. It runs until Ctrl-C or SIGTERM.
    """
    if listen.host not in LOOPBACK and not allow_remote:
        raise click.UsageError(
            f"--listen {listen} lets other machines connect to {upstream} with what this machine"
            " may do. Add --allow-remote if that is intended."
        )
    security = security_of_command(click.get_current_context())
    sys.exit(asyncio.run(_run(listen, upstream, recording.options(), security)))


async def _run(
    listen: Address,
    upstream: Address,
    options: "RecordingOptions | None",
    security: Security,
) -> int:
    from coterie.recording.format import NotARecording
    from coterie.recording.proxy import Proxy
    from coterie.recording.serving import begin_recording
    from coterie.server.environment import Environment
    from coterie.server.listening import listening_failed
    from coterie.server.logging import make_logger
    from coterie.server.run import signalled
    from coterie.storage.errors import describe_error

    stopping = signalled()
    log = make_logger("info")
    recorder = None
    try:
        if options is not None:
            recorder = begin_recording(
                Environment.of_process(log),
                options,
                str(listen),
                settings={},
                upstream=str(upstream),
            )
    except (OSError, NotARecording) as error:
        reason = describe_error(error) if isinstance(error, OSError) else str(error)
        raise CommandFailed(f"--record: {reason}.", "Choose another file.") from error
    proxy = Proxy(upstream, recorder, log, security)
    try:
        address = await proxy.start(listen)
    except OSError as error:
        raise CommandFailed(f"{listening_failed(listen, '--listen HOST:', error)}.") from error
    where = "" if options is None else f", recording to {options.path}"
    click.echo(f"coterie proxy ready on {address} for {upstream}{where}")
    await stopping.wait()
    await proxy.stop()
    if recorder is not None:
        recorder.close()
    return 0
