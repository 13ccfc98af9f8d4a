"""Spark's own Kafka connector returns the same rows as our own client [pipeline/connector-input].

Pip does not install the connector's jars. Without COTERIE_TEST_CONNECTOR_JARS the tests that need
them are skipped; the reason says how to get them.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow.dataset as ds
import pytest

pytest.importorskip("pyspark", reason="needs pip install coterie[pipeline]")

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession as Session

from coterie.client.cluster import Cluster
from coterie.client.errors import ClientError
from coterie.client.topics import create_topic
from coterie.pipeline import tables as pipeline_tables
from coterie.pipeline.doctor import connector_check, connector_coordinates
from coterie.pipeline.jobs.clusters import copy_clusters
from coterie.pipeline.jobs.connector import Connector, bronze_rows, copy_by_connector
from coterie.pipeline.jobs.connector_admin import JAR_CLASSES, require_connector
from coterie.pipeline.kafka_input import KafkaLog
from coterie.pipeline.session import start_session
from coterie.pipeline.spark_engine import SparkEngine
from coterie.pipeline.store import Store
from tests.live.broker_process import FAST_GROUPS, BrokerProcess
from tests.pipeline.histories import NOW_MS, commit_key, commit_value
from tests.pipeline.test_kafka_input import commit, join_a_group
from tests.unit.cli.command import run as run_command

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JARS_VARIABLE = "COTERIE_TEST_CONNECTOR_JARS"
# Versions that work with Spark 4.2 and 4.3 and are available in the Maven repository used here.
ARTIFACTS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.0",
)
HOW_TO_GET_THEM = (
    f"needs Spark's Kafka connector: {JARS_VARIABLE}=DIRECTORY (or jars with commas), filled by"
    f" `mvn dependency:copy -DoutputDirectory=DIRECTORY -Dartifact=...` of {', '.join(ARTIFACTS)}"
)
TABLES = ("log_records", "journal_records")
# The columns that the connector can fill.
FILLED = ("input", "log_partition", "log_offset", "record_ts", "key_type", "key", "value")


# -- without the jars ------------------------------------------------------------------------------


@pytest.mark.xdist_group("spark")
def test_missing_jars_are_named_with_the_setting_that_adds_them(
    spark: "SparkSession", tmp_path: Path
) -> None:
    output = tmp_path / "out"
    with pytest.raises(ClientError) as refusal:
        copy_by_connector(SparkEngine(spark), ["kafka://127.0.0.1:1"], str(output), Connector())
    assert all(jar in refusal.value.cause for jar in JAR_CLASSES)
    coordinates = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
    assert f"--conf spark.jars.packages={coordinates}" in refusal.value.remedy
    assert "--conf spark.jars=" in refusal.value.remedy
    # The check comes before any work.
    assert not output.exists()


def test_doctor_finds_the_connector_in_the_jars_of_spark(tmp_path: Path) -> None:
    absent = connector_check({"SPARK_HOME": str(tmp_path)})
    assert "--connector spark" in absent.found
    assert "spark.jars.packages=org.apache.spark:spark-sql-kafka" in absent.remedy
    (tmp_path / "jars").mkdir()
    jar = tmp_path / "jars" / "spark-sql-kafka-0-10_2.13-4.2.0.jar"
    jar.touch()
    present = connector_check({"SPARK_HOME": str(tmp_path)})
    assert (present.found, present.remedy) == (jar.name, "")
    # The connector is optional.
    assert not absent.is_needed
    assert absent.is_good


class Loader:
    """A class loader like Java's, with some classes."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def loadClass(self, name: str) -> None:  # noqa: N802 - the name is Java's
        if name not in self.names:
            raise Py4JJavaError.__new__(Py4JJavaError)


class SessionWithLoader:
    """A session whose Java has this class loader at `spark._jvm.java.lang.Thread...`."""

    version = "4.2.1"

    def __init__(self, loader: Loader) -> None:
        self._jvm = self.java = self.lang = self.Thread = self
        self.currentThread = lambda: self
        self.getContextClassLoader = lambda: loader


def test_single_missing_jar_is_named() -> None:
    *some, name = JAR_CLASSES.values()
    assert require_connector(cast("Session", SessionWithLoader(Loader(*some, name)))) is not None
    with pytest.raises(ClientError, match=r"Missing jars: commons-pool2\.") as refusal:
        require_connector(cast("Session", SessionWithLoader(Loader(*some))))
    assert connector_coordinates("4.2.1") in refusal.value.remedy


