"""The options --bootstrap-server, --command-config and --timeout, and the cluster they name.

The options are accepted before and after the name of a subcommand; the later one counts. An error
between the command and the broker ends the command with its cause and a remedy on standard error
and with exit code 1.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from coterie.cli.errors import CommandFailed
from coterie.cli.values import Number
from coterie.client.cluster import DEFAULT_PORT, DEFAULT_TIMEOUT_S, Cluster
from coterie.client.errors import ClientError
from coterie.client.security import PLAINTEXT, Security
from coterie.storage.properties import PropertiesError, read_properties

F = TypeVar("F", bound=Callable[..., Any])

BOOTSTRAP_VARIABLE = "COTERIE_BOOTSTRAP"
SECURITY_VARIABLE = "COTERIE_COMMAND_CONFIG"
DEFAULT_BOOTSTRAP = f"127.0.0.1:{DEFAULT_PORT}"

# Kafka's tools take milliseconds. A number of more than an hour is most likely meant as such, so
# it is refused instead of being taken for seconds.
_MAX_TIMEOUT_S = 3600.0

_BOOTSTRAP_KEY = "coterie.bootstrap_server"
_TIMEOUT_KEY = "coterie.timeout"
_SECURITY_KEY = "coterie.security"


def broker_options(function: F) -> F:
    """Add the options of a connection to a command or group; `connected` reads them."""
    bootstrap = click.option(
        "--bootstrap-server",
        metavar="HOST:PORT",
        expose_value=False,
        callback=store(_BOOTSTRAP_KEY),
        help="Broker to connect to first; separate several with commas.  "
        f"[env: {BOOTSTRAP_VARIABLE}; default: {DEFAULT_BOOTSTRAP}]",
    )
    return bootstrap(command_config(timeout_option(function)))


def timeout_option(function: F) -> F:
    """Add --timeout to a command or group; `timeout_of` reads it."""
    return click.option(
        "--timeout",
        metavar="SECONDS",
        type=Number(0, _MAX_TIMEOUT_S, min_open=True),
        expose_value=False,
        callback=store(_TIMEOUT_KEY),
        help=f"Time limit for one operation, including retries.  [default: {DEFAULT_TIMEOUT_S:g}]",
    )(function)


def timeout_of(context: click.Context) -> float:
    """Return the time limit of one operation, in seconds."""
    found: float = context.meta.get(_TIMEOUT_KEY, DEFAULT_TIMEOUT_S)
    return found


def names_bootstrap(context: click.Context) -> bool:
    """Return whether the command line has --bootstrap-server."""
    return _BOOTSTRAP_KEY in context.meta


def command_config(function: F) -> F:
    """Add --command-config to a command or group; `security_of_command` reads it."""
    return click.option(
        "--command-config",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        expose_value=False,
        callback=store(_SECURITY_KEY),
        help="Client properties with TLS and SASL settings, as for Kafka's own tools."
        f"  [env: {SECURITY_VARIABLE}]",
    )(function)


def security_of_command(context: click.Context) -> Security:
    """Return how the connections of a command are secured.

    Raises:
        click.UsageError: the properties are wrong.
    """
    path = context.meta.get(_SECURITY_KEY) or os.environ.get(SECURITY_VARIABLE)
    return security_in(path)


def security_in(path: str | Path | None) -> Security:
    """Return how connections are secured by client properties; no path is for not at all.

    Raises:
        click.UsageError: the properties are wrong.
    """
    if not path:
        return PLAINTEXT
    from coterie.client.client_properties import security_of

    try:
        return security_of(read_properties(Path(path).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, PropertiesError, ClientError) as error:
        raise click.UsageError(f"{path}: {error}") from error


def store(key: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return a callback that stores an option's value where group and subcommand both find it."""

    def keep(context: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None:
            context.meta[key] = value

    return keep


def cluster_of(context: click.Context, timeout_s: float | None = None) -> Cluster:
    """Return the cluster that options or environment name, without connecting to it.

    Args:
        context: the context of the command.
        timeout_s: overrides --timeout.

    Raises:
        click.UsageError: the bootstrap address is invalid.
    """
    bootstrap = context.meta.get(_BOOTSTRAP_KEY) or os.environ.get(BOOTSTRAP_VARIABLE)
    try:
        return Cluster(
            bootstrap or DEFAULT_BOOTSTRAP,
            timeout_s or timeout_of(context),
            security_of_command(context),
        )
    except ValueError as error:
        source = "--bootstrap-server" if names_bootstrap(context) else BOOTSTRAP_VARIABLE
        raise click.UsageError(f"Invalid value for {source}: {error}.") from error


@contextmanager
def connected() -> Iterator[Cluster]:
    """Open the cluster of the running command and close it afterwards; its errors end the command.

    Raises:
        CommandFailed: the cluster can't be reached, or refused a request.
    """
    with cluster_of(click.get_current_context()) as cluster:
        try:
            yield cluster
        except ClientError as error:
            raise CommandFailed(error.cause, error.remedy) from error
