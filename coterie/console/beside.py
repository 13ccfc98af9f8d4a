"""The console in the process of brokers, those of `coterie serve --console` or of a test: a client.

It has a thread and an event loop of its own; the brokers do not wait for it.
"""

from functools import partial

from coterie.address import LOOPBACK, Address
from coterie.client.cluster import Cluster
from coterie.client.registry.decoding import Registry
from coterie.client.security import Security
from coterie.console.places import Place
from coterie.console.serving import ConsoleServer
from coterie.server.beside import BrokerControl, Inside

# The brokers are in this process: one that does not answer for so long is held, as by a debugger.
_TIMEOUT_S = 10.0


def open_beside(
    bootstrap: str,
    security: Security,
    control: BrokerControl | None,
    port: int = 0,
    *,
    allows_changes: bool,
    registry: Registry | None = None,
    inside: Inside | None = None,
) -> ConsoleServer:
    """Open the console of brokers in this process.

    Args:
        bootstrap: the brokers, as host:port,host:port.
        security: how it connects to them.
        control: that of the brokers; None if they have none.
        port: 0 for a free one.
        allows_changes: whether its page may change something.
        registry: that of the schemas of records; None for none.
        inside: what is read of brokers in this process; None where only `control` tells something.

    Raises:
        OSError: the address cannot be used.
    """
    connect = partial(Cluster, bootstrap, _TIMEOUT_S, security)
    place = Place(
        connect,
        bootstrap,
        allows_changes=allows_changes,
        is_beside=True,
        control=control,
        registry=registry,
        inside=inside,
    )
    return ConsoleServer(place, port)


class ConsoleBeside:
    """A console that is started and stopped with brokers.

    Attributes:
        address: where it is to listen.
        option: what sets the port.
    """

    option = "--console"

    def __init__(
        self,
        port: int,
        security: Security,
        *,
        allows_changes: bool,
        registry: Registry | None = None,
    ) -> None:
        """Describe it.

        Args:
            port: 0 for a free one.
            security: how it connects to the brokers.
            allows_changes: whether its page may change something.
            registry: that of the schemas of records; None for none.
        """
        self.address = Address(LOOPBACK[0], port)
        self._security = security
        self._allows_changes = allows_changes
        self._registry = registry
        self._server: ConsoleServer | None = None

    def start(self, bootstrap: str, control: BrokerControl | None, inside: Inside) -> str:
        """Start, and return the line that says where it is.

        Args:
            bootstrap: the brokers, as host:port,host:port.
            control: that of the brokers; None if they have none.
            inside: what is read of them.

        Raises:
            OSError: the address cannot be used.
        """
        self._server = open_beside(
            bootstrap,
            self._security,
            control,
            self.address.port,
            allows_changes=self._allows_changes,
            registry=self._registry,
            inside=inside,
        )
        return f"console on {self._server.url}"

    def stop(self) -> None:
        """Stop at once."""
        if self._server is not None:
            self._server.close()
