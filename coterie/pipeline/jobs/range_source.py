"""The Spark format `coterie_ranges`: exactly the ranges of logs that a run has planned.

`coterie_log` reads all there is in a directory. A run reads what is new since the last one, from
several directories, up to an end that was fixed when it began; so it plans ranges itself and hands
them over as text. Rows are those of the view `raw` or `quarantine`, with the input in front.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from coterie.pipeline.codec.views import CHECKED_BY, quarantined
from coterie.pipeline.jobs.inputs import NewRecords
from coterie.pipeline.options import LogOptions
from coterie.pipeline.ranges import LogRange, read_range
from coterie.pipeline.schemas import VIEWS, spark_schema
from coterie.pipeline.source import Split, packed

FORMAT = "coterie_ranges"
_QUARANTINE = "quarantine"


class InputSplit(InputPartition):
    """What one task reads: ranges of one topic of one input."""

    def __init__(self, source: str, topic: str, ranges: Sequence[LogRange]) -> None:
        super().__init__((source, topic, tuple(ranges)))


class RangeSource(DataSource):
    """The format. Options: `view`, `ranges` as JSON, `crc`."""

    @classmethod
    def name(cls) -> str:
        """How it is called in `format(...)`."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of the view, and `input`."""
        return spark_schema(_schema(self.options["view"]))

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """Reads the ranges."""
        new = [
            NewRecords(each["input"], each["topic"], [LogRange(**one) for one in each["ranges"]])
            for each in json.loads(self.options["ranges"])
        ]
        return RangeReader(self.options["view"], new, crc=self.options["crc"] == "true")


class RangeReader(DataSourceReader):
    """Reads planned ranges, a split at a time."""

    def __init__(self, view: str, new: Sequence[NewRecords], *, crc: bool) -> None:
        self.view = view
        self.new = new
        self.crc = crc

    def partitions(self) -> list[InputPartition]:
        """The splits, the largest first."""
        total = sum(each.size_bytes for new in self.new for each in new.ranges)
        target = LogOptions(path="").split_target(total)
        splits = [
            InputSplit(new.input, new.topic, split.ranges)
            for new in self.new
            for split in packed(new.ranges, target)
            if isinstance(split, Split)
        ]
        return sorted(splits, key=lambda split: -sum(each.size_bytes for each in split.value[2]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a split."""
        if partition.value is None:
            return
        source, topic, ranges = partition.value
        schema = _schema(self.view)
        for log_range in ranges:
            yield from self._rows(source, topic, log_range, schema)

    def _rows(
        self, source: str, topic: str, log_range: LogRange, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        view = CHECKED_BY.get(topic, "raw") if self.view == _QUARANTINE else self.view
        for step in read_range(log_range, view, crc=self.crc):
            rows = step.rows
            if self.view == _QUARANTINE:
                rows = quarantined(step.source, step.damages)
            if rows.num_rows:
                named = pa.repeat(source, rows.num_rows)
                yield pa.RecordBatch.from_arrays([named, *rows.columns], schema=schema)


def _schema(view: str) -> pa.Schema:
    return pa.schema([pa.field("input", pa.string()), *VIEWS[view]])


def read_new(
    spark: SparkSession, view: str, new: Iterable[NewRecords], *, crc: bool = True
) -> DataFrame:
    """The rows of a view in the planned ranges.

    Args:
        spark: the session.
        view: raw or quarantine.
        new: the ranges.
        crc: whether to check checksums.
    """
    spark.dataSource.register(RangeSource)
    planned: list[dict[str, Any]] = [
        {
            "input": each.input,
            "topic": each.topic,
            "ranges": [asdict(one) for one in each.ranges],
        }
        for each in new
    ]
    reader = spark.read.format(FORMAT).option("view", view)
    return reader.options(ranges=json.dumps(planned), crc="true" if crc else "false").load()
