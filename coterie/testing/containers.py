"""`KafkaContainer` with the methods of Testcontainers' class of that name, and without a container.

A suite swaps one import:

    from coterie.testing.containers import KafkaContainer    # was: testcontainers.kafka

Methods that only concern Docker are accepted and have no effect.
"""

from typing import Any, Self

from coterie.testing.broker import Broker
from coterie.testing.errors import WrongUse

# Settings of Kafka's images are environment variables with this prefix.
_ENV_PREFIX = "KAFKA_"
# These say how the image starts, not how the broker behaves.
_OF_THE_IMAGE = (
    "KAFKA_ADVERTISED_LISTENERS", "KAFKA_BROKER_ID", "KAFKA_CONTROLLER_", "KAFKA_HEAP_OPTS",
    "KAFKA_INTER_BROKER_LISTENER_NAME", "KAFKA_LISTENERS", "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP",
    "KAFKA_LOG4J", "KAFKA_NODE_ID", "KAFKA_PROCESS_ROLES", "KAFKA_ZOOKEEPER_CONNECT",
)  # fmt: skip


class KafkaContainer:
    """A broker in this process, used like a container.

    Attributes:
        kafka: the broker, for everything that a container does not have.
    """

    def __init__(self, image: str = "", port: int = 9093, **_: Any) -> None:
        """Describe it; image and port are those of a container and have no effect."""
        self.image = image
        self.port = port
        self._settings: dict[str, str] = {}
        self._broker: Broker | None = None

    @property
    def kafka(self) -> Broker:
        """The broker, for everything that a container does not have.

        Raises:
            WrongUse: it was not started.
        """
        if self._broker is None:
            raise WrongUse("the container was not started: call start(), or use `with`")
        return self._broker

    def with_env(self, key: str, value: str) -> Self:
        """Set an environment variable; `KAFKA_GROUP_MAX_SIZE` is the setting group.max.size."""
        if key.startswith(_ENV_PREFIX) and not key.startswith(_OF_THE_IMAGE):
            self._settings[key.removeprefix(_ENV_PREFIX).replace("_", ".").lower()] = value
        return self

    def with_kraft(self) -> Self:
        """Do nothing: there is no ZooKeeper in any case."""
        return self

    def with_cluster_id(self, _cluster_id: str) -> Self:
        """Do nothing: the broker has an id of its own."""
        return self

    def with_exposed_ports(self, *_ports: int) -> Self:
        """Do nothing: the broker listens on a free port."""
        return self

    def start(self, timeout: float = 30) -> Self:  # noqa: ARG002 - it is ready in milliseconds
        """Start the broker.

        Raises:
            BrokerNotStarted: a setting cannot be used.
        """
        self._broker = Broker(config=self._settings).start()
        return self

    def stop(self, **_: Any) -> None:
        """Stop the broker; its data are gone."""
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def get_bootstrap_server(self) -> str:
        """Return the address for clients, as host:port."""
        return self.kafka.bootstrap_servers

    def get_container_host_ip(self) -> str:
        """Return the host of the address for clients."""
        return self.kafka.host

    def get_exposed_port(self, _port: int) -> int:
        """Return the port of the address for clients."""
        return self.kafka.port
