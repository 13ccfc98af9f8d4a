"""The image of Coterie by a class of Testcontainers; needs `testcontainers` and no Coterie.

    from coterie_container import CoterieContainer

    with CoterieContainer() as coterie:
        KafkaProducer(bootstrap_servers=coterie.bootstrap_servers)

Tests in Python that need no container use `coterie.testing`, which is ready in milliseconds and has
waits, faults and histories of groups as well.
"""

from typing import Any, Self

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

IMAGE = "coterie:latest"
# For clients on the host, and for clients in containers of one network.
HOST_PORT = 9092
NETWORK_PORT = 19092
# The engine chooses the port on the host when the container runs; the image waits for this file.
ADDRESS_FILE = "/tmp/coterie-address"  # noqa: S108 - in a container that nobody else uses
# The broker is ready in half a second; this is for machines that are busy with many containers.
START_TIMEOUT_S = 60


class CoterieContainer(DockerContainer):
    """A broker in a container, which keeps its data in memory.

    Rebalances of empty groups do not wait for more members, and sessions may be short, as tests
    want it. `with_setting` changes that.
    """

    def __init__(self, image: str = IMAGE, **options: Any) -> None:
        """Describe it.

        Args:
            image: name and tag of the image.
            options: those of DockerContainer.
        """
        super().__init__(image, **options)
        self.with_exposed_ports(HOST_PORT, NETWORK_PORT)
        self.with_env("COTERIE_ADVERTISE_FILE", ADDRESS_FILE)
        self.with_setting("log.dirs", ":memory:")
        self.with_setting("group.initial.rebalance.delay.ms", "0")
        self.with_setting("group.min.session.timeout.ms", "100")

    def with_setting(self, name: str, value: str) -> Self:
        """Set a setting of the broker by Kafka's name, such as num.partitions."""
        self.with_env("COTERIE_" + name.replace(".", "_").upper(), value)
        return self

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients on the host, as host:port."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(HOST_PORT)}"

    def network_bootstrap_servers(self, alias: str) -> str:
        """Return the address for clients in containers of the same network.

        Args:
            alias: the name of this container in the network, from `with_network_aliases`.
        """
        return f"{alias}:{NETWORK_PORT}"

    def start(self) -> Self:
        """Start the container and wait until the broker is ready.

        Raises:
            TimeoutError: it is not ready after START_TIMEOUT_S.
            RuntimeError: it has ended; the text has its last lines.
        """
        super().start()
        self.copy_into_container(self.bootstrap_servers.encode(), ADDRESS_FILE)
        ready = LogMessageWaitStrategy("ready on ").with_startup_timeout(START_TIMEOUT_S)
        ready.wait_until_ready(self)
        return self
