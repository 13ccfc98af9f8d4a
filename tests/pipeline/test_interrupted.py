"""A run that is interrupted leaves no process, whatever it was doing.

`python -m tests.pipeline.interrupted` does it at twenty moments.
"""

import signal
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pip install coterie[pipeline]")

from tests.pipeline.interrupted import GONE_WITHIN_S, Run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.usefixtures("java")]


@pytest.mark.parametrize(
    ("number", "code", "after_s"), [(signal.SIGINT, 130, 0.0), (signal.SIGTERM, 143, 1.0)]
)
def test_interrupted_run_ends_the_jvm_that_is_starting(
    tmp_path: Path, number: signal.Signals, code: int, after_s: float
) -> None:
    run = Run(tmp_path)
    run.wait_for_jvm()
    time.sleep(after_s)
    ended = run.end(number)
    assert (ended.code, ended.remaining) == (code, []), ended.errors
    assert run.leftovers() == []
    assert "Traceback" not in ended.errors


def test_jvm_of_a_killed_run_ends_itself(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.wait_for_jvm()
    ended = run.end(signal.SIGKILL)
    assert ended.remaining == []


def test_local_run_is_interrupted_with_the_exit_code_of_a_signal(tmp_path: Path) -> None:
    run = Run(tmp_path, engine="local")
    deadline_s = time.monotonic() + GONE_WITHIN_S
    while not (run.temporary / "out" / ".lock").exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)
    ended = run.end(signal.SIGINT)
    assert ended.code == 130, ended.errors
    assert "Traceback" not in ended.errors
    assert "Interrupted" in ended.errors
