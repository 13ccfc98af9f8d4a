"""The options of `coterie serve` for the console."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from coterie.cli.registry_option import registry_at, registry_option
from coterie.cli.values import WholeNumber, gather

if TYPE_CHECKING:
    from coterie.client.registry.address import RegistryAddress
    from coterie.server.beside import Beside
    from coterie.server.config.place import Place

F = TypeVar("F", bound=Callable[..., Any])


class ConsoleArguments(NamedTuple):
    """The values of the options; `console_port` is None without a console."""

    console_port: int | None
    allow_changes: bool
    console_config: str | None
    schema_registry: "RegistryAddress | None" = None

    def beside(self, place: "Place") -> "Beside | None":
        """Return the console that runs beside brokers; None if none is wanted.

        Args:
            place: where the brokers listen.

        Raises:
            ValueError: the options contradict each other, or the console could not log in.
        """
        if self.console_port is None:
            if self.allow_changes or self.console_config is not None:
                raise ValueError("--allow-changes and --console-config need --console")
            return None
        # Imported here, because most brokers have no console.
        from coterie.cli.broker import security_in
        from coterie.console.beside import ConsoleBeside
        from coterie.server.config.listeners import SecurityProtocol

        first = place.listeners[0]
        if self.console_config is None and first.protocol is not SecurityProtocol.PLAINTEXT:
            raise ValueError(
                f"--console connects to the listener {first.name}, which is secured; give"
                " --console-config FILE with client properties"
            )
        security = security_in(self.console_config)
        return ConsoleBeside(
            self.console_port,
            security,
            allows_changes=self.allow_changes,
            registry=registry_at(self.schema_registry),
        )


def console_options(function: F) -> F:
    """Add the options to a command, as the argument `console`."""
    return gather(
        function, "console", ConsoleArguments, (_port, _changes, _config, registry_option)
    )


_port = click.option(
    "--console",
    "console_port",
    is_flag=False,
    flag_value=0,
    type=WholeNumber(0, 65535),
    metavar="[PORT]",
    help="Serve the console, which shows groups and topics in a browser, on the loopback address;"
    " without a PORT at a free one (see docs/console.md).",
)
_changes = click.option(
    "--allow-changes",
    is_flag=True,
    help="Let the page of --console change groups, topics and settings, and with --control also"
    " faults and the clock.",
)
_config = click.option(
    "--console-config",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Client properties with which --console logs in to the first listener, if it is secured.",
)
