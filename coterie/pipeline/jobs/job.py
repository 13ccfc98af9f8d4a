"""The writing of tables in one run: its steps, their progress, and the commit at the end."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

from coterie.pipeline.engine import Engine
from coterie.pipeline.part_files import PartFiles, keep_finished
from coterie.pipeline.store import Positions, Store, topic_names_in

INGEST, BUILD = "ingest", "build"


class WritingStep(NamedTuple):
    """The writing of one table.

    Attributes:
        stage: ingest or build.
        table: its name.
        number, total: the number of the step, and the number of steps of the run.
        rows, size_bytes, seconds: the result; None while the table is being written. Tables that
            are written at the same time have their time in the first of them, the others have 0.
    """

    stage: str
    table: str
    number: int
    total: int
    rows: int | None = None
    size_bytes: int | None = None
    seconds: float | None = None


Progress = Callable[[WritingStep], None]


class RunReport(NamedTuple):
    """The result of a run.

    Attributes:
        number: the run's number; None if there was nothing to do.
        steps: the tables that were written, in order.
        warnings: messages about the inputs.
        seconds: the duration of the whole run.
        input_bytes: about how much log was read.
    """

    number: int | None
    steps: list[WritingStep]
    warnings: list[str]
    seconds: float
    input_bytes: int = 0

    def rows(self, stage: str) -> int:
        """Return the number of rows written in a stage."""
        return sum(step.rows or 0 for step in self.steps if step.stage == stage)

    def stage_seconds(self, stage: str) -> float:
        """Return the time spent on a stage."""
        return sum(step.seconds or 0.0 for step in self.steps if step.stage == stage)


class Output:
    """The directories of tables that are being written.

    Attributes:
        directories: by table.
    """

    def __init__(self, directories: dict[str, str]) -> None:
        self.directories = directories

    def finish(self, finished: Iterable[Iterable[str]]) -> None:
        """Keep only the files that counting tasks have written (`PartFiles.close`)."""
        keep_finished(self.directories, finished)


class Job:
    """The writing of tables in one run, step by step.

    Attributes:
        engine, store: as given.
        scratch: a directory for files that tasks pass to other tasks.
        steps: the tables that were written so far.
        options: values that the manifest stores with the run.
        labels: by input the label of its groups [pipeline/input-identity].
        topic_names: names by topic id, as far as the inputs record them.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store,
        scratch: str,
        progress: Progress | None = None,
        about: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Begin.

        Args:
            engine: runs the tasks.
            store: the output directory, open for writing.
            scratch: an existing directory (`Store.scratch`).
            progress: is called when a step begins and when it ends.
            about: what the manifest will store about inputs; see `jobs.inputs.Plan`.
        """
        self.engine = engine
        self.store = store
        self.scratch = scratch
        self._about = dict(about or {})
        new = {source: stored.get("label", "") for source, stored in self._about.items()}
        self.labels: dict[str, str] = store.labels | new
        self.topic_names = store.topic_names | topic_names_in(self._about.values())
        self.steps: list[WritingStep] = []
        self.options: dict[str, Any] = {}
        self._progress = progress
        self._planned = 0
        self._began = time.monotonic()

    def expect(self, tables: int) -> None:
        """Announce that this many more tables will be written."""
        self._planned += tables

    @contextmanager
    def writing(
        self, stage: str, tables: Iterable[str], *, replace: bool = False
    ) -> Iterator[Output]:
        """Write a part of each of some tables at the same time, in a block.

        The time of a step begins where the step before has ended.
        """
        tables = list(tables)
        first = len(self.steps) + 1
        total = max(self._planned, first + len(tables) - 1)
        if tables:
            self._report(WritingStep(stage, tables[0], first, total))
        with self.store.new_parts(tables, replace=replace) as directories:
            yield Output(directories)
        now = time.monotonic()
        seconds, self._began = now - self._began, now
        for number, table in enumerate(tables, first):
            part = self.store.written(table)
            step = WritingStep(stage, table, number, total, part["rows"], part["bytes"], seconds)
            self.steps.append(step)
            self._report(step)
            seconds = 0.0

    def write_files(
        self,
        stage: str,
        tables: Iterable[str],
        count: int,
        work: Callable[[int, PartFiles], None],
    ) -> None:
        """Let tasks write a part of each of some tables at the same time."""
        with self.writing(stage, tables) as output:
            directories = output.directories

            def write(number: int) -> list[str]:
                files = PartFiles(directories)
                work(number, files)
                return files.close()

            output.finish(self.engine.run(count, write))

    def finish(
        self,
        positions: Positions | None = None,
        *,
        warnings: list[str] | None = None,
        seconds: float | None = None,
        input_bytes: int = 0,
    ) -> RunReport:
        """Commit what was written; if nothing was written, nothing changes."""
        seconds = sum(step.seconds or 0.0 for step in self.steps) if seconds is None else seconds
        report = RunReport(None, self.steps, warnings or [], seconds, input_bytes)
        if not self.store.has_written:
            return report
        number = self.store.next_run
        entry = {
            "run": number,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(seconds, 3),
            "engine": self.engine.name,
            "input_bytes": input_bytes,
            "options": self.options,
            "tables": {
                step.table: {
                    "rows": step.rows,
                    "bytes": step.size_bytes,
                    "seconds": round(step.seconds or 0.0, 3),
                }
                for step in self.steps
            },
        }
        self.store.commit(positions or {}, entry, self._about)
        return report._replace(number=number)

    def _report(self, step: WritingStep) -> None:
        if self._progress is not None:
            self._progress(step)
