"""The bars of a run: on a terminal only, with tables, rows and the tasks of the one under way."""

import io
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from coterie.cli import pipeline_progress
from coterie.cli.pipeline_progress import step_progress
from coterie.pipeline.kafka_input import Copying


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Tracker:
    """Two stages run; the second one has no more to say."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 - Spark's name
        return [1, 2]

    def getStageInfo(self, stage_id: int) -> Any:  # noqa: N802
        self.asked.set()
        return SimpleNamespace(numCompletedTasks=3, numTasks=8) if stage_id == 1 else None


def step(number: int, rows: int | None) -> Any:
    return SimpleNamespace(stage="build", table="rebalances", number=number, total=4, rows=rows)


def spark_with(tracker: Any) -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))


def shown(terminal: Terminal) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setattr(pipeline_progress, "_ASK_EVERY_S", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return Terminal()


@contextmanager
def standard_error(terminal: Terminal) -> Iterator[None]:
    """Not in the fixture: pytest puts its own in place again before the test."""
    before, sys.stderr = sys.stderr, terminal
    try:
        yield
    finally:
        sys.stderr = before


def test_a_terminal_sees_tables_rows_and_tasks(terminal: Terminal) -> None:
    tracker = Tracker()
    with standard_error(terminal), step_progress(spark_with(tracker), wanted=True) as told:
        told.tell(step(1, None))
        assert tracker.asked.wait(5)
        told.tell(step(1, 1234))
        told.tell(step(2, None))
    assert "build rebalances" in shown(terminal)
    assert "1,234 rows" in shown(terminal)
    assert "3/8" in shown(terminal) or "0/?" in shown(terminal)


def test_a_session_that_can_not_be_asked_has_bars_too(terminal: Terminal) -> None:
    with standard_error(terminal), step_progress(SimpleNamespace(), wanted=True) as told:  # type: ignore[arg-type]
        told.tell(step(1, None))
        told.tell(step(1, 5))
    assert "5 rows" in shown(terminal)


def test_the_copying_of_clusters_has_a_bar_each(terminal: Terminal) -> None:
    with standard_error(terminal), step_progress(SimpleNamespace(), wanted=True) as told:  # type: ignore[arg-type]
        told.copied(Copying("kafka://one:9092/", 10, 40, 7))
        told.copied(Copying("kafka://two:9092", 0, 5, 0))
        told.copied(Copying("kafka://one:9092/", 40, 40, 1234))
    for what in ("copy one:9092", "copy two:9092", "40/40", "1,234 records", "0/5"):
        assert what in shown(terminal)


@pytest.mark.parametrize("wanted", [True, False])
def test_a_pipe_sees_nothing(
    wanted: bool, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    if wanted:
        monkeypatch.setattr(terminal, "isatty", lambda: False)
    with standard_error(terminal), step_progress(SimpleNamespace(), wanted=wanted) as told:  # type: ignore[arg-type]
        told.tell(step(1, 7))
        told.copied(Copying("kafka://one:9092", 10, 40, 7))
    assert terminal.getvalue() == ""
