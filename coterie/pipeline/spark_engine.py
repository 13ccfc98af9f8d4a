"""The engine that runs tasks in Spark's workers.

Spark distributes the numbers of the tasks and repeats tasks that fail. No row of a table becomes a
row of Spark, which would cost several times as much as the work itself (ADR 23).
"""

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from coterie.pipeline.engine import Cancelled, LocalEngine, RowsRead, TasksDone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

R = TypeVar("R")

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_RESULTS = pa.schema([("number", pa.int64()), ("result", pa.binary())])
_RESULTS_DDL = "number bigint, result binary"
_POLL_INTERVAL_S = 0.5


class SparkEngine:
    """Tasks in the workers of a session of `coterie.pipeline.session`."""

    name = "spark"

    def __init__(self, spark: "SparkSession") -> None:
        self.spark = spark
        self.on_tasks: TasksDone | None = None
        # The workers do not report rows.
        self.on_rows: RowsRead | None = None
        self._cancelled = threading.Event()

    def run(self, count: int, work: Callable[[int], R]) -> list[R]:
        """See `Engine`."""
        if self._cancelled.is_set():
            raise Cancelled
        if not count:
            return []

        def do(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    result = pickle.dumps(work(number), pickle.HIGHEST_PROTOCOL)
                    yield pa.RecordBatch.from_pydict(
                        {"number": [number], "result": [result]}, schema=_RESULTS
                    )

        # One row in each of as many partitions as there are tasks: Spark starts a Python task for
        # each row, and the row is the task's number.
        numbers = self.spark.range(0, count, 1, count)
        ended = threading.Event()
        polling = threading.Thread(target=self._report_tasks, args=(ended,), daemon=True)
        polling.start()
        try:
            rows = numbers.mapInArrow(do, _RESULTS_DDL).collect()
        except Exception:
            if self._cancelled.is_set():
                raise Cancelled from None
            raise
        finally:
            ended.set()
            polling.join()
        by_number = {row["number"]: row["result"] for row in rows}
        # The bytes come from our own workers.
        return [pickle.loads(by_number[number]) for number in range(count)]  # noqa: S301

    def buckets(self, rows: int) -> int:
        """See `Engine`; at least one for each core, or as many as the user has set."""
        least = int(self.spark.conf.get(SHUFFLE_PARTITIONS) or 1)
        return max(least, LocalEngine().buckets(rows))

    def cancel(self) -> None:
        """See `Engine`."""
        self._cancelled.set()
        self.spark.sparkContext.cancelAllJobs()

    def _report_tasks(self, ended: threading.Event) -> None:
        while not ended.wait(_POLL_INTERVAL_S):
            if self.on_tasks is None:
                continue
            try:
                done, total = _tasks(self.spark.sparkContext.statusTracker())
            except Exception:  # noqa: BLE001 - a remote session has no tracker: no progress
                return
            if total:
                self.on_tasks(done, total)


def _tasks(tracker: Any) -> tuple[int, int]:
    """Return the completed tasks and all tasks of the stages that run now."""
    done = total = 0
    for stage_id in tracker.getActiveStageIds():
        stage = tracker.getStageInfo(stage_id)
        if stage is not None:
            done += stage.numCompletedTasks
            total += stage.numTasks
    return done, total
