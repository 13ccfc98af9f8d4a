"""What a run is at, on standard error; only on a terminal.

Two bars: the tables of the run, and the tasks of the one that is written now, which Spark is asked
for twice a second. The second has the time left: tasks are about equal, tables are not. While a
cluster is copied there is one for that, in offsets of its logs.
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

_ASK_EVERY_S = 0.5


class Told:
    """Who is told what a run is at; this one does nothing with it."""

    def tell(self, step: "Step") -> None:
        """A table is begun, or is written."""

    def copied(self, copying: "Copying") -> None:
        """A cluster has been copied so far."""


@contextmanager
def step_progress(spark: "SparkSession", *, wanted: bool) -> Iterator[Told]:
    """Bars for a run.

    Args:
        spark: the session that does the work.
        wanted: nothing is shown if not, or if standard error is no terminal.

    Yields:
        Who is to be told.
    """
    if not wanted or not sys.stderr.isatty():
        yield Told()
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
        shown = _Shown(bars)
        stop = threading.Event()
        asking = threading.Thread(target=_ask, args=(spark, shown, stop), daemon=True)
        asking.start()
        try:
            yield shown
        finally:
            stop.set()
            asking.join()


class _Shown(Told):
    def __init__(self, bars: "Bars") -> None:
        self._bars = bars
        self._rows = 0
        self._all = bars.add_task("tables", total=None, what="tables")
        self._one = bars.add_task("", total=None, what="tasks", visible=False)
        self._copies: dict[str, TaskID] = {}

    def tell(self, step: "Step") -> None:
        """Show it."""
        if step.rows is None:
            self._bars.update(self._all, total=step.total, completed=step.number - 1)
            self._bars.reset(
                self._one,
                total=None,
                visible=True,
                description=f"{step.stage} {printable(step.table)}",
                what="tasks",
            )
            return
        self._rows += step.rows
        self._bars.update(self._all, completed=step.number, what=f"tables, {self._rows:,} rows")

    def copied(self, copying: "Copying") -> None:
        """Show it."""
        if copying.source not in self._copies:
            # In full it would leave no room for the bar.
            title = f"copy {printable(copying.source.rstrip('/').rpartition('/')[2])}"
            self._copies[copying.source] = self._bars.add_task(title, total=None, what="")
        self._bars.update(
            self._copies[copying.source],
            total=copying.total,
            completed=copying.done,
            what=f"offsets, {copying.rows:,} records",
        )

    def tasks(self, done: int, total: int) -> None:
        """Show how far the table that is written now has come."""
        self._bars.update(self._one, total=total, completed=done)


def _ask(spark: "SparkSession", shown: _Shown, stop: threading.Event) -> None:
    while not stop.wait(_ASK_EVERY_S):
        try:
            done, total = _tasks(spark.sparkContext.statusTracker())
        except Exception:  # noqa: BLE001 - a remote session has no such thing; the bar goes without
            return
        if total:
            shown.tasks(done, total)


def _tasks(tracker: Any) -> tuple[int, int]:
    """Tasks done and tasks in all of the stages that run now."""
    done = total = 0
    for stage_id in tracker.getActiveStageIds():
        stage = tracker.getStageInfo(stage_id)
        if stage is not None:
            done += stage.numCompletedTasks
            total += stage.numTasks
    return done, total
