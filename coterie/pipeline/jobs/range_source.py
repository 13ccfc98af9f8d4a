"""The Spark format `coterie_ranges`: given ranges of logs, the records as they are.

`coterie_log` reads all there is in one directory. What is to be compared with a table may lie in
several, up to an end that was fixed before; so the ranges are planned by the caller and handed over
as text. Rows are those of the view `raw`.
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
        """How it is called in `format(...)`."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of the view `raw`."""
        return spark_schema(RAW)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """Reads the ranges."""
        return RangeReader([LogRange(**each) for each in json.loads(self.options["ranges"])])


class RangeReader(DataSourceReader):
    """Reads planned ranges, a split at a time."""

    def __init__(self, ranges: Sequence[LogRange]) -> None:
        self.ranges = ranges

    def partitions(self) -> list[InputPartition]:
        """The splits, the largest first."""
        total = sum(each.size_bytes for each in self.ranges)
        target = LogOptions(path="").split_target(total)
        return [Split(each) for each in packed(self.ranges, target)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a split."""
        # Where nothing is left to read, Spark makes a partition of its own without a value.
        for log_range in partition.value or ():
            for step in read_range(log_range, "raw"):
                if step.rows.num_rows:
                    yield step.rows


def read_ranges(spark: SparkSession, ranges: Iterable[LogRange]) -> DataFrame:
    """The records in some ranges, as they are.

    Args:
        spark: the session.
        ranges: of any logs.
    """
    spark.dataSource.register(RangeSource)
    planned = json.dumps([asdict(each) for each in ranges])
    return spark.read.format(FORMAT).option("ranges", planned).load()
