"""Brokers that the command starts: Kafka with sets of settings, a cluster, kfake, one that dies."""

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coterie.address import Address
from coterie.processes import Children, free_port
from tests.conformance.brokers import DEFAULTS
from tests.conformance.settings import UNUSUAL_SETTINGS
from tests.interop.kafka_cluster import KafkaCluster
from tests.interop.kafka_node import KafkaNode
from tests.interop.model import Surroundings
from tests.interop.suites import call, need
from tests.live.broker_process import BrokerProcess

_KFAKE = Path(__file__).parent / "kfake" / "main.go"
_MODULE = """module kfakenode

go 1.26.0

require (
	github.com/twmb/franz-go v1.22.2
	github.com/twmb/franz-go/pkg/kfake v0.0.0-20260918054303-01f206a7e32c
)
"""
_START_LIMIT_S = 30.0
# How long the broker that dies is checked before.
_LIFE_S = 20.0


def kafkas(directory: Path) -> Iterator[tuple[str, str]]:
    """Start a Kafka with each set of settings; give its name and address."""
    for name, settings in UNUSUAL_SETTINGS.items():
        folder = directory / name
        folder.mkdir()
        with Children(folder) as children:
            around = Surroundings("", None, folder, children)
            # A topic of transactions with two partitions is enough; that of offsets has Kafka's 50.
            node = KafkaNode(around, {"offsets.topic.num.partitions": "50", **settings})
            node.start()
            yield f"kafka-4.3.1-{name}", node.bootstrap


@contextmanager
def kafka_cluster(directory: Path) -> Iterator[str]:
    """Run three brokers of Kafka; give the address of the first."""
    with Children(directory) as children:
        cluster = KafkaCluster(Surroundings("", None, directory, children))
        cluster.start()
        yield cluster.nodes[1].bootstrap


def build_kfake(directory: Path) -> Path:
    """Build kfake from the module proxy; return the program.

    Raises:
        Skipped: Go is not installed, or the module cannot be fetched.
    """
    need("go", "kfake is built with it")
    (directory / "go.mod").write_text(_MODULE, encoding="utf-8")
    shutil.copy(_KFAKE, directory)
    call(["go", "mod", "tidy"], directory)
    call(["go", "build", "-p", "1", "-o", "kfakenode", "."], directory)
    return directory / "kfakenode"


@contextmanager
def kfake(program: Path) -> Iterator[str]:
    """Run a new kfake; give its address."""
    port = free_port()
    with Children(program.parent) as children:
        child = children.start(f"kfake-{port}", [str(program), str(port)])
        child.wait_for_port(Address("127.0.0.1", port), _START_LIMIT_S)
        yield f"127.0.0.1:{port}"


@contextmanager
def dying(directory: Path) -> Iterator[str]:
    """Run a broker of ours that is killed in the middle of the checks; give its address."""
    broker = BrokerProcess(directory / "data", DEFAULTS)
    broker.start()
    timer = threading.Timer(_LIFE_S, os.kill, (broker.pid, signal.SIGKILL))
    timer.start()
    try:
        yield broker.bootstrap
    finally:
        timer.join()
        broker.kill()
