"""`coterie serve`: run a broker until a signal stops it."""

import gc
import os
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import click

from coterie.address import Address
from coterie.cli.console_options import ConsoleArguments, console_options
from coterie.cli.control_options import ControlArguments, control_options
from coterie.cli.http_options import HttpArguments, http_options
from coterie.cli.recording_options import RecordingArguments, recording_options
from coterie.cli.values import WholeNumber

if TYPE_CHECKING:
    from coterie.security.acl import Acl
    from coterie.security.seeds import ScramSeed
    from coterie.server.config.config import Config
    from coterie.server.logs.flusher import FlushMode
    from coterie.server.releases import Release

# More searches than a process makes.
_NEVER = 1_000_000


@click.command("serve")
@click.option(
    "--host",
    metavar="ADDRESS",
    help="Address to listen on; overrides listeners.  [default: 127.0.0.1]",
)
@click.option(
    "--port",
    type=WholeNumber(0, 65535),
    metavar="PORT",
    help="Port to listen on; 0 chooses a free one; overrides listeners.  [default: 9092]",
)
@click.option(
    "--brokers",
    type=WholeNumber(1, 9),
    default=1,
    show_default=True,
    metavar="COUNT",
    help="Number of brokers in this process, up to 9, which form a cluster. The second one listens"
    " at the port after --port, and so on.",
)
@click.option(
    "--data-dir",
    metavar="DIR",
    help="Directory for topics and groups, or :memory: to keep nothing on disk; overrides"
    " log.dirs.  [default: ./coterie-data]",
)
@click.option(
    "--advertise",
    metavar="HOST:PORT",
    envvar="COTERIE_ADVERTISE",
    show_envvar=True,
    help="Address that clients connect to, if it is not the one to listen on; overrides"
    " advertised.listeners.",
)
@click.option(
    "--config",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Setting of the broker, such as num.partitions=3; repeatable.",
)
@click.option(
    "--properties",
    type=click.Path(exists=True, dir_okay=False),
    help="File with settings, such as Kafka's server.properties.",
)
@click.option(
    "--secure",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Serve TLS with certificates that are made in DIR, for the broker and for two users, and"
    " print what clients need of them.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Fail if a setting has no effect in this broker, instead of printing a warning.",
)
@click.option(
    "--kafka-version",
    metavar="RELEASE",
    envvar="COTERIE_KAFKA_VERSION",
    show_envvar=True,
    help="Serve the API versions that a release of Kafka served, such as 2.8, and no others.",
)
@click.option(
    "--feature",
    "features",
    multiple=True,
    metavar="NAME=LEVEL",
    help="Level of a feature, such as transaction.version=1, which is stored in the data directory;"
    " repeatable.  [default: the newest, or the stored one]",
)
@click.option(
    "--add-scram",
    "users",
    multiple=True,
    metavar="USER",
    help="User to add, as SCRAM-SHA-256=[name=alice,password=SECRET], which is stored in the data"
    " directory; repeatable.",
)
@click.option(
    "--add-acl",
    "acls",
    multiple=True,
    metavar="RULE",
    help='Access rule to add, such as "User:alice ALLOW READ TOPIC orders- PREFIXED", which is'
    " stored in the data directory; repeatable.",
)
@click.option(
    "--flush",
    default="commit",
    show_default=True,
    metavar="MODE",
    help="When data is synced to disk: commit (before it is acknowledged), interval:MS, or never"
    " (the operating system decides, as with Kafka).",
)
@http_options
@recording_options
@control_options
@console_options
@click.option(
    "--stop-with-input",
    is_flag=True,
    help="Stop when standard input ends, so that the broker ends with the process that holds its"
    " other end.",
)
@click.option(
    "--log-level",
    type=click.Choice(("debug", "info", "warning", "error")),
    default="info",
    show_default=True,
    help="Lowest level of the messages that are logged to standard error.",
)
@click.option(
    "--log-format",
    type=click.Choice(("console", "json")),
    default="console",
    show_default=True,
    help="Format of log lines: console for people, json for programs.",
)
@click.option(
    "--allow-remote",
    is_flag=True,
    help="Allow connections from other machines to a listener that asks for no credentials.",
)
@click.option(
    "--insecure-oauth",
    is_flag=True,
    help="Allow clients on other machines to log in with OAuth tokens that nobody has signed.",
)
def command(
    *,
    host: str | None,
    port: int | None,
    brokers: int,
    data_dir: str | None,
    advertise: str | None,
    settings: tuple[str, ...],
    properties: str | None,
    secure: str | None,
    strict: bool,
    kafka_version: str | None,
    features: tuple[str, ...],
    users: tuple[str, ...],
    acls: tuple[str, ...],
    flush: str,
    http: HttpArguments,
    recording: RecordingArguments,
    control: ControlArguments,
    console: ConsoleArguments,
    stop_with_input: bool,
    log_level: str,
    log_format: str,
    allow_remote: bool,
    insecure_oauth: bool,
) -> None:
    """Start a broker: a Kafka group coordinator, and topics to produce to and consume from.

    Settings have Kafka's names. --config overrides the environment, where num.partitions is called
    COTERIE_NUM_PARTITIONS, and the environment overrides --properties. `coterie docs` has the
    page of all settings. The broker runs until Ctrl-C or SIGTERM.
    """
    started = _begin()
    # Imported here because `coterie --help` and other commands do not need the server.
    from coterie.server.config.place import PlaceOptions, decide_place
    from coterie.server.config.sources import ConfigError
    from coterie.server.features import parse_levels, supported_features
    from coterie.server.run import Options

    try:
        file = _settings_file(properties, secure, host, advertise)
        config = _config(settings, file, brokers, strict=strict)
        where = PlaceOptions(host, port, advertise, data_dir, allow_remote, insecure_oauth)
        place = decide_place(config, where)
        release = _release(kafka_version)
        options = Options(
            place=place,
            config=config,
            flush=_flush_mode(flush, place.data_dir),
            log_level=log_level,
            log_format=log_format,
            started=started,
            metrics_port=http.metrics_port,
            http=http.checked_access(place.host),
            recording=recording.options(),
            stops_with_input=stop_with_input,
            release=release,
            features=parse_levels(features, supported_features(release)),
            users=_users(users),
            acls=_acls(acls, config),
            announcement=file.announcement,
            brokers=brokers,
            beside=console.beside(place),
        )
    except (ConfigError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        given = f"--secure {secure}" if properties is None else f"--properties {properties}"
        raise click.UsageError(f"{given}: {error.strerror}") from None
    sys.exit(control.run(options))


def _begin() -> float:
    """Return the time of the start by the monotonic clock, and collect only young garbage."""
    # Until `end_start`: what survives one search for reference cycles is code, which stays.
    gc.set_threshold(gc.get_threshold()[0], _NEVER)
    return time.monotonic()


def _flush_mode(text: str, data_dir: str) -> "FlushMode":
    from coterie.server.data_place import IN_MEMORY
    from coterie.server.logs.flusher import parse_flush_mode

    mode = parse_flush_mode(text)
    # Memory cannot lose power, so a sync would only take time.
    return parse_flush_mode("never") if data_dir == IN_MEMORY else mode


def _config(
    settings: tuple[str, ...], file: "_SettingsFile", brokers: int, *, strict: bool
) -> "Config":
    from coterie.server.config.config import Config
    from coterie.server.config.effects import refuse_without_effect

    config = Config.load(settings, os.environ, file.text, file.name)
    if strict:
        refuse_without_effect(config, brokers)
    return config


def _users(texts: tuple[str, ...]) -> "list[ScramSeed]":
    if not texts:
        return []
    # Imported here, because most brokers add no users.
    from coterie.security.seeds import InvalidSeed, parse_seed

    try:
        return [parse_seed(each) for each in texts]
    except InvalidSeed as error:
        raise ValueError(f"--add-scram: {error}") from None


class _SettingsFile(NamedTuple):
    """The text of a properties file, how errors call it, and what to print in the end."""

    text: str | None = None
    name: str = ""
    announcement: str = ""


def _settings_file(
    properties: str | None, secure: str | None, host: str | None, advertise: str | None
) -> _SettingsFile:
    """Return the settings of --properties, or those of --secure."""
    if secure is None:
        if properties is None:
            return _SettingsFile()
        # Kafka reads properties as ISO 8859-1, in which every byte is valid.
        with open(properties, encoding="latin-1", newline="") as file:
            return _SettingsFile(file.read(), properties)
    if properties is not None:
        raise ValueError("--secure and --properties both describe listeners; give one of them")
    # Imported here, because most brokers make no certificates.
    import socket

    from coterie.cli.secure import make_files

    hosts = ["localhost", "127.0.0.1", "::1", socket.gethostname()]
    if host not in (None, "", "0.0.0.0", "::"):  # noqa: S104 - compared with, not listened on
        hosts.append(host)
    if advertise is not None:
        hosts.append(Address.parse(advertise).host)
    files = make_files(secure, hosts)
    return _SettingsFile(files.properties, "--secure", files.announcement)


def _acls(texts: tuple[str, ...], config: "Config") -> "list[Acl]":
    """Return the rules to add; the settings of the authorizer are checked, too."""
    from coterie.server.config.broker_keys import AUTHORIZER_CLASS

    has_authorizer = bool(config.get_text(AUTHORIZER_CLASS))
    if not (texts or has_authorizer):
        return []
    # Imported here, because most brokers have no authorizer.
    from coterie.security.acl_store import AclStore
    from coterie.security.acl_text import parse_acl
    from coterie.server.authorization.access import STANDARD_AUTHORIZER, make_authorizer

    if not has_authorizer:
        raise ValueError(f"--add-acl needs --config {AUTHORIZER_CLASS}={STANDARD_AUTHORIZER}")
    make_authorizer(config, AclStore())
    return [parse_acl(each) for each in texts]


def _release(name: str | None) -> "Release | None":
    if name is None:
        return None
    # Imported here, because most brokers are themselves.
    from coterie.server.releases import Release

    return Release.named(name)
