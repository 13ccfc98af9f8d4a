"""Measure the data source on some cores: `python -m benchmarks_pipeline.scan PATH --cores N`.

It is a process of its own, because Java and the Python workers must be restricted to exactly N
cores: a task of `local[1]` keeps nearly two cores busy, because its worker decodes while Java
reads. It prints a JSON object with the seconds of the best round of each measurement.
"""

import argparse
import functools
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from coterie.pipeline.jobs.ingest import ingest
from coterie.pipeline.jobs.inputs import plan
from coterie.pipeline.jobs.job import Job
from coterie.pipeline.options import parse_options
from coterie.pipeline.session import start_session
from coterie.pipeline.source import CoterieLog, LogReader
from coterie.pipeline.spark_engine import SparkEngine
from coterie.pipeline.store import Store

# The columns of a commit that most queries use.
SOME_COLUMNS = (
    "group_id,topic,partition,log_partition,log_offset,committed_offset,record_ts,is_tombstone"
)
SCAN, SCAN_SOME, TUPLES = "scan", "scan, 8 columns", "scan, as tuples"
TO_PARQUET, INGEST = "to Parquet, by Spark", "to Parquet, by the workers"


class TupleLog(CoterieLog):
    """The same source with rows passed to Spark as tuples; they are decoded in bulk as well."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "tuple_log"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the log as it is now."""
        return _TupleReader(parse_options(self.options))


class _TupleReader(LogReader):
    def read(self, partition: InputPartition) -> Iterator[Any]:
        for batch in super().read(partition):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def best(rounds: int, work: Callable[[], object]) -> float:
    """Return the seconds of the best round."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def measure(path: str, cores: int, rounds: int, scratch: str) -> dict[str, float]:
    """Return the seconds of all measurements, after a warm-up."""
    spark = start_session("bench", master=f"local[{cores}]")
    spark.dataSource.register(TupleLog)
    frame = spark.read.format("coterie_log").load(path)
    some = spark.read.format("coterie_log").option("columns", SOME_COLUMNS).load(path)
    tuples = spark.read.format("tuple_log").load(path)
    out = os.path.join(scratch, "parquet")
    engine = SparkEngine(spark)

    def copy_all() -> None:
        """Copy the log to the bronze tables of a new store."""
        output = os.path.join(scratch, "store")
        shutil.rmtree(output, ignore_errors=True)
        with Store.open(output) as store, store.scratch() as directory:
            planned = plan(store, [path])
            ingest(Job(engine, store, directory), planned)

    # A count passes every column to Java and does little else.
    found = {
        SCAN: best(rounds, frame.count),
        SCAN_SOME: best(rounds, some.count),
        TUPLES: best(1, tuples.count),
        TO_PARQUET: best(rounds, functools.partial(frame.write.mode("overwrite").parquet, out)),
        INGEST: best(rounds, copy_all),
    }
    spark.stop()
    return found


def main() -> int:
    """Run the benchmark and print the seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("--cores", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    # Java and the workers, which are started later, inherit the affinity.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cores])
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as scratch:
        found = measure(arguments.path, arguments.cores, arguments.rounds, scratch)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
