"""`make demo`: it performs, in time, and it can fail."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from demo.member_process import ROOT
from tests.live.libraries import NAMES

# The promise of `make demo`.
LIMIT_S = 30


def demo(*options: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end, without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "demo", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_the_demo_performs() -> None:
    """All three libraries take part, one joins, one leaves, one is killed, every record is read."""
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
        (["--bootstrap", "127.0.0.1:1"], "no broker answers at 127.0.0.1:1"),
        (["--server", "/nowhere/coterie"], "cannot start /nowhere/coterie"),
        (["--server", sys.executable], "the server ended with code 2"),
    ],
    ids=["no-broker", "no-program", "wrong-program"],
)
def test_the_demo_says_why_it_cannot(options: list[str], reason: str) -> None:
    """Trouble at the start is one message with cause and remedy, and an exit code."""
    done = demo(*options)
    assert done.returncode == 1
    assert reason in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_the_verdict_is_not_always_good() -> None:
    """A record nobody read, a producer that failed, or no record at all: that is not well."""
    from demo.story import judged  # the clients it imports warn where pytest would not bear it

    stored = {(0, 0), (0, 1), (1, 0)}
    assert judged(stored, Counter(stored), [])[0]
    assert judged(stored, Counter([*stored, (0, 0)]), [])[0]
    assert not judged(stored, Counter({(0, 0), (0, 1)}), [])[0]
    assert not judged(stored, Counter(stored), ["timed out"])[0]
    assert not judged(set(), Counter(), [])[0]
