"""Apache Kafka with several brokers.

    python -m tests.interop.kafka_cluster [FIRST_PORT [NAME=VALUE...]]

The controller is a node of its own, so that any number of brokers may be killed. As a command it
starts three brokers, with more settings if there are some, prints their addresses, and stops them
at the end of its standard input; a line `kill 2`, `stop 2` or `start 2` does that to a broker.
"""

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from signal import SIGTERM

from coterie.processes import Child, Children, free_port
from tests.interop.kafka_node import KafkaNode, Place
from tests.interop.model import Surroundings

BROKERS = 3
_CONTROLLER = 100
_STOP_LIMIT_S = 60.0
# The settings with which the facts of docs/spec/cluster.md were seen.
SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "min.insync.replicas": "1",
}


class KafkaCluster:
    """A controller and brokers.

    Attributes:
        nodes: the brokers, by number; the first is 1.
        running: the processes of those that run.
    """

    def __init__(
        self,
        around: Surroundings,
        settings: Mapping[str, str] | None = None,
        brokers: int = BROKERS,
        first_port: int = 0,
    ) -> None:
        """Format the data directories.

        Args:
            around: where it runs.
            settings: more settings of each broker.
            brokers: how many.
            first_port: the port of the controller, the others follow; 0 for any.
        """
        ports = [first_port + each if first_port else free_port() for each in range(brokers + 1)]
        replicas = min(brokers, 3)
        common = (_CONTROLLER, ports[0], replicas, 6)
        self._controller = KafkaNode(around, place=Place(_CONTROLLER, "controller", 0, *common))
        self.nodes = {
            number: KafkaNode(
                around,
                {**SETTINGS, **(settings or {})},
                place=Place(number, "broker", ports[number], *common),
            )
            for number in range(1, brokers + 1)
        }
        self.running: dict[int, Child] = {}
        self._controlling: Child | None = None

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self, *numbers: int) -> None:
        """Start brokers, all without numbers, and wait until they respond."""
        if self._controlling is None:
            self._controlling = self._controller.start()
        chosen = numbers or tuple(self.nodes)
        for number in chosen:
            self.running[number] = self.nodes[number].launch()
        for number in chosen:
            self.nodes[number].wait_for(self.running[number])

    def kill(self, number: int) -> None:
        """Kill a broker; the others notice when its session is over."""
        self.running.pop(number).kill()

    def stop(self, number: int) -> None:
        """Stop a broker in order: it hands over what it leads."""
        self.running.pop(number).end(SIGTERM, _STOP_LIMIT_S)


def main(arguments: list[str]) -> None:
    """Run a cluster, and carry out the lines of standard input until its end."""
    first_port = int(arguments[0]) if arguments else 0
    settings = dict(each.split("=", 1) for each in arguments[1:])
    with tempfile.TemporaryDirectory(prefix="kafka-cluster-") as name:
        directory = Path(name)
        with Children(directory) as children:
            around = Surroundings("", None, directory, children)
            cluster = KafkaCluster(around, settings, first_port=first_port)
            cluster.start()
            print(cluster.bootstrap, flush=True)
            verbs: dict[str, Callable[[int], None]] = {
                "kill": cluster.kill,
                "stop": cluster.stop,
                "start": cluster.start,
            }
            for line in sys.stdin:
                verb, number = line.split()
                verbs[verb](int(number))
                print(line.strip(), "done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
