"""The options that name a broker, and the way from them to a connected cluster.

`--bootstrap-server` and `--timeout` may stand before or behind a subcommand's name; the later one
counts. Whatever goes wrong between here and the broker ends the command with its cause and a remedy
on standard error and exit code 1.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from coterie.client.cluster import DEFAULT_TIMEOUT_S, Cluster
from coterie.client.errors import ClientError

F = TypeVar("F", bound=Callable[..., Any])

BOOTSTRAP_VARIABLE = "COTERIE_BOOTSTRAP"
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

# Kafka's own tools take milliseconds: a number beyond an hour is a habit from there, not a wish.
_LONGEST_TIMEOUT_S = 3600.0

_BOOTSTRAP_KEY = "coterie.bootstrap_server"
_TIMEOUT_KEY = "coterie.timeout"


class CommandFailed(click.ClickException):
    """A command that could not do what it was asked: exit code 1, cause and remedy on standard
    error.
    """

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(f"{cause}\n{remedy}" if remedy else cause)


def broker_options(function: F) -> F:
    """Add --bootstrap-server and --timeout to a command or group; `connected` reads them."""
    timeout = click.option(
        "--timeout",
        metavar="SECONDS",
        type=click.FloatRange(0, _LONGEST_TIMEOUT_S, min_open=True),
        expose_value=False,
        callback=_keep(_TIMEOUT_KEY),
        help="How long one operation may take, retries included.  "
        f"[default: {DEFAULT_TIMEOUT_S:g}]",
    )
    bootstrap = click.option(
        "--bootstrap-server",
        metavar="HOST:PORT",
        expose_value=False,
        callback=_keep(_BOOTSTRAP_KEY),
        help="The broker to ask first; several with commas.  "
        f"[env: {BOOTSTRAP_VARIABLE}; default: {DEFAULT_BOOTSTRAP}]",
    )
    return bootstrap(timeout(function))


def _keep(key: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """A callback that notes a given value where contexts of group and subcommand both look."""

    def keep(context: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None:
            context.meta[key] = value

    return keep


def cluster_of(context: click.Context, timeout_s: float | None = None) -> Cluster:
    """The cluster that options or environment name; nothing is connected yet.

    Args:
        context: of the command.
        timeout_s: overrides --timeout.

    Raises:
        click.UsageError: the address is none.
    """
    bootstrap = context.meta.get(_BOOTSTRAP_KEY) or os.environ.get(BOOTSTRAP_VARIABLE)
    try:
        return Cluster(
            bootstrap or DEFAULT_BOOTSTRAP,
            timeout_s or context.meta.get(_TIMEOUT_KEY, DEFAULT_TIMEOUT_S),
        )
    except ValueError as error:
        source = "--bootstrap-server" if _BOOTSTRAP_KEY in context.meta else BOOTSTRAP_VARIABLE
        raise click.UsageError(f"Invalid value for {source}: {error}.") from error


@contextmanager
def connected() -> Iterator[Cluster]:
    """The cluster of the running command, closed at the end; its errors end the command."""
    with cluster_of(click.get_current_context()) as cluster:
        try:
            yield cluster
        except ClientError as error:
            raise CommandFailed(error.cause, error.remedy) from error
