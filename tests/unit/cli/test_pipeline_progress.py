"""The progress bars of a run: tables, rows, and the tasks of the current table."""

import io
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from coterie.cli.pipeline.progress import step_progress
from coterie.pipeline.engine import LocalEngine, note_rows_read
from coterie.pipeline.kafka_input import Copying
from tests.live.deadlines import eventually


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def step(number: int, rows: int | None) -> Any:
    return SimpleNamespace(stage="build", table="rebalances", number=number, total=4, rows=rows)


def shown(terminal: Terminal) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return Terminal()


@contextmanager
def standard_error(terminal: Terminal) -> Iterator[None]:
    """Replace standard error. (In a fixture pytest would replace it again before the test.)"""
    before, sys.stderr = sys.stderr, terminal
    try:
        yield
    finally:
        sys.stderr = before


def test_terminal_shows_tables_rows_and_tasks(terminal: Terminal) -> None:
    engine = LocalEngine()
    with standard_error(terminal), step_progress(shown=True) as bars:
        bars.watch(engine)
        bars.show_step(step(1, None))
        engine.run(8, lambda number: number)
        bars.show_step(step(1, 1234))
        bars.show_step(step(2, None))
    assert "build rebalances" in shown(terminal)
    assert "1,234 rows" in shown(terminal)
    assert "7/8" in shown(terminal) or "0/?" in shown(terminal)


def test_each_copied_cluster_has_a_bar(terminal: Terminal) -> None:
    with standard_error(terminal), step_progress(shown=True) as bars:
        bars.show_copying(Copying("kafka://one:9092/", 10, 40, 7))
        bars.show_copying(Copying("kafka://two:9092", 0, 5, 0))
        bars.show_copying(Copying("kafka://one:9092/", 40, 40, 1234))
    for what in ("copy one:9092", "copy two:9092", "40/40", "1,234 records", "0/5"):
        assert what in shown(terminal)


def test_terminal_shows_rows_of_a_task_that_reads_for_long(terminal: Terminal) -> None:
    """A small log is one task, which stood at 0/1 for most of a run."""
    engine = LocalEngine()

    def work(_: int) -> None:
        for rows in ("500,000", "1,000,000"):
            note_rows_read(500_000)
            # The bars are drawn by a thread, some times a second.
            eventually(lambda: f"{rows} rows read" in shown(terminal), f"{rows} rows")  # noqa: B023 - called within the iteration

    with standard_error(terminal), step_progress(shown=True) as bars:
        bars.watch(engine)
        bars.show_step(step(1, None))
        engine.run(1, work)
    assert "0/1 task, " in " ".join(shown(terminal).split())


def test_pipe_gets_a_line_every_few_seconds(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    engine = LocalEngine()

    def work(_: int) -> None:
        nonlocal now_s
        for _ in range(7):
            now_s += 1
            note_rows_read(1_000)

    with standard_error(terminal), step_progress(shown=True) as lines:
        lines.watch(engine)
        lines.show_copying(Copying("kafka://one:9092", 10, 40, 7))
        now_s += 6
        lines.show_copying(Copying("kafka://one:9092", 20, 40, 9))
        lines.show_step(step(3, None))
        engine.run(2, work)
    assert shown(terminal).splitlines() == [
        "6 s: copy kafka://one:9092, 20 of 40 offsets, 9 records",
        "11 s: build rebalances, 0 of 2 tasks, 5,000 rows read, 2 of 4 tables",
        "16 s: build rebalances, 1 of 2 tasks, 10,000 rows read, 2 of 4 tables",
    ]


def test_nothing_is_shown_beside_json(terminal: Terminal) -> None:
    with standard_error(terminal), step_progress(shown=False) as bars:
        bars.show_step(step(1, 7))
        bars.show_copying(Copying("kafka://one:9092", 10, 40, 7))
    assert terminal.getvalue() == ""
