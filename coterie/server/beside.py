"""What may run in the process of brokers besides them: the console.

It is a client of the brokers, so it starts after them and ends before them, and this package does
not know it.
"""

from typing import Protocol

from coterie.address import Address

# Where brokers listen on every address; a client of the same machine connects to the loopback.
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


class Beside(Protocol):
    """What runs besides the brokers."""

    @property
    def address(self) -> Address:
        """Where it is to listen; port 0 is a free one."""

    @property
    def option(self) -> str:
        """The option that sets the port."""

    def start(self, bootstrap: str) -> str:
        """Start, and return the line that says where it is; called in a thread.

        Args:
            bootstrap: the brokers, as host:port,host:port.

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