def test_session_without_java_is_refused() -> None:
    with pytest.raises(ClientError, match="Spark Connect"):
        require_connector(cast("Session", object()))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--connector-option", "kafka.security.protocol=SSL"], "--connector spark"),
        (["--connector-config", __file__], "--connector spark"),
        (["--connector", "spark", "--follow"], "--follow"),
        (["--connector", "spark", "--connector-option", "assign"], "is not KEY=VALUE"),
        (["--connector", "spark", "--connector-option", "subscribe=x"], "subscribe"),
        (
            ["--connector", "spark", "--connector-option", "kafka.Isolation.level=x"],
            "kafka.Isolation.level",
        ),
        (["--connector", "other"], "other"),
    ],
)
def test_conflicting_options_are_refused(arguments: list[str], named: str, tmp_path: Path) -> None:
    given = ["--input", "kafka://127.0.0.1:1", "--output", str(tmp_path / "out"), *arguments]
    result = run_command(None, "pipeline", "run", *given)
    assert result.exit_code == 2
    assert named in result.stderr


def test_connector_needs_a_cluster_as_input(tmp_path: Path) -> None:
    given = ["--input", str(tmp_path), "--output", str(tmp_path / "out"), "--connector", "spark"]
    result = run_command(None, "pipeline", "run", *given)
    assert result.exit_code == 2
    assert "kafka://HOST:PORT" in result.stderr
    given[1] = "kafka://host:port"
    assert run_command(None, "pipeline", "run", *given).exit_code == 2


def read_rows(spark: "SparkSession") -> "DataFrame":
    """Return rows as the connector returns them."""
    at = f"timestamp_millis({NOW_MS})"
    keys = [commit_key(partition=3), b"\x00\x02\x00\x01g", b"\xff\xfeodd", b"\x01", None]
    values = [commit_value(offset=7), None, b"", b"x", b"y"]
    rows = [(key, value, "t", 1, 10 + each, -1 if each == 4 else 0)
            for each, (key, value) in enumerate(zip(keys, values, strict=True))]  # fmt: skip
    columns = "key binary, value binary, topic string, partition int, offset bigint, kind int"
    time_of = f"if(kind = -1, timestamp_millis(-1), {at}) as timestamp"
    read = spark.createDataFrame(rows, columns)
    return read.selectExpr(
        "key", "value", "topic", "partition", "offset", time_of, "kind as timestampType"
    )


@pytest.mark.xdist_group("spark")
def test_its_rows_are_bronze(spark: "SparkSession") -> None:
    found = bronze_rows(read_rows(spark), "c", "log_records").collect()
    assert [row["key_type"] for row in found] == [1, 2, -2, None, None]
    assert [row["log_offset"] for row in found] == [10, 11, 12, 13, 14]
    assert [row["record_ts"] is None for row in found] == [False] * 4 + [True]
    (first, *_) = found
    assert (first["input"], first["log_partition"], first["segment_base"]) == ("c", 1, 0)
    assert (first["key"], first["value"]) == (commit_key(partition=3), commit_value(offset=7))
    unknown = ("batch_base_offset", "leader_epoch", "producer_id", "attributes")
    assert [first[name] for name in unknown] == [None] * 4


@pytest.mark.xdist_group("spark")
def test_its_rows_count_as_commits(spark: "SparkSession") -> None:
    from coterie.pipeline.transforms.silver import offset_commits

    rows = bronze_rows(read_rows(spark), "c", "log_records").toArrow().combine_chunks()
    (batch,) = rows.cast(pipeline_tables.TABLES["log_records"].schema).to_batches()
    (commits,) = offset_commits(batch, {})
    (found,) = commits.to_pylist()
    assert (found["log_offset"], found["partition"], found["committed_offset"]) == (10, 3, 7)


# -- with the jars ---------------------------------------------------------------------------------


def jars() -> str:
    """Return the connector's jars in the format of `spark.jars`."""
    given = os.environ.get(JARS_VARIABLE, "")
    if not given:
        pytest.skip(HOW_TO_GET_THEM)
    if os.path.isdir(given):
        return ",".join(str(each) for each in sorted(Path(given).glob("*.jar")))
    return given


class Copier:
    """A process with a session that has the jars; the session of other tests must not."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.jobs.test_connector", jars()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def copy(
        self,
        source: str,
        output: Path,
        settings_file: Path | None = None,
        options: Mapping[str, str] | None = None,
    ) -> int:
        """Copy what is new, and return the number of records.

        Raises:
            ClientError: the process reported one.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        file = None if settings_file is None else str(settings_file)
        line = json.dumps([source, str(output), dict(options or {}), file])
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise ClientError(answer["error"])
        return int(answer["rows"])

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="module")
def copier() -> Iterator[Copier]:
    copier = Copier()
    yield copier
    copier.end()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data", FAST_GROUPS | {"offsets.topic.num.partitions": "4"})
    process.start()
    yield process
    process.kill()


def rows_of(output: Path, table: str, columns: tuple[str, ...] = FILLED) -> list[dict[str, Any]]:
    """Return the rows that any reader of Parquet finds in a table."""
    if not (output / table).is_dir():
        return []
    found = ds.dataset(str(output / table), format="parquet").to_table(columns=list(columns))
    rows: list[dict[str, Any]] = found.to_pylist()
    return sorted(rows, key=lambda row: [str(row.get(name)).rjust(20) for name in columns[:3]])


