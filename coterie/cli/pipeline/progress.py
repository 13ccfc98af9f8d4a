"""The progress of `coterie pipeline run`, on standard error: bars on a terminal, else lines.

There is a bar for the tables of the run and one for the tasks of the current table. The number of
tasks comes from the engine; the time left is worked out from it, because tasks are of
similar size and tables are not. A small log is a single task, so the rows that it has read are
counted beside its bar. A cluster that is copied has a bar in offsets of its logs.

Into a pipe or a file a line is written every few seconds.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from coterie.cli.output import note, printable
from coterie.client.names import counted

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from coterie.pipeline.engine import Engine
    from coterie.pipeline.jobs.job import WritingStep
    from coterie.pipeline.kafka_input import Copying


# The time between two lines: a log of a scheduled run stays short, and a reader sees that it moves.
_LINE_EVERY_S = 5.0


class RunProgress:
    """Receives the progress of a run; this class ignores it."""

    def show_step(self, step: "WritingStep") -> None:
        """A table is begun or written."""

    def show_copying(self, copying: "Copying") -> None:
        """A part of a cluster is copied."""

    def show_tasks(self, done: int, total: int) -> None:
        """Some tasks of the current table are done."""

    def show_rows(self, rows: int) -> None:
        """Tasks of the current table have read this many rows."""

    def watch(self, engine: "Engine") -> None:
        """Show the progress of an engine's tasks."""
        engine.on_tasks = self.show_tasks
        engine.on_rows = self.show_rows


@contextmanager
def step_progress(*, shown: bool) -> Iterator[RunProgress]:
    """Show the progress of a run.

    Args:
        shown: False for no progress.

    Yields:
        The receiver of the progress.
    """
    if not shown:
        yield RunProgress()
        return
    if not sys.stderr.isatty():
        yield _Lines()
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


class _Lines(RunProgress):
    """Lines with the time since the beginning, what is done now, and how far."""

    def __init__(self) -> None:
        self._began_s = self._written_s = time.monotonic()
        self._step = ""
        self._tables = ""
        self._tasks = ""

    def show_step(self, step: "WritingStep") -> None:
        self._step, self._tasks = f"{step.stage} {printable(step.table)}", ""
        done = step.number - (step.rows is None)
        self._tables = f", {done} of {step.total} tables"
        self._write()

    def show_copying(self, copying: "Copying") -> None:
        self._step = f"copy {printable(copying.source)}"
        self._tasks = f", {copying.done:,} of {copying.total:,} offsets, {copying.rows:,} records"
        self._write()

    def show_tasks(self, done: int, total: int) -> None:
        self._tasks = f", {done:,} of {total:,} tasks" if total > 1 else ""
        self._write()

    def show_rows(self, rows: int) -> None:
        self._write(f", {counted(rows, 'row')} read")

    def _write(self, rows: str = "") -> None:
        now_s = time.monotonic()
        if now_s - self._written_s >= _LINE_EVERY_S:
            self._written_s = now_s
            note(f"{now_s - self._began_s:.0f} s: {self._step}{self._tasks}{rows}{self._tables}")


class _Bars(RunProgress):
    def __init__(self, bars: "Bars") -> None:
        self._bars = bars
        self._rows = 0
        self._tables = bars.add_task("tables", total=None, what="tables")
        self._table = bars.add_task("", total=None, what="tasks", visible=False)
        self._copies: dict[str, TaskID] = {}

    def show_step(self, step: "WritingStep") -> None:
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
        self._bars.update(self._table, total=total, completed=done, what=_tasks_text(total))

    def show_rows(self, rows: int) -> None:
        task = next(each for each in self._bars.tasks if each.id == self._table)
        what = f"{_tasks_text(task.total)}, {counted(rows, 'row')} read"
        self._bars.update(self._table, what=what)


def _tasks_text(total: float | None) -> str:
    return "task" if total == 1 else "tasks"
