"""Spark Structured Streaming reads a topic and writes another, in two runs with one checkpoint.

The source and the sink are Spark's own Kafka connector. In the second run its consumers use the
consumer protocol (KIP-848). Its newest release may be older than that
of Spark.
"""

import json
import shutil
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from coterie.lab.live.parts import Part, jars_of
from tests.interop.model import Failed, Skipped, Surroundings
from tests.interop.topics import CommittedReader, create_topics, produce

CONNECTOR = Part(
    "spark-connector-4.2.0",
    ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",),
    excluded=("org.apache.hadoop:*", "org.scala-lang:*"),
)
# Spark brings the rest.
_JARS = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
_JOB = Path(__file__).parent / "_spark_job.py"
_LIMIT_S = 180.0


def run(around: Surroundings) -> None:
    """Double numbers from topic to topic."""
    double(around, {"bootstrap.servers": around.bootstrap})


def double(around: Surroundings, client: Mapping[str, str]) -> None:
    """Do so with a job whose clients have some properties."""
    if shutil.which("java") is None:
        raise Skipped("'java' is not installed")
    jars = [
        str(jar)
        for jar in sorted(jars_of(CONNECTOR, around.note).glob("*.jar"))
        if jar.name.startswith(_JARS)
    ]
    source, sink = around.name("numbers"), around.name("doubled")
    create_topics(around.bootstrap, {source: 3, sink: 2})
    arguments = [
        ",".join(jars),
        json.dumps(client),
        source,
        sink,
        str(around.directory / "checkpoint"),
    ]
    for number, numbers in enumerate((range(1000), range(1000, 1500)), start=1):
        produce(around.bootstrap, source, ((str(each % 7), str(each)) for each in numbers))
        # Spark assigns partitions by itself; its consumers only read.
        protocol = "classic" if number == 1 else "consumer"
        command = [sys.executable, str(_JOB), *arguments, protocol]
        child = around.children.start(f"spark-{number}", command)
        around.until(lambda: not child.running, _LIMIT_S, "the query ends")  # noqa: B023 - used at once
        if child.process.returncode:
            raise Failed(f"the query failed:\n{child.last_lines()}")
    reader = CommittedReader(around.bootstrap, {sink: 2})
    found: Counter[int] = Counter()
    for message in reader.records(20.0):
        if message is not None:
            value = message.value()
            assert isinstance(value, bytes)
            found[int(value)] += 1
        elif found.total() >= 1500:
            break
    reader.close()
    if found != Counter(range(0, 3000, 2)):
        raise Failed(f"{len(found)} of 1500 numbers, {found.total() - len(found)} doubled")
    around.note("1500 records in two runs")
