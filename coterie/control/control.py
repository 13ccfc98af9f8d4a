"""What the control port adds to one broker of a test; see `process_control`."""

from typing import NamedTuple

from coterie.control.process_control import ProcessControl
from coterie.testing.broker import Broker


class BrokerState(NamedTuple):
    """A broker that runs.

    Attributes:
        bootstrap_servers: the address for clients, as host:port.
        host, port: its parts.
    """

    bootstrap_servers: str
    host: str
    port: int


class Control(ProcessControl):
    """A broker under control.

    Attributes:
        kafka: the broker.
    """

    def __init__(self, kafka: Broker) -> None:
        """Control a broker that was started."""
        super().__init__(kafka)
        self.kafka = kafka

    def ready(self) -> BrokerState:
        """Return whether the broker runs, and where.

        Raises:
            BrokerNotStarted: it does not, because it is being restarted or was closed.
        """
        return BrokerState(self.kafka.bootstrap_servers, self.kafka.host, self.kafka.port)
