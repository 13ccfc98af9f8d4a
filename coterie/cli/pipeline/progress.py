"""Progress bars of `coterie pipeline run`, on standard error; only on a terminal.

There is a bar for the tables of the run and one for the tasks of the current table. The number of
tasks comes from Spark, twice a second; the time left is worked out from it, because tasks are of
similar size and tables are not. A cluster that is copied has a bar in offsets of its logs.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from coterie.cli.output import printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from coterie.pipeline.jobs.run import Step
    from coterie.pipeline.kafka_input import Copying

_POLL_INTERVAL_S = 0.5


class RunProgress:
    """Receives the progress of a run; this class ignores it."""

    def show_step(self, step: "Step") -> None:
        """A table is begun or written."""

    def show_copying(self, copying: "Copying") -> None:
        """A part of a cluster is copied."""


@contextmanager
def step_progress(spark: "SparkSession", *, shown: bool) -> Iterator[RunProgress]:
    """Show progress bars for a run.

    Args:
        spark: the session of the run.
        shown: False for no bars; there are none either if standard error is not a terminal.

    Yields:
        The receiver of the progress.
    """
    if not shown or not sys.stderr.isatty():
        yield RunProgress()
        return
    # Imported only for a terminal, as in `output`.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TextColumn("{task.fields[what]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        progress = _Bars(bars)
        stop = threading.Event()
        polling = threading.Thread(target=_poll_tasks, args=(spark, progress, stop), daemon=True)
        polling.start()
        try:
            yield progress
        finally:
            stop.set()
            polling.join()


class _Bars(RunProgress):
    def __init__(self, bars: "Bars") -> None:
        self._bars = bars
        self._rows = 0
        self._tables = bars.add_task("tables", total=None, what="tables")
        self._table = bars.add_task("", total=None, what="tasks", visible=False)
        self._copies: dict[str, TaskID] = {}

    def show_step(self, step: "Step") -> None:
        if step.rows is None:
            self._bars.update(self._tables, total=step.total, completed=step.number - 1)
            self._bars.reset(
                self._table,
                total=None,
                visible=True,
                description=f"{step.stage} {printable(step.table)}",
                what="tasks",
            )
            return
        self._rows += step.rows
        self._bars.update(self._tables, completed=step.number, what=f"tables, {self._rows:,} rows")

    def show_copying(self, copying: "Copying") -> None:
        if copying.source not in self._copies:
            # Without the scheme: the full URL would leave no room for the bar.
            title = f"copy {printable(copying.source.rstrip('/').rpartition('/')[2])}"
            self._copies[copying.source] = self._bars.add_task(title, total=None, what="")
        self._bars.update(
            self._copies[copying.source],
            total=copying.total,
            completed=copying.done,
            what=f"offsets, {copying.rows:,} records",
        )

    def show_tasks(self, done: int, total: int) -> None:
        """Show the progress of the current table."""
        self._bars.update(self._table, total=total, completed=done)


def _poll_tasks(spark: "SparkSession", bars: _Bars, stop: threading.Event) -> None:
    while not stop.wait(_POLL_INTERVAL_S):
        try:
            done, total = _tasks(spark.sparkContext.statusTracker())
        except Exception:  # noqa: BLE001 - a remote session has no tracker: the bar shows no tasks
            return
        if total:
            bars.show_tasks(done, total)


def _tasks(tracker: Any) -> tuple[int, int]:
    """Return the completed tasks and all tasks of the stages that run now."""
    done = total = 0
    for stage_id in tracker.getActiveStageIds():
        stage = tracker.getStageInfo(stage_id)
        if stage is not None:
            done += stage.numCompletedTasks
            total += stage.numTasks
    return done, total
