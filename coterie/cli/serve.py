"""`coterie serve`: run a broker until a signal stops it."""

import os
import sys
import time

import click


@click.command("serve")
@click.option(
    "--host", show_default="127.0.0.1", help="Address to listen on, instead of that of `listeners`."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    show_default="9092",
    help="Port to listen on, instead of that of `listeners`; 0 picks a free one.",
)
@click.option(
    "--data-dir",
    metavar="PATH",
    show_default="./coterie-data",
    help="Directory of topics and groups, instead of `log.dirs`; :memory: keeps them in memory.",
)
@click.option(
    "--advertise",
    metavar="HOST:PORT",
    envvar="COTERIE_ADVERTISE",
    help="Address that clients are given, instead of `advertised.listeners`, if they reach the"
    " broker by another one than it listens on.",
)
@click.option(
    "--config", "settings", multiple=True, metavar="NAME=VALUE", help="A setting; repeatable."
)
@click.option(
    "--properties",
    type=click.Path(exists=True, dir_okay=False),
    help="A file of settings, such as Kafka's server.properties.",
)
@click.option(
    "--strict", is_flag=True, help="Refuse settings of Kafka's that have no effect on this broker."
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
    help="Least severity of what is logged, to standard error.",
)
@click.option(
    "--log-format",
    type=click.Choice(("console", "json")),
    default="console",
    show_default=True,
    help="Log lines for people or for programs.",
)
@click.option("--allow-remote", is_flag=True, help="Allow to listen beyond this machine.")
def command(
    *,
    host: str | None,
    port: int | None,
    data_dir: str | None,
    advertise: str | None,
    settings: tuple[str, ...],
    properties: str | None,
    strict: bool,
    flush: str,
    metrics_port: int | None,
    log_level: str,
    log_format: str,
    allow_remote: bool,
) -> None:
    """Start a broker: a Kafka group coordinator, and topics to produce to and consume from.

    Settings have Kafka's names. --config beats the environment
    (COTERIE_GROUP_INITIAL_REBALANCE_DELAY_MS=0), which beats --properties. docs/configuration.md
    lists the settings that have an effect.
    """
    started = time.monotonic()
    # Imported here because `coterie --help` and other commands do not need the server.
    from coterie.server.broker import IN_MEMORY
    from coterie.server.config.config import Config
    from coterie.server.config.effects import refuse_without_effect
    from coterie.server.config.place import PlaceOptions, decide_place
    from coterie.server.config.sources import ConfigError
    from coterie.server.logs.flusher import parse_flush_mode
    from coterie.server.run import Options, run

    text = None
    try:
        parse_flush_mode(flush)
        if properties is not None:
            # Kafka reads properties as ISO 8859-1, which every byte is valid in.
            with open(properties, encoding="latin-1", newline="") as file:
                text = file.read()
        config = Config.load(settings, os.environ, text, properties or "")
        if strict:
            refuse_without_effect(config)
        place = decide_place(config, PlaceOptions(host, port, advertise, data_dir, allow_remote))
        options = Options(
            place=place,
            config=config,
            # Memory cannot lose power, so a sync would only take time.
            flush=parse_flush_mode("never" if place.data_dir == IN_MEMORY else flush),
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
