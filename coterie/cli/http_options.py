"""The options of `coterie serve` for the HTTP ports: metrics, tokens and TLS."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from coterie.cli.values import WholeNumber, gather

if TYPE_CHECKING:
    from coterie.server.network.http_access import HttpAccess

F = TypeVar("F", bound=Callable[..., Any])


class HttpArguments(NamedTuple):
    """The values of the options; `metrics_port` is None if no metrics are served."""

    metrics_port: int | None
    metrics_token: str | None
    http_certificate: str | None

    def checked_access(self, host: str) -> "HttpAccess":
        """Return how the ports are secured.

        Args:
            host: where the metrics are to listen.

        Raises:
            ValueError: other machines could read them, or the certificate cannot be loaded.
        """
        # Imported here, because `coterie --help` and other commands do not need the server.
        from coterie.server.network.http_access import HttpAccess

        access = HttpAccess(self.http_certificate, self.metrics_token)
        if self.metrics_port is not None:
            access.check(host, "--metrics-port", "--metrics-token")
        return access


def http_options(function: F) -> F:
    """Add the options to a command, as the argument `http`."""
    return gather(function, "http", HttpArguments, (_port, _token, _certificate))


_port = click.option(
    "--metrics-port",
    type=WholeNumber(0, 65535),
    metavar="PORT",
    help="Serve metrics for Prometheus at http://ADDRESS:PORT/metrics; 0 chooses a free port.",
)
_token = click.option(
    "--metrics-token",
    metavar="TOKEN",
    envvar="COTERIE_METRICS_TOKEN",
    show_envvar=True,
    help="Token that scrapers of --metrics-port must send (Authorization: Bearer TOKEN).",
)
_certificate = click.option(
    "--http-certificate",
    metavar="FILE",
    help="PEM file with a key and its certificates, for TLS of --metrics-port and --control.",
)
