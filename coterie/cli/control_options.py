"""The options of `coterie serve` for the control port, besides how they act on a broker."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from coterie.cli.values import WholeNumber, gather

if TYPE_CHECKING:
    from coterie.server.run import Options

F = TypeVar("F", bound=Callable[..., Any])


class ControlArguments(NamedTuple):
    """The values of the options; `control_port` is None without a control port."""

    control_port: int | None
    token: str | None
    file: str | None
    control_host: str

    def run(self, options: "Options") -> int:
        """Run one broker or several, with a control port if that is wanted.

        Returns:
            The exit code.

        Raises:
            UsageError: the options contradict each other.
        """
        if self.control_port is None:
            if self.file is not None:
                raise click.UsageError("--control-file needs --control PORT")
            return _run_alone(options)
        # Most brokers have no control port and start faster without this import.
        from coterie.control.run import ControlOptions, run_controlled

        try:
            control = ControlOptions.of(
                self.control_port,
                self.token,
                self.file,
                self.control_host,
                options.http.certificate,
            )
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        return run_controlled(options, control)


def _run_alone(options: "Options") -> int:
    """Run what has no control port."""
    if options.brokers == 1:
        from coterie.server.run import run

        return run(options)
    # Most processes have one broker and start faster without this import.
    from coterie.server.run_cluster import run_cluster

    return run_cluster(options)


def control_options(function: F) -> F:
    """Add the options to a command, as the argument `control`."""

    return gather(function, "control", ControlArguments, (_port, _token, _file, _host))


_port = click.option(
    "--control",
    "control_port",
    type=WholeNumber(0, 65535),
    metavar="PORT",
    help="Serve the verbs of coterie.testing for tests, as HTTP and JSON, at http://127.0.0.1:PORT;"
    " 0 chooses a free port (see docs/control.md).",
)
_token = click.option(
    "--control-token",
    "token",
    metavar="TOKEN",
    envvar="COTERIE_CONTROL_TOKEN",
    show_envvar=True,
    help="Token that clients of --control must send; by default a random one is printed.",
)
_host = click.option(
    "--control-host",
    "control_host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="Address of --control; another one than that of this machine needs --http-certificate.",
)
_file = click.option(
    "--control-file",
    "file",
    metavar="FILE",
    help="Write address, URL and token of --control to FILE as JSON; - is standard output.",
)
