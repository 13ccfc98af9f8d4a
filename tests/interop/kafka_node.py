"""Apache Kafka to compare with: a node that a program starts, and the tools."""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coterie.address import Address
from coterie.lab.live.parts import KAFKA_4_TOOLS, jars_of, java_command
from coterie.processes import Child, free_port
from tests.interop.model import Surroundings
from tests.live.secured.setup import Setup

_COMMON = """
node.id={node_id}
controller.quorum.voters={voter}@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={logs}
offsets.topic.replication.factor={replicas}
offsets.topic.num.partitions={partitions}
transaction.state.log.replication.factor={replicas}
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions={partitions}
"""
_BROKER = """
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
inter.broker.listener.name=PLAINTEXT
"""
_LISTENERS = {
    "broker,controller": "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
    "broker": "PLAINTEXT://127.0.0.1:{port}",
    "controller": "CONTROLLER://127.0.0.1:{controller}",
}
# With figures of performance Java may print that a file for them is locked.
_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
# A tool is a JVM of its own: on a busy machine its start alone takes half a minute.
_LIMIT_S = 180.0
_START_LIMIT_S = 180.0


class Place(NamedTuple):
    """The place of a node in a cluster.

    Attributes:
        node_id: its number.
        roles: broker, controller, or both.
        port: where clients find it; that of the controller has none.
        voter: the number of the controller.
        controller: the port of the controller.
        replicas: of the topics of groups and of transactions.
        partitions: of these topics.
    """

    node_id: int
    roles: str
    port: int
    voter: int
    controller: int
    replicas: int = 1
    partitions: int = 2


class KafkaNode:
    """A node of Kafka, and the tools of Kafka.

    Attributes:
        node_id: its number.
        bootstrap: its address, when it is started.
        jars: Kafka's libraries.
        logs: its data directory.
    """

    def __init__(
        self,
        around: Surroundings,
        settings: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
        place: Place | None = None,
        setup: Setup | None = None,
    ) -> None:
        """Bring the libraries and format a data directory.

        Args:
            around: where it runs.
            settings: more settings.
            features: levels that are not the newest.
            place: its place in a cluster; None for a cluster of one node.
            setup: its listeners and its security; None for one listener without.
        """
        self._around = around
        self._runs = 0
        self.jars = jars_of(KAFKA_4_TOOLS, around.note)
        if place is None:
            port = free_port() if setup is None else setup.ports["PLAINTEXT"]
            place = Place(1, "broker,controller", port, 1, free_port())
        self.node_id = place.node_id
        self._controller = place.controller
        port = place.port or place.controller
        self.bootstrap = f"127.0.0.1:{port}"
        self._address = Address("127.0.0.1", port)
        self.logs = around.directory / f"kafka-{port}"
        self._properties = around.directory / f"server-{port}.properties"
        template = f"process.roles={place.roles}\nlisteners={_LISTENERS[place.roles]}{_COMMON}"
        if place.port:
            template += _BROKER.lstrip()
        self._text = template.format(**place._asdict(), logs=self.logs)
        secured = {} if setup is None else self._secured(setup)
        self.configure({**secured, **(settings or {})})
        arguments = ["format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(self._properties)]
        for name, level in (features or {}).items():
            arguments += ["--feature", f"{name}={level}"]
        self.run("kafka.tools.StorageTool", *arguments)

    def _secured(self, setup: Setup) -> dict[str, str]:
        """Return the settings of a broker's security, with the listener of the controller."""
        settings = setup.settings()
        settings["listeners"] += f",CONTROLLER://127.0.0.1:{self._controller}"
        settings["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
        return settings

    def run(self, main_class: str, *arguments: str) -> str:
        """Run one of Kafka's tools; return what it has printed."""
        return self.printed(self.begin(main_class, arguments))

    def begin(self, main_class: str, arguments: Sequence[str], stdin: str = "") -> Child:
        """Start one of Kafka's tools, with its standard input."""
        command = java_command(self.jars, main_class, arguments, options=_OPTIONS)
        self._runs += 1
        name = f"{main_class.rpartition('.')[2]}-{self._runs}"
        child = self._around.children.start(name, command)
        assert child.process.stdin is not None
        child.process.stdin.write(stdin.encode())
        child.process.stdin.close()
        return child

    def printed(self, child: Child, limit_s: float = _LIMIT_S) -> str:
        """Wait until a tool has ended, and return what it has printed.

        A tool that does not end in time is ended, and the last line says so.
        """
        more = ""
        try:
            child.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            more = "\n(did not end by itself)"
            child.signal(signal.SIGTERM)
            child.process.wait(_LIMIT_S)
        return child.log.read_text(encoding="utf-8", errors="replace") + more

    def configure(self, settings: Mapping[str, str]) -> None:
        """Start with these settings from now on, which go before those of the node."""
        text = self._text + "".join(f"{name}={value}\n" for name, value in settings.items())
        self._properties.write_text(text, encoding="utf-8")

    def cut_off_markers(self) -> None:
        """Let the next starts write no markers: nothing listens where the broker looks for itself.

        Requests of clients to add partitions are not verified then, because Kafka does it on the
        same way.
        """
        address = f"PLAINTEXT://{self.bootstrap}"
        own, dead = free_port(), free_port()
        controller = f"CONTROLLER://127.0.0.1:{self._controller}"
        protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT"
        self.configure(
            {
                "listeners": f"{address},INTERNAL://127.0.0.1:{own},{controller}",
                "advertised.listeners": f"{address},INTERNAL://127.0.0.1:{dead}",
                "listener.security.protocol.map": protocols,
                "inter.broker.listener.name": "INTERNAL",
                "transaction.partition.verification.enable": "false",
            }
        )

    def launch(self) -> Child:
        """Start the node, without a wait."""
        command = java_command(
            self.jars, "kafka.Kafka", [str(self._properties)], heap_mb=512, options=_OPTIONS
        )
        return self._around.children.start(f"kafka-{self.node_id}", command)

    def start(self) -> Child:
        """Start the node and wait until it responds."""
        child = self.launch()
        self.wait_for(child)
        return child

    def wait_for(self, child: Child) -> None:
        """Wait until the launched node responds."""
        child.wait_for_answer(self._address, limit_s=_START_LIMIT_S)
