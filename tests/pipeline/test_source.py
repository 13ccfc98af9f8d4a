"""The format `coterie_log` in Spark: views, pruning, streams, logs that change meanwhile.

Rules: [pipeline/segment-files].
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coterie.pipeline.schemas import VIEWS
from coterie.protocol.java_hash import partition_for
from coterie.protocol.records import encode_batch
from tests.pipeline.histories import NOW_MS, commit_key, commit_value, rows, write_segments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark", reason="needs pip install coterie[pipeline]")

from coterie.pipeline.options import TOPIC_OF, BadOption, parse_options
from coterie.pipeline.source import LogReader, LogStreamReader
from coterie.protocol.topic_names import OFFSETS_TOPIC

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow]
GROUPS = [f"group-{number}" for number in range(12)]
LOG_PARTITIONS = 3


def batches(log_partition: int, first: int, count: int) -> list[bytes]:
    """Return batches of two commits each, of the groups that belong to the partition."""
    homes = [name for name in GROUPS if partition_for(name, LOG_PARTITIONS) == log_partition]
    return [
        encode_batch(
            [
                (commit_key(homes[number % len(homes)], "paid", each), commit_value(offset=number))
                for each in range(2)
            ],
            first + 2 * number,
            NOW_MS + number,
        )
        for number in range(count)
    ]


@pytest.fixture
def data(tmp_path: Path) -> str:
    """A data directory of three partitions with two segments each: 300 commits."""
    for number in range(LOG_PARTITIONS):
        log = batches(number, 0, 50)
        write_segments(str(tmp_path / f"{OFFSETS_TOPIC}-{number}"), (0, log[:30]), (60, log[30:]))
    return str(tmp_path)


def read(spark: "SparkSession", path: str, view: str = "commits", **options: str) -> "DataFrame":
    reader = spark.read.format("coterie_log").option("view", view)
    return reader.options(**options).load(path)


def followed(spark: "SparkSession", path: str, out: Path, **options: str) -> list[int]:
    """Run a stream until it has caught up, and return the row counts of its micro-batches."""
    stream = spark.readStream.format("coterie_log").options(**options).load(path)
    query = (
        stream.writeStream.format("parquet")
        .option("path", str(out / "rows"))
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(100)
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def places(frame: "DataFrame") -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.select("log_partition", "log_offset").collect())


def test_spark_accepts_every_view(spark: "SparkSession", data: str) -> None:
    """Spark checks the types of Arrow batches, not their UTF-8."""
    with open(os.path.join(data, f"{OFFSETS_TOPIC}-1", f"{60:020d}.log"), "r+b") as file:
        file.seek(-5, os.SEEK_END)
        file.write(b"!")
    views = [view for view in VIEWS if view not in TOPIC_OF]
    counts = {view: read(spark, data, view).count() for view in views}
    assert counts == {
        "raw": 298, "commits": 298, "groups": 0, "consumer_epochs": 0, "batches": 149,
        "markers": 0, "quarantine": 1,
    }  # fmt: skip
    (found,) = read(spark, data, "quarantine").collect()
    assert (found.log_partition, found.log_offset, found.reason) == (1, 98, "crc")
    with pytest.raises(Exception, match=r"DamagedLog.*crc"):
        read(spark, data, quarantine="fail").count()


def test_pruned_read_has_the_same_rows(spark: "SparkSession", data: str) -> None:
    """The options `group` and `logPartitions` are no filters of Spark."""
    from pyspark.testing import assertDataFrameEqual

    whole = read(spark, data)
    chosen = read(spark, data, group="group-7").where("group_id = 'group-7'")
    assertDataFrameEqual(chosen, whole.where("group_id = 'group-7'"))
    halves = read(spark, data, logPartitions="0").union(read(spark, data, logPartitions="1,2"))
    assert places(halves) == places(whole)


def test_only_selected_columns_are_returned(spark: "SparkSession", data: str) -> None:
    from pyspark.testing import assertDataFrameEqual

    names = ["topic", "log_offset", "group_id"]
    some = read(spark, data, columns="topic, log_offset,group_id")
    assert some.columns == names
    assertDataFrameEqual(some, read(spark, data).select(*names))


@pytest.mark.parametrize("columns", ["", "topic,topic", "topic,magic"])
def test_columns_that_the_view_does_not_have_are_refused(columns: str) -> None:
    with pytest.raises(BadOption, match="columns must be some of log_partition"):
        parse_options({"path": "x", "columns": columns})


def test_only_partitions_that_can_contain_the_group_are_read(data: str, tmp_path: Path) -> None:
    """Numbers with a gap, and groups in another partition, prevent it."""

    def read_partitions(**options: str) -> set[int]:
        reader = LogReader(parse_options({"path": data, **options}))
        return {each.log_partition for split in reader.partitions() for each in split.value}

    home = partition_for("group-7", LOG_PARTITIONS)
    assert read_partitions() == {0, 1, 2}
    assert read_partitions(group="group-7") == {home}
    assert read_partitions(logPartitions="0,2") == {0, 2}
    # Groups are not where they would be among three partitions, so there may be more partitions,
    # and all are read.
    for number in range(LOG_PARTITIONS):
        (tmp_path / f"{OFFSETS_TOPIC}-{number}").rename(tmp_path / f"kept-{number}")
    for number in range(LOG_PARTITIONS):
        (tmp_path / f"kept-{number}").rename(tmp_path / f"{OFFSETS_TOPIC}-{(number + 1) % 3}")
    assert read_partitions(group="group-7") == {0, 1, 2}
    assert read_partitions(group="group-7", partitionCount="3") == {home}
    (tmp_path / f"{OFFSETS_TOPIC}-0").rename(tmp_path / f"{OFFSETS_TOPIC}-5")
    assert read_partitions(group="group-7") == {1, 2, 5}


@pytest.mark.parametrize("trigger", ["1", "9000", "100000"])
def test_stream_has_the_rows_of_a_batch_read(
    spark: "SparkSession", data: str, tmp_path: Path, trigger: str
) -> None:
    if trigger == "1":
        for number in (1, 2):
            (tmp_path / f"{OFFSETS_TOPIC}-{number}").rename(tmp_path / f"elsewhere-{number}")
        for name in os.listdir(tmp_path / f"{OFFSETS_TOPIC}-0"):
            if name.startswith(f"{60:020d}"):
                os.remove(tmp_path / f"{OFFSETS_TOPIC}-0" / name)
        write_segments(str(tmp_path / f"{OFFSETS_TOPIC}-0"), (0, batches(0, 0, 3)))
    sizes = followed(spark, data, tmp_path / "out", maxBytesPerTrigger=trigger)
    streamed = spark.read.parquet(str(tmp_path / "out" / "rows"))
    assert places(streamed) == places(read(spark, data))
    assert len(sizes) == {"1": 3, "9000": len(sizes), "100000": 1}[trigger]
    assert trigger != "9000" or len(sizes) > 2


def test_stream_of_a_log_that_grows_is_cleaned_and_is_torn(
    spark: "SparkSession", data: str, tmp_path: Path
) -> None:
    """[pipeline/segment-files]"""
    out = tmp_path / "out"
    assert sum(followed(spark, data, out)) == 300
    directory = tmp_path / f"{OFFSETS_TOPIC}-2"
    # Compaction merges the old segments into one with fewer records. Then the log grows, and its
    # end is torn.
    kept = batches(2, 0, 50)[::7]
    os.remove(directory / f"{60:020d}.log")
    os.remove(directory / f"{60:020d}.index")
    more = batches(2, 100, 4)
    write_segments(str(directory), (0, kept), (100, [*more[:3], more[3][:70]]))
    # A new partition.
    write_segments(str(tmp_path / f"{OFFSETS_TOPIC}-7"), (40, batches(0, 40, 2)))
    assert sum(followed(spark, data, out)) == 6 + 4
    write_segments(str(directory), (100, more))
    assert sum(followed(spark, data, out)) == 2
    streamed = places(spark.read.parquet(str(out / "rows")))
    assert len(streamed) == len(set(streamed)) == 312


def test_log_is_cleaned_between_planning_and_reading(data: str) -> None:
    """[pipeline/segment-files]"""
    reader = LogReader(parse_options({"path": data, "splitBytes": "700"}))
    splits = reader.partitions()
    assert len(splits) > 20
    readers: list[Iterator[Any]] = [reader.read(split) for split in splits]
    first_batches = [next(each) for each in readers[::2]]
    for number in range(LOG_PARTITIONS):
        directory = os.path.join(data, f"{OFFSETS_TOPIC}-{number}")
        os.remove(os.path.join(directory, f"{60:020d}.log"))
        os.remove(os.path.join(directory, f"{0:020d}.log"))
        write_segments(directory, (0, batches(number, 0, 50)[::3]))
    surviving = {
        (number, row["log_offset"])
        for number in range(LOG_PARTITIONS)
        for row in rows(os.path.join(data, f"{OFFSETS_TOPIC}-{number}"), "commits")
    }
    found = [
        (row["log_partition"], row["log_offset"])
        for table in [*first_batches, *(table for each in readers for table in each)]
        for row in table.to_pylist()
    ]
    assert len(found) == len(set(found))
    assert surviving <= set(found)


def test_new_segment_with_the_inode_of_a_removed_one_is_read_from_its_start(tmp_path: Path) -> None:
    """Most file systems reuse inodes. A position in the old file is meaningless in the new one."""
    directory = tmp_path / f"{OFFSETS_TOPIC}-0"
    log = batches(0, 0, 50)
    write_segments(str(directory), (0, log[:20]))
    reader = LogStreamReader(parse_options({"path": str(tmp_path), "view": "raw"}))
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    assert end == {"0": 40}
    write_segments(str(tmp_path / "cleaned"), (0, log[:20:3]))
    first = directory / f"{0:020d}.log"
    inode = first.stat().st_ino
    kept = tmp_path / "kept"
    os.rename(first, kept)
    os.replace(tmp_path / "cleaned" / first.name, first)
    write_segments(str(tmp_path / "rolled"), (40, log[20:24]))
    second = directory / f"{40:020d}.log"
    with open(kept, "wb") as file:
        file.write((tmp_path / "rolled" / second.name).read_bytes())
    os.rename(kept, second)
    assert second.stat().st_ino == inode
    new_end = reader.latestOffset(end, limit)
    assert new_end == {"0": 48}
    rows = [table for split in reader.partitions(end, new_end) for table in reader.read(split)]
    found = [offset for table in rows for offset in table.column("log_offset").to_pylist()]
    assert found == list(range(40, 48))


def test_invalid_options_are_refused() -> None:
    for bad in (
        {}, {"path": "x", "view": "y"}, {"path": "x", "crc": "maybe"}, {"path": "x", "colour": "y"},
        {"path": "x", "splitBytes": "0"}, {"path": "x", "quarantine": "burn"},
    ):  # fmt: skip
        with pytest.raises(BadOption):
            parse_options(bad)
    assert parse_options({"path": "x", "view": "journal"}).topic == "coterie.journal"
