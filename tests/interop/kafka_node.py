"""Apache Kafka to compare with: a node that a program starts, and the tools."""

from coterie.address import Address
from coterie.lab.live.parts import KAFKA_4, Part, jars_of, java_command
from coterie.lab.live.processes import Child, free_port
from tests.interop.model import Surroundings

KAFKA = Part("kafka-with-tools-4.3.1", (*KAFKA_4.artifacts, "org.apache.kafka:kafka-tools:4.3.1"))
_SERVER = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={logs}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
"""
_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_LIMIT_S = 60.0
_START_LIMIT_S = 180.0


class KafkaNode:
    """A Kafka of one node, and the tools of Kafka.

    Attributes:
        bootstrap: its address, when it is started.
        jars: Kafka's libraries.
        logs: its data directory.
    """

    def __init__(self, around: Surroundings) -> None:
        """Bring the libraries and format a data directory."""
        self._around = around
        self._runs = 0
        self.jars = jars_of(KAFKA, around.note)
        port, controller = free_port(), free_port()
        self.bootstrap = f"127.0.0.1:{port}"
        self._address = Address("127.0.0.1", port)
        self.logs = around.directory / "kafka-logs"
        self._properties = around.directory / "server.properties"
        text = _SERVER.format(port=port, controller=controller, logs=self.logs)
        self._properties.write_text(text, encoding="utf-8")
        arguments = ["format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(self._properties)]
        self.run("kafka.tools.StorageTool", *arguments)

    def run(self, main_class: str, *arguments: str) -> str:
        """Run one of Kafka's tools; return what it has printed."""
        command = java_command(self.jars, main_class, arguments, options=_OPTIONS)
        self._runs += 1
        name = f"{main_class.rpartition('.')[2]}-{self._runs}"
        child = self._around.children.start(name, command)
        child.process.wait(_LIMIT_S)
        return child.log.read_text(encoding="utf-8", errors="replace")

    def start(self) -> Child:
        """Start the broker and wait until it listens."""
        command = java_command(
            self.jars, "kafka.Kafka", [str(self._properties)], heap_mb=512, options=_OPTIONS
        )
        child = self._around.children.start("kafka", command)
        self._around.children.wait_for_port(child, self._address, _START_LIMIT_S)
        return child
