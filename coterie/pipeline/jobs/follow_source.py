"""The Spark format `coterie_followed`: `coterie_log` from given offsets on.

A stream continues at the offsets in the manifest of the output directory, which are committed
together with the rows. So every process starts its streams at these offsets with an empty
checkpoint. The checkpoint of a killed process would not say which rows were committed.
"""

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from coterie.pipeline.options import LogOptions, parse_options
from coterie.pipeline.schemas import RAW, spark_schema
from coterie.pipeline.source import CoterieLog, LogStreamReader, Offsets

FORMAT = "coterie_followed"
_STARTING_OFFSETS = "startingoffsets"


class FollowedLog(CoterieLog):
    """The format `coterie_followed`.

    Its options are those of `coterie_log`, and `startingOffsets`, JSON by log partition.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of the view `raw`."""
        return spark_schema(RAW)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return a reader from the given offsets on."""
        options = {name.lower(): value for name, value in self.options.items()}
        starting = json.loads(options.pop(_STARTING_OFFSETS, "{}"))
        return _FromOffsets(parse_options(options | {"view": "raw"}), starting)


class _FromOffsets(LogStreamReader):
    def __init__(self, options: LogOptions, starting: Offsets) -> None:
        super().__init__(options)
        self._starting = starting

    def initialOffset(self) -> Offsets:  # noqa: N802
        """Return the given offsets; for other partitions where their log begins."""
        return super().initialOffset() | self._starting


def followed(
    spark: SparkSession, path: str, topic: str, positions: dict[int, int], *, crc: bool
) -> DataFrame:
    """Return a stream of the records of a topic.

    Args:
        spark: the session.
        path: a data directory.
        topic: the topic.
        positions: the next offset of each log partition that was read before.
        crc: whether to check checksums.
    """
    spark.dataSource.register(FollowedLog)
    starting = json.dumps({str(number): offset for number, offset in positions.items()})
    return (
        spark.readStream.format(FORMAT)
        .options(topic=topic, crc="true" if crc else "false", startingOffsets=starting)
        .load(path)
    )
