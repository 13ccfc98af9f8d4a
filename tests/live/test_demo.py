"""`make demo`: it succeeds within its time limit, and it reports failures."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.live.libraries import NAMES

ROOT = Path(__file__).resolve().parents[2]

# The demo takes some 15 s, 30 s on a machine at load 20.
LIMIT_S = 120


def demo(*options: str) -> subprocess.CompletedProcess[str]:
    """Run the demo to its end, without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "demo", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_demo_succeeds() -> None:
    """Three libraries take part; a member joins, leaves, is killed; every record is read."""
    bootstrap = os.environ.get("COTERIE_TEST_BOOTSTRAP")
    program = os.environ.get("COTERIE_TEST_COMMAND")
    options = ["--bootstrap", bootstrap] if bootstrap else []
    options += ["--server", program] if program else []
    done = demo(*options)
    assert done.returncode == 0, done.stdout + done.stderr
    for library in NAMES:
        assert f"{library}-1 gets" in done.stdout
    assert "leaves (SIGTERM)" in done.stdout
    assert "is killed (SIGKILL)" in done.stdout
    assert "0 not read" in done.stdout


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--bootstrap", "127.0.0.1:1"], "no broker responds at 127.0.0.1:1"),
        (["--server", "/nowhere/coterie"], "/nowhere/coterie can't be started"),
        (["--server", sys.executable], "The broker ended with exit code 2"),
    ],
    ids=["no-broker", "no-program", "wrong-program"],
)
def test_failed_start_is_reported(options: list[str], reason: str) -> None:
    """A failure at the start is one message with cause and remedy, and exit code 1."""
    done = demo(*options)
    assert done.returncode == 1
    assert reason in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_unread_and_failed_records_are_failures() -> None:
    """The demo fails if a record was not read, the producer failed, or nothing was stored."""
    # Imported here, because kafka-python warns on import, which is an error in pytest.
    from demo.scenario import summary

    stored = {(0, 0), (0, 1), (1, 0)}
    assert summary(stored, Counter(stored), [])[0]
    assert summary(stored, Counter([*stored, (0, 0)]), [])[0]
    assert not summary(stored, Counter({(0, 0), (0, 1)}), [])[0]
    assert not summary(stored, Counter(stored), ["timed out"])[0]
    assert not summary(set(), Counter(), [])[0]
