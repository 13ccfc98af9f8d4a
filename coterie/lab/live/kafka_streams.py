"""Instances of Kafka Streams 4.3.1 that speak the protocol of streams groups (KIP-1071)."""

from pathlib import Path

from coterie.lab.live.clients import PROCESS_STEPS, LiveClient, LiveRun, PodProcess
from coterie.lab.live.old_consumer import JAVA_SOURCES
from coterie.lab.live.parts import STREAMS_4, compile_java, jars_of, java_command
from coterie.lab.live.zookeeper import SMALL_JAVA

_HEAP_MB = 128
# The default of Kafka Streams.
_COMMIT_MS = 30_000


class KafkaStreams(LiveClient):
    """Instances with one thread, each in a process of its own."""

    summary = "instances of Kafka Streams 4.3.1, with a task for each partition"
    machines = ("streams",)
    software = "Kafka Streams 4.3.1"
    steps = PROCESS_STEPS | {"topic_grows", "broker_dies", "coordinator_moves", "cut"}

    def __init__(self) -> None:
        self._jars = self._classes = Path()

    def prepare(self, run: LiveRun) -> None:
        """Fetch the jars, and compile the program."""
        self._jars = jars_of(STREAMS_4, run.report)
        sources = [JAVA_SOURCES / name for name in ("Lines.java", "StreamsInstance.java")]
        self._classes = compile_java(self._jars, sources, run.directory / "classes")
        run.lines.mkdir(exist_ok=True)

    def command(self, run: LiveRun, member: PodProcess) -> list[str]:
        """Return the command line of an instance."""
        arguments = [
            str(run.lines),
            member.identity,
            ",".join(run.counts),
            run.bootstrap,
            run.group,
            str(run.directory / "state" / member.identity),
            str(run.parameters.commit_ms or _COMMIT_MS),
        ]
        return java_command(
            self._jars,
            "StreamsInstance",
            arguments,
            heap_mb=_HEAP_MB,
            options=[*SMALL_JAVA, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"],
            classes=(self._classes,),
        )
