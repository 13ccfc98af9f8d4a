"""Engines: what runs the tasks of a job, in this process or on Spark.

Every table is made by plain functions over files, or over the rows of some groups. A job divides
its work into numbered tasks, and an engine only runs them: one after the other in this process
(`LocalEngine`), or in Spark's workers (`spark_engine.SparkEngine`). So a table has one definition,
and both engines write the same rows [pipeline/engines]. What tasks exchange is written to files
(`exchange`), which all workers must see under the same paths (ADR 23).
"""

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

R = TypeVar("R")
TasksDone = Callable[[int, int], None]
RowsRead = Callable[[int], None]

# The rows that one task brings together: 100 to 300 MB, with numpy's intermediate arrays.
_ROWS_OF_A_BUCKET = 500_000


# Receives the rows that tasks read in this process; None in the workers of Spark.
_on_rows_read: RowsRead | None = None


def note_rows_read(rows: int) -> None:
    """Count rows that a task has read, for the progress of `LocalEngine`."""
    if _on_rows_read is not None:
        _on_rows_read(rows)


class Cancelled(Exception):  # noqa: N818 - it is no error
    """The job was cancelled from another thread."""


class Engine(Protocol):
    """What runs tasks.

    Attributes:
        name: local or spark.
        on_tasks: is called with the number of completed tasks and that of all tasks of the call.
        on_rows: is called with the number of rows that tasks have read in the call, if the tasks
            run in this process.
    """

    name: str
    on_tasks: TasksDone | None
    on_rows: RowsRead | None

    def run(self, count: int, work: Callable[[int], R]) -> list[R]:
        """Run tasks and return their results, in the order of their numbers.

        A task may run more than once, so it writes only files whose names are new. Function and
        results are pickled.

        Args:
            count: the number of tasks.
            work: does the task with a number.

        Raises:
            Cancelled: `cancel` was called.
        """

    def buckets(self, rows: int) -> int:
        """Return in how many parts about this many rows are brought together by group."""

    def cancel(self) -> None:
        """End the call of `run` that is in progress in another thread, and all later ones."""


class LocalEngine:
    """Tasks one after the other in this process, with pyarrow and numpy and without Java."""

    name = "local"

    def __init__(self) -> None:
        self.on_tasks: TasksDone | None = None
        self.on_rows: RowsRead | None = None
        self._cancelled = threading.Event()

    def run(self, count: int, work: Callable[[int], R]) -> list[R]:
        """See `Engine`."""
        global _on_rows_read  # noqa: PLW0603 - readers have no engine at hand
        results = []
        _on_rows_read, before = self._count_rows(), _on_rows_read
        try:
            for number in range(count):
                if self._cancelled.is_set():
                    raise Cancelled
                if self.on_tasks is not None:
                    self.on_tasks(number, count)
                results.append(work(number))
        finally:
            _on_rows_read = before
        return results

    def _count_rows(self) -> RowsRead | None:
        """Return what counts the rows of one call and reports their number."""
        report, total = self.on_rows, 0
        if report is None:
            return None

        def count(rows: int) -> None:
            nonlocal total
            total += rows
            report(total)

        return count

    def buckets(self, rows: int) -> int:
        """See `Engine`."""
        return 1 + rows // _ROWS_OF_A_BUCKET

    def cancel(self) -> None:
        """See `Engine`."""
        self._cancelled.set()
