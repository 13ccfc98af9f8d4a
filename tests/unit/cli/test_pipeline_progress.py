"""The progress bars of a run: tables, rows, and the tasks of the current table."""

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from coterie.cli.pipeline.progress import step_progress
from coterie.pipeline.engine import LocalEngine
from coterie.pipeline.kafka_input import Copying


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


@pytest.mark.parametrize("is_shown", [True, False])
def test_pipe_shows_nothing(
    is_shown: bool, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_shown:
        monkeypatch.setattr(terminal, "isatty", lambda: False)
    with standard_error(terminal), step_progress(shown=is_shown) as bars:
        bars.show_step(step(1, 7))
        bars.show_copying(Copying("kafka://one:9092", 10, 40, 7))
    assert terminal.getvalue() == ""
