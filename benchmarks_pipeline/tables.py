"""Measure building all tables from a log and replaying its history, with 1 GB of driver memory.

python -m benchmarks_pipeline.tables [--commits N] [--generations N] [--engine local] [--keep DIR]
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks_pipeline.histories import write_histories
from coterie.pipeline.engine import Engine, LocalEngine
from coterie.pipeline.jobs.job import BUILD, INGEST, WritingStep
from coterie.pipeline.jobs.replay import replay_groups
from coterie.pipeline.jobs.run import run
from coterie.pipeline.session import start_session
from coterie.pipeline.spark_engine import SparkEngine
from coterie.pipeline.store import Store

DRIVER_MEMORY = "1g"
CORES = 2
# Commits and generations of a first run, which warms up Java, the Python workers and Spark's code.
# Without it everything would take twice as long.
_WARM_UP = (100_000, 400)


def print_step(step: WritingStep) -> None:
    """Print a line for a table that was written."""
    if step.seconds is not None:
        print(
            f"{step.stage:7} {step.table:20} {step.rows or 0:>11,} rows {step.seconds:8.2f} s"
            f"   load {os.getloadavg()[0]:.1f}",
            flush=True,
        )


@contextmanager
def started(engine: str) -> Iterator[Engine]:
    """Start an engine, and Spark with it if it is Spark's."""
    if engine == "local":
        yield LocalEngine()
        return
    spark = start_session(
        "bench", master=f"local[{CORES}]", settings={"spark.driver.memory": DRIVER_MEMORY}
    )
    yield SparkEngine(spark)
    spark.stop()


def measure(root: str, engine: Engine, commits: int, generations: int) -> None:
    """Write the log, build the tables and replay the history."""
    small, large = os.path.join(root, "small"), os.path.join(root, "large")
    write_histories(small, *_WARM_UP)
    size_bytes = write_histories(large, commits, generations)
    print(f"{commits:,} commits and {generations:,} generations, {size_bytes / 1e6:.0f} MB of log")
    run(engine, [small], os.path.join(root, "warm"))
    output = os.path.join(root, "tables")
    report = run(engine, [large], output, progress=print_step)
    print(
        f"bronze {report.stage_seconds(INGEST):.1f} s, everything {report.seconds:.1f} s;"
        f" silver and gold {report.stage_seconds(BUILD):.1f} s"
    )
    began = time.perf_counter()
    replayed = replay_groups(engine, Store.reading(output), "cooperative-sticky")
    print(f"replay of {replayed.num_rows} groups: {time.perf_counter() - began:.1f} s")


def main() -> int:
    """Run the benchmark and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=10_000_000)
    parser.add_argument("--generations", type=int, default=10_000)
    parser.add_argument("--engine", choices=["local", "spark"], default="spark")
    parser.add_argument("--keep", metavar="DIR", help="use this directory and keep its files")
    arguments = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with started(arguments.engine) as engine:
        if arguments.keep:
            measure(arguments.keep, engine, arguments.commits, arguments.generations)
            return 0
        with tempfile.TemporaryDirectory(prefix="coterie-bench-") as root:
            measure(root, engine, arguments.commits, arguments.generations)
    return 0


if __name__ == "__main__":
    sys.exit(main())
