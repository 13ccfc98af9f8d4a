"""`coterie serve`: run a broker until it is told to stop."""

import os
import sys
import time

import click

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ANY_ADDRESS = ("0.0.0.0", "::", "")  # noqa: S104 - to tell what can't be advertised


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--data-dir",
    default="./coterie-data",
    show_default=True,
    help="Where topics and groups are kept; :memory: keeps them in memory.",
)
@click.option(
    "--advertise",
    metavar="HOST:PORT",
    envvar="COTERIE_ADVERTISE",
    help="The address told to clients, if they reach the broker by another one.",
)
@click.option(
    "--config", "settings", multiple=True, metavar="NAME=VALUE", help="A setting; repeatable."
)
@click.option(
    "--properties",
    type=click.Path(exists=True, dir_okay=False),
    help="A file of settings, like server.properties.",
)
@click.option(
    "--flush",
    default="commit",
    show_default=True,
    metavar="MODE",
    help="When the disk is synced: never (as Kafka does), commit (before every acknowledgement),"
    " or interval:MS.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve GET /metrics for Prometheus on this port of the same host; 0 picks a free one.",
)
@click.option(
    "--log-level",
    type=click.Choice(("debug", "info", "warning", "error")),
    default="info",
    show_default=True,
    help="What is logged, to standard error.",
)
@click.option(
    "--log-format",
    type=click.Choice(("console", "json")),
    default="console",
    show_default=True,
    help="For people or for machines.",
)
@click.option("--allow-remote", is_flag=True, help="Needed to listen beyond this machine.")
def command(
    *,
    host: str,
    port: int,
    data_dir: str,
    advertise: str | None,
    settings: tuple[str, ...],
    properties: str | None,
    flush: str,
    metrics_port: int | None,
    log_level: str,
    log_format: str,
    allow_remote: bool,
) -> None:
    """Start a broker: a Kafka group coordinator, and topics to produce to and consume from.

    Settings have Kafka's names. --config beats the environment
    (COTERIE_GROUP_INITIAL_REBALANCE_DELAY_MS=0), which beats --properties.
    """
    started = time.monotonic()
    if host not in _LOOPBACK and not allow_remote:
        raise click.UsageError(
            f"--host {host} lets other machines in, and this broker asks nobody for a password."
            " Add --allow-remote if that is what you want."
        )
    if host in _ANY_ADDRESS and advertise is None:
        raise click.UsageError(
            f"--host {host} is no address that clients can be told to connect to."
            " Add --advertise HOST:PORT with the one by which they reach this machine."
        )
    # Imported behind the checks above: a wrong option needs no server.
    from coterie.address import Address
    from coterie.server.broker import IN_MEMORY
    from coterie.server.config.config import Config, ConfigError
    from coterie.server.logs.flusher import parse_flush_mode
    from coterie.server.run import Options, run

    text = None
    try:
        parse_flush_mode(flush)
        if properties is not None:
            with open(properties, encoding="utf-8") as file:
                text = file.read()
        options = Options(
            host=host,
            port=port,
            data_dir=data_dir,
            advertise=None if advertise is None else Address.parse(advertise),
            config=Config.load(settings, os.environ, text, properties or ""),
            # Memory has no power to lose: waiting for a sync there would only be slow.
            flush=parse_flush_mode("never" if data_dir == IN_MEMORY else flush),
            log_level=log_level,
            log_format=log_format,
            started=started,
            metrics_port=metrics_port,
        )
    except (ConfigError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.UsageError(f"--properties {properties}: {error.strerror}") from None
    sys.exit(run(options))