def end_offsets(bootstrap: str) -> dict[tuple[str, int], int]:
    with KafkaLog("kafka://" + bootstrap) as log:
        return log.end_offsets()


def settled_ends(bootstrap: str) -> dict[tuple[str, int], int]:
    """Return where the logs end when nothing is written any more, the journal included."""
    while True:
        before = end_offsets(bootstrap)
        time.sleep(0.5)
        if end_offsets(bootstrap) == before:
            return before


@pytest.mark.timeout(300)
@pytest.mark.xdist_group("spark")
def test_rows_equal_those_of_our_client_and_each_continues_the_other(
    copier: Copier, server: BrokerProcess, tmp_path: Path
) -> None:
    source = "kafka://" + server.bootstrap
    turns, alone = tmp_path / "turns", tmp_path / "alone"
    with Cluster(server.bootstrap) as cluster:
        assert not create_topic(cluster, "paid", 3, 1).error
        commit(cluster, 2)
        join_a_group(server.bootstrap)
        before = settled_ends(server.bootstrap)
        first = copier.copy(source, turns)
        # Reading the log adds nothing to it.
        assert end_offsets(server.bootstrap) == before
        assert first == sum(before.values())
        ends = ("topic", "partition", "log_end_offset")
        assert [tuple(row.values()) for row in rows_of(turns, "log_ends", ends)] == [
            ("paid", number, 0) for number in range(3) for _ in ("earlier", "now")
        ]
        assert copier.copy(source, turns) == 0
        commit(cluster, 2, 2)
        assert copier.copy(source, turns) == 2 * 9 * 3
        # The other transport finds nothing new, and then reads the next commits.
        assert copy_clusters([source], str(turns)) == []
        commit(cluster, 1, 4)
        assert [each.rows for each in copy_clusters([source], str(turns))] == [9 * 3]
        commit(cluster, 1, 5)
        assert copier.copy(source, turns) == 9 * 3
    (copied,) = copy_clusters([source], str(alone))
    assert copied.rows == first + 4 * 9 * 3
    for table in TABLES:
        assert rows_of(turns, table) == rows_of(alone, table)
        assert rows_of(turns, table)
    (one,), (other,) = Store.reading(str(turns)).inputs, Store.reading(str(alone)).inputs
    assert one == other
    about = Store.reading(str(turns)).about(one)
    assert about == Store.reading(str(alone)).about(other)


@pytest.mark.timeout(300)
@pytest.mark.xdist_group("spark")
def test_errors_of_the_connector_are_client_errors(
    copier: Copier, server: BrokerProcess, tmp_path: Path
) -> None:
    source, output = "kafka://" + server.bootstrap, tmp_path / "out"
    quick = {"kafka.default.api.timeout.ms": "2000", "kafka.request.timeout.ms": "1000"}
    with pytest.raises(ClientError, match=r"127\.0\.0\.1:1: TimeoutException"):
        copier.copy("kafka://127.0.0.1:1", output, options=quick)
    with pytest.raises(ClientError, match=r"security\.protocol"):
        copier.copy(source, output, options={"kafka.security.protocol": "NONE"})
    # Java properties have comments, and values that continue on the next line.
    settings = tmp_path / "client.properties"
    settings.write_text("# comment\nsecurity.protocol = \\\n  UNKNOWN\nclient.id=forensics\n")
    with pytest.raises(ClientError, match="UNKNOWN"):
        copier.copy(source, output, settings)
    with pytest.raises(ClientError, match="absent"):
        copier.copy(source, output, tmp_path / "absent")
    settings.write_text("security.protocol=PLAINTEXT\n")
    with Cluster(server.bootstrap) as cluster:
        assert not create_topic(cluster, "paid", 3, 1).error
        commit(cluster, 1)
    assert copier.copy(source, output, settings) == 9 * 3
    # The same cluster with a log that ends before the offset to which it was read.
    manifest = output / "manifest.json"
    stored = json.loads(manifest.read_text())
    (positions,) = (each["next_offsets"] for each in stored["inputs"].values())
    positions["__consumer_offsets"]["0"] = 1_000_000
    manifest.write_text(json.dumps(stored))
    with pytest.raises(ClientError, match="truncated"):
        copier.copy(source, output)


def main(jar_files: str) -> None:
    """Run the process of `Copier`."""
    settings = {"spark.jars": jar_files, "spark.driver.memory": "1g"}
    session: Session = start_session("connector", master="local[2]", settings=settings)
    for line in sys.stdin:
        source, output, options, settings_file = json.loads(line)
        try:
            copied = copy_by_connector(
                SparkEngine(session), [source], output, Connector(options, settings_file)
            )
            answer: dict[str, Any] = {"rows": sum(each.rows for each in copied)}
        except ClientError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
