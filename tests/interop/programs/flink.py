"""Flink doubles numbers exactly once, although it and the broker are killed.

The job has Flink's own Kafka connector as source and as sink. The sink commits a transaction with
each checkpoint; after a crash the connector goes on with transactions that another process began,
by their producer id and epoch, which no other client does. A reader of committed records must find
every number one time. Flink assigns partitions by itself; after the first crash its consumers use
the consumer protocol (KIP-848), of which that leaves the commits.
"""

from collections import Counter
from pathlib import Path

from coterie.lab.live.parts import Part, compile_java, jars_of, java_command
from coterie.processes import Child
from tests.interop.model import Failed, Surroundings
from tests.interop.topics import CommittedReader, create_topics, produce

FLINK = Part(
    "flink-2.0.0",
    (
        "org.apache.flink:flink-clients:2.0.0",
        "org.apache.flink:flink-streaming-java:2.0.0",
        "org.apache.flink:flink-connector-base:2.0.0",
        "org.apache.flink:flink-connector-kafka:4.0.1-2.0",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
)
_SOURCE = Path(__file__).parent / "java" / "Doubling.java"
_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.time=ALL-UNNAMED",
)
_PARTITIONS = 2
_LIMIT_S = 180.0


class _Job:
    """The job, its input so far, and what a reader has found."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._jars = jars_of(FLINK, around.note)
        self._classes = compile_java(self._jars, [_SOURCE], around.directory / "classes")
        self._checkpoints = around.directory / "checkpoints"
        self._input, self._output = around.name("numbers"), around.name("doubled")
        create_topics(around.bootstrap, {self._input: _PARTITIONS, self._output: _PARTITIONS})
        self._reader = CommittedReader(around.bootstrap, {self._output: _PARTITIONS})
        self._written = 0
        self.found: Counter[int] = Counter()

    def feed(self, count: int) -> None:
        """Write numbers, each one time."""
        numbers = range(self._written, self._written + count)
        produce(self._around.bootstrap, self._input, ((str(each), str(each)) for each in numbers))
        self._written += count

    def start(self) -> Child:
        """Start the job, from its newest checkpoint if there is one, with the newer protocol."""
        done = [path.parent for path in self._checkpoints.glob("*/chk-*/_metadata")]
        newest = sorted(done, key=lambda path: path.stat().st_mtime)[-1:]
        arguments = [
            *(self._around.bootstrap, self._input, self._output, f"file://{self._checkpoints}"),
            "consumer" if newest else "classic",
            *(f"file://{path}" for path in newest),
        ]
        command = java_command(
            self._jars, "Doubling", arguments, heap_mb=512, options=_OPTIONS,
            classes=[self._classes],
        )  # fmt: skip
        return self._around.children.start("flink", command)

    def wait(self, missing: int, child: Child) -> None:
        """Read until at most this many numbers are not yet doubled."""
        for message in self._reader.records(_LIMIT_S):
            if message is not None:
                value = message.value()
                assert isinstance(value, bytes)
                self.found[int(value)] += 1
            elif not child.running:
                raise Failed(f"the job has ended:\n{child.last_lines()}")
            if self.found.total() >= self._written - missing:
                return
        raise Failed(
            f"not within {_LIMIT_S:.0f} s: {self._written - missing} numbers doubled, only"
            f" {self.found.total()}\n{child.last_lines()}"
        )

    def check(self) -> None:
        """Check that every number was doubled one time."""
        for message in self._reader.records(3.0):
            if message is not None:
                self.found[int(message.value() or b"")] += 1
        self._reader.close()
        if self.found != Counter(range(0, 2 * self._written, 2)):
            raise Failed(
                f"{len(self.found)} of {self._written} numbers,"
                f" {self.found.total() - len(self.found)} doubled ones"
            )


def run(around: Surroundings) -> None:
    """Double numbers; kill the job twice, then the broker."""
    job = _Job(around)
    job.feed(500)
    child = job.start()
    job.wait(0, child)
    for _ in range(2):
        job.feed(400)
        # The job is in the middle of them.
        job.wait(399, child)
        child.kill()
        job.feed(200)
        child = job.start()
        job.wait(200, child)
    job.feed(300)
    if around.owns_broker:
        around.kill_broker()
    job.feed(300)
    job.wait(0, child)
    job.check()
    around.note(f"{job.found.total()} numbers, doubled once")
