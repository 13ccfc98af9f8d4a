"""The consumers of the ZooKeeper era: that of Kafka 0.8.2.2 itself, and our port of it."""

import time
from collections.abc import Callable
from pathlib import Path

from coterie.address import Address
from coterie.lab.errors import WrongInput
from coterie.lab.live.clients import LiveClient, LiveRun, PodProcess, need_module
from coterie.lab.live.parts import compile_java, jars_of, java_command
from coterie.lab.live.zookeeper import (
    KAFKA_0_8,
    SMALL_JAVA,
    START_LIMIT_S,
    announce_topics,
    quiet_log,
    start_zookeeper,
)
from coterie.processes import Child, free_port
from coterie.processes.member_process import member_command

JAVA_SOURCES = Path(__file__).with_name("java")
_COMMIT_MS = 60_000


class OldConsumerPort(LiveClient):
    """Our port: a real ZooKeeper through kazoo, and records from Coterie or Kafka."""

    summary = "our port of the consumer of Kafka 0.8, on kazoo"
    machines = ("zookeeper",)
    software = "kazoo, ZooKeeper 3.4.6"

    def check(self) -> None:
        """Check that the libraries are installed."""
        need_module("kazoo", "coterie[lab-live]")
        need_module("kafka", "kafka-python")

    def prepare(self, run: LiveRun) -> None:
        """Start ZooKeeper, and write the topics into it."""
        start_zookeeper(run)
        announce_topics(run)

    def command(self, run: LiveRun, member: PodProcess) -> list[str]:
        """Return the command line of a member."""
        parameters = run.parameters
        options = {
            "bootstrap": run.bootstrap,
            "group": run.group,
            "topic": list(run.counts),
            "client_id": member.identity,
            "session_timeout_ms": parameters.zk_session_ms,
            "commit_interval_ms": parameters.commit_ms or _COMMIT_MS,
            "poll_gap_ms": parameters.poll_gap_ms,
            "zookeeper": run.zookeeper,
            "retries": parameters.zk_retries,
            "backoff_ms": parameters.zk_backoff_ms,
            "lines": member.lines,
        }
        return member_command(options, "coterie.lab.live.old_consumer_member")


class OldConsumerJava(LiveClient):
    """The consumer of Kafka 0.8.2.2, with its broker and its ZooKeeper."""

    summary = "kafka.javaapi.consumer of Kafka 0.8.2.2, its broker, ZooKeeper 3.4.6"
    machines = ("zookeeper",)
    software = "Kafka 0.8.2.2, ZooKeeper 3.4.6"
    topics_in_broker = False

    def __init__(self) -> None:
        self._jars = self._classes = Path()

    def prepare(self, run: LiveRun) -> None:
        """Compile the member, and start ZooKeeper and the broker."""
        self._jars = jars_of(KAFKA_0_8, run.report)
        names = ("Lines.java", "OldConsumer.java", "OldProducer.java")
        sources = [JAVA_SOURCES / name for name in names]
        self._classes = compile_java(self._jars, sources, run.directory / "classes")
        start_zookeeper(run)
        address = Address("127.0.0.1", free_port())
        configuration = run.directory / "broker.properties"
        configuration.write_text(
            f"broker.id=0\nhost.name={address.host}\nport={address.port}\n"
            f"log.dirs={run.directory / 'broker'}\nzookeeper.connect={run.zookeeper}\n"
            "offsets.topic.num.partitions=1\nlog.cleaner.enable=false\n"
            "log.index.size.max.bytes=65536\n",
            encoding="utf-8",
        )
        options = (*SMALL_JAVA, *quiet_log(run))
        command = java_command(
            self._jars, "kafka.Kafka", [str(configuration)], heap_mb=256, options=options
        )
        run.children.start("broker", command).wait_for_port(address, START_LIMIT_S)
        run.bootstrap, run.broker = str(address), "Kafka 0.8.2.2"

    def begin(self, run: LiveRun) -> None:
        """Make the topics, and produce."""
        topics = ",".join(f"{name}:{count}" for name, count in run.counts.items())
        rate = str(run.parameters.rate)
        arguments = [str(run.lines), run.zookeeper, run.bootstrap, topics, rate]
        command = self._java("OldProducer", arguments, quiet_log(run))
        run.lines.mkdir(exist_ok=True)
        wait_for_topics(run, run.children.start("producer", command))

    def command(self, run: LiveRun, member: PodProcess) -> list[str]:
        """Return the command line of a member."""
        parameters = run.parameters
        settings = {
            "zookeeper.connect": run.zookeeper,
            "group.id": run.group,
            "auto.offset.reset": "smallest",
            "auto.commit.interval.ms": parameters.commit_ms or _COMMIT_MS,
            "zookeeper.session.timeout.ms": parameters.zk_session_ms,
            "rebalance.backoff.ms": parameters.zk_backoff_ms,
            "rebalance.max.retries": parameters.zk_retries,
        }
        pairs = [f"{name}={value}" for name, value in settings.items()]
        arguments = [str(run.lines), member.identity, ",".join(run.counts), *pairs]
        return self._java("OldConsumer", arguments)

    def _java(self, main: str, arguments: list[str], options: list[str] | None = None) -> list[str]:
        return java_command(
            self._jars,
            main,
            arguments,
            heap_mb=64,
            options=(*SMALL_JAVA, *(options or ())),
            classes=(self._classes,),
        )


def wait_for_topics(run: LiveRun, producer: Child) -> None:
    """Wait until a producer has made the topics, which its first line says.

    Raises:
        WrongInput: it has ended, or takes too long.
    """
    path = run.lines / "producer.jsonl"
    give_up_s = time.monotonic() + START_LIMIT_S
    wait_until(lambda: path.exists() and path.stat().st_size > 0, producer, give_up_s)


def wait_until(condition: Callable[[], bool], child: Child, give_up_s: float) -> None:
    """Wait for a condition that a process is to bring about.

    Raises:
        WrongInput: the process has ended, or the time is over; the end of its log is shown.
    """
    while not condition():
        if not child.running or time.monotonic() > give_up_s:
            raise WrongInput(f"{child.name} is not ready. Its log ends:\n{child.last_lines()}")
        time.sleep(0.1)
