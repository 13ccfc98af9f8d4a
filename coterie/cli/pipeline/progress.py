"""Progress bars of `coterie pipeline run`, on standard error; only on a terminal.

There is a bar for the tables of the run and one for the tasks of the current table. The number of
tasks comes from the engine; the time left is worked out from it, because tasks are of
similar size and tables are not. A cluster that is copied has a bar in offsets of its logs.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from coterie.cli.output import printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from coterie.pipeline.engine import Engine
    from coterie.pipeline.jobs.job import Step
    from coterie.pipeline.kafka_input import Copying


class RunProgress:
    """Receives the progress of a run; this class ignores it."""

    def show_step(self, step: "Step") -> None:
        """A table is begun or written."""

    def show_copying(self, copying: "Copying") -> None:
        """A part of a cluster is copied."""

    def show_tasks(self, done: int, total: int) -> None:
        """Some tasks of the current table are done."""

    def watch(self, engine: "Engine") -> None:
        """Show the progress of an engine's tasks."""
        engine.on_tasks = self.show_tasks


@contextmanager
def step_progress(*, shown: bool) -> Iterator[RunProgress]:
    """Show progress bars for a run.

    Args:
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
        yield _Bars(bars)


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
