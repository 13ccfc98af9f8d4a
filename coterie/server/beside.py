"""What may run in the process of brokers besides them: the console.

It is a client of the brokers, so it starts after them and ends before them, and this package does
not know it.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from coterie.address import Address

# Where brokers listen on every address; a client of the same machine connects to the loopback.
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


class BrokerControl(Protocol):
    """Control of brokers of a control port or of a test, for their faults and their clock."""

    def perform(self, method: str, path: str, fields: Mapping[str, Any]) -> Any:
        """Perform an operation of the control port, and return its answer; called in a thread.

        Args:
            method, path: those of the operation, as docs/control.md has them: POST and /faults.
            fields: its fields as JSON, with those that the path names.

        Raises:
            Refused: a field is wrong, or the brokers do not run.
        """


class Beside(Protocol):
    """What runs besides the brokers."""

    @property
    def address(self) -> Address:
        """Where it is to listen; port 0 is a free one."""

    @property
    def option(self) -> str:
        """The option that sets the port."""

    def start(self, bootstrap: str, control: BrokerControl | None) -> str:
        """Start, and return the line that says where it is; called in a thread.

        Args:
            bootstrap: the brokers, as host:port,host:port.
            control: that of the brokers; None if they have none.

        Raises:
            OSError: the address cannot be used.
        """

    def stop(self) -> None:
        """Stop at once; called in a thread."""


def bootstrap_of(addresses: list[Address]) -> str:
    """Return the addresses as a client on this machine uses them."""
    return ",".join(
        str(each._replace(host=_EVERYWHERE.get(each.host, each.host))) for each in addresses
    )
