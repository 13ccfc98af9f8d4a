"""The Spark format `coterie_ranges`: the records in given ranges of logs.

`coterie_log` reads everything in one directory. To compare a table with its logs, a caller needs
the records of several directories up to a fixed end, so it plans the ranges and passes them as
JSON. Rows are those of the view `raw`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from coterie.pipeline.options import LogOptions
from coterie.pipeline.ranges import LogRange, read_range
from coterie.pipeline.schemas import RAW, spark_schema
from coterie.pipeline.source import Split, packed

FORMAT = "coterie_ranges"


class RangeSource(DataSource):
    """The format. Option: `ranges` as JSON."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of the view `raw`."""
        return spark_schema(RAW)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """Return a reader of the ranges."""
        return RangeReader([LogRange(**each) for each in json.loads(self.options["ranges"])])


class RangeReader(DataSourceReader):
    """A reader of planned ranges, one split at a time."""

    def __init__(self, ranges: Sequence[LogRange]) -> None:
        self.ranges = ranges

    def partitions(self) -> list[InputPartition]:
        """Plan the splits, the largest first."""
        total = sum(each.size_bytes for each in self.ranges)
        target = LogOptions(path="").split_target(total)
        return [Split(each) for each in packed(self.ranges, target)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of a split."""
        # If there are no splits, Spark creates a partition of its own, which has no value.
        for log_range in partition.value or ():
            for step in read_range(log_range, "raw"):
                if step.rows.num_rows:
                    yield step.rows


def read_ranges(spark: SparkSession, ranges: Iterable[LogRange]) -> DataFrame:
    """Read the records in ranges, with keys and values as bytes.

    Args:
        spark: the session.
        ranges: ranges of any logs.
    """
    spark.dataSource.register(RangeSource)
    planned = json.dumps([asdict(each) for each in ranges])
    return spark.read.format(FORMAT).option("ranges", planned).load()
