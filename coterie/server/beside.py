"""What may run in the process of brokers besides them: the console.

It is a client of the brokers, so it starts after them and ends before them, and this package does
not know it.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from coterie.address import Address
from coterie.server.present import ReadPresent, read_present

if TYPE_CHECKING:
    from coterie.server.broker import Broker

# Where brokers listen on every address; a client of the same machine connects to the loopback.
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


class Figures(NamedTuple):
    """Figures of the brokers of this process that no request of the protocol returns.

    Attributes:
        started_ms: when the first of them was made.
        flush: when they sync the disk, as --flush has it.
        connections: how many clients have, those of the console among them.
        commits: how many offsets were committed since the start.
        requests: the number that each client gave its last request, by broker and connection.
    """

    started_ms: int
    flush: str
    connections: int
    commits: int
    requests: Mapping[tuple[int, int], int]


# It may be called in any thread, and returns None while no broker runs.
ReadFigures = Callable[[], Figures | None]


class Inside(NamedTuple):
    """What is read of brokers in this process, beside the protocol.

    Attributes:
        figures: returns those of the brokers.
        present: returns what a group does now.
    """

    figures: ReadFigures
    present: ReadPresent


def inside_of(brokers: Callable[[], Iterable["Broker"]], flush: str) -> Inside:
    """Return what is read of brokers.

    Args:
        brokers: returns those that run; called in any thread.
        flush: when they sync the disk.
    """
    return Inside(lambda: figures_of(brokers(), flush), partial(read_present, brokers))


def figures_of(brokers: Iterable["Broker"], flush: str) -> Figures | None:
    """Return the figures of brokers, taken together; it only reads numbers, so in any thread."""
    found = list(brokers)
    if not found:
        return None
    return Figures(
        min(each.started_ms for each in found),
        flush,
        sum(len(each.connection_quotas) for each in found),
        sum(each.groups.offsets_committed for each in found),
        {
            (each.node_id, connection): number
            for each in found
            for connection, number in each.connection_quotas.request_numbers().items()
        },
    )


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

    def start(self, bootstrap: str, control: BrokerControl | None, inside: Inside) -> str:
        """Start, and return the line that says where it is; called in a thread.

        Args:
            bootstrap: the brokers, as host:port,host:port.
            control: that of the brokers; None if they have none.
            inside: what is read of them.

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
