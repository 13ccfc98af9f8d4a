"""RocketMQ 5.4.0: name server, broker and push consumers."""

import socket
import time
from pathlib import Path

from coterie.address import Address
from coterie.lab.live.clients import LiveClient, LiveRun, PodProcess
from coterie.lab.live.old_consumer import JAVA_SOURCES, wait_for_topics, wait_until
from coterie.lab.live.parts import Part, compile_java, jars_of, java_command
from coterie.lab.live.zookeeper import SMALL_JAVA, START_LIMIT_S
from coterie.processes import free_port

ROCKETMQ_5 = Part(
    "rocketmq-5.4.0",
    (
        "org.apache.rocketmq:rocketmq-namesrv:5.4.0",
        "org.apache.rocketmq:rocketmq-broker:5.4.0",
        "org.apache.rocketmq:rocketmq-client:5.4.0",
        "org.apache.rocketmq:rocketmq-tools:5.4.0",
    ),
)
_HOST = "127.0.0.1"
_PERSIST_MS = 5_000


class RocketMq(LiveClient):
    """Push consumers, the broker and the name server of RocketMQ."""

    summary = "push consumers of RocketMQ 5.4.0, its name server and broker"
    machines = ("rocketmq-5", "rocketmq-ordered")
    software = "RocketMQ 5.4.0"
    topics_in_broker = False

    def __init__(self) -> None:
        self._jars = self._classes = Path()
        self._names = ""

    def prepare(self, run: LiveRun) -> None:
        """Compile the member, and start the name server and the broker."""
        self._jars = jars_of(ROCKETMQ_5, run.report)
        names = ("Lines.java", "RocketMqClient.java", "RocketMqProducer.java")
        sources = [JAVA_SOURCES / name for name in names]
        self._classes = compile_java(self._jars, sources, run.directory / "classes")
        home = {"ROCKETMQ_HOME": str(run.directory)}
        (run.directory / "conf").mkdir()
        names_at = Address(_HOST, free_port())
        self._names = str(names_at)
        path = _properties(
            run, "names.properties", {"listenPort": names_at.port, "bindAddress": _HOST}
        )
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        server = run.children.start("name-server", self._java(run, main, ["-c", path], 128), home)
        server.wait_for_port(names_at, START_LIMIT_S)
        self._start_broker(run, home)

    def _start_broker(self, run: LiveRun, home: dict[str, str]) -> None:
        address, store = _broker_address(), run.directory / "store"
        settings = {
            "brokerClusterName": "lab",
            "brokerName": "broker-0",
            "brokerId": 0,
            "namesrvAddr": self._names,
            "brokerIP1": _HOST,
            "bindAddress": _HOST,
            "listenPort": address.port,
            "haListenPort": free_port(),
            "storePathRootDir": store,
            "storePathCommitLog": store / "commitlog",
            # Small files instead of 1 GB each.
            "mappedFileSizeCommitLog": 16_777_216,
            "mappedFileSizeConsumeQueue": 60_000,
            "maxIndexNum": 20_000,
            "maxHashSlotNum": 5_000,
            "timerWheelEnable": "false",
            "autoCreateTopicEnable": "true",
            "diskMaxUsedSpaceRatio": 98,
        }
        path = _properties(run, "broker.properties", settings)
        main = "org.apache.rocketmq.broker.BrokerStartup"
        broker = run.children.start("broker", self._java(run, main, ["-c", path], 384), home)
        wait_until(
            lambda: "boot success" in broker.log.read_text(errors="replace"),
            broker,
            time.monotonic() + START_LIMIT_S,
        )
        run.broker = "RocketMQ 5.4.0"

    def begin(self, run: LiveRun) -> None:
        """Make the topics, and produce."""
        topics = ",".join(f"{name}:{count}" for name, count in run.counts.items())
        arguments = [str(run.lines), self._names, topics, str(run.parameters.rate)]
        run.lines.mkdir(exist_ok=True)
        command = self._java(run, "RocketMqProducer", arguments, 64)
        wait_for_topics(run, run.children.start("producer", command))

    def command(self, run: LiveRun, member: PodProcess) -> list[str]:
        """Return the command line of a member."""
        mode = "orderly" if run.machine == "rocketmq-ordered" else "concurrently"
        commit_ms = run.parameters.commit_ms or _PERSIST_MS
        topics = ",".join(run.counts)
        arguments = [
            str(run.lines), member.identity, topics, self._names, run.group, mode, str(commit_ms)
        ]  # fmt: skip
        return self._java(run, "RocketMqClient", arguments, 64)

    def _java(self, run: LiveRun, main: str, arguments: list[str], heap_mb: int) -> list[str]:
        interval_ms = run.parameters.rocketmq_interval_ms
        options = (
            *SMALL_JAVA,
            # Logs go to the directory of the run.
            f"-Duser.home={run.directory}",
            f"-Drocketmq.client.rebalance.waitInterval={interval_ms}",
        )
        return java_command(
            self._jars, main, arguments, heap_mb=heap_mb, options=options, classes=(self._classes,)
        )


def _broker_address() -> Address:
    """Return an address of which the port two below is free, too; the broker listens there."""
    while True:
        address = Address(_HOST, free_port())
        with socket.socket() as probe:
            if probe.connect_ex((_HOST, address.port - 2)):
                return address


def _properties(run: LiveRun, name: str, settings: dict[str, object]) -> str:
    path = run.directory / name
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
    return str(path)
