"""A broker that stops while it is checked: the run ends, and the report says after what."""

import itertools
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest
from click.testing import CliRunner, Result

from coterie.cli.main import main
from coterie.conformance.checks.runner import CheckOutcome
from coterie.conformance.checks.text import Board
from coterie.conformance.over_tcp import diagnosis
from coterie.processes import Child
from tests.live.broker_process import BrokerProcess

# Many checks; a few that end the broker, and what follows it if nothing stops the run.
ONLY = ("metadata", "operations", "topics", "configs", "frames")
# Results of a run of some hundred quick checks, when the broker gets the signal.
QUICK = ("metadata", "init_producer_id", "produce")
SIGNALLED_AFTER = 100


def check(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments])


def words_of(patterns: tuple[str, ...]) -> list[str]:
    return [word for each in patterns for word in ("--only", each)]


def bad_rows(data: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [row for row in data["checks"] if row["status"] in ("deviates", "fails")]
    return [(row["name"], row["reason"]) for row in rows]


@contextmanager
def dying_broker(log: Path) -> Iterator[str]:
    child = Child("broker", [sys.executable, "-m", "tests.conformance.dying_broker"], log)
    try:
        yield child.wait_for_line(r"127\.0\.0\.1:\d+")[0].strip()
    finally:
        child.kill()


def test_report_names_the_request_at_which_the_broker_stopped(tmp_path: Path) -> None:
    junit, page = tmp_path / "junit.xml", tmp_path / "page.html"
    with dying_broker(tmp_path / "output") as address:
        result = check(
            address,
            *words_of(ONLY),
            "--parallel",
            "4",
            "--json",
            "--junit",
            str(junit),
            "--html",
            str(page),
        )
    assert result.exit_code == 3, result.output
    data = json.loads(result.stdout)
    stopped = data["stopped"]
    carried_out = data["counts"]["pass"] + data["counts"]["deviates"] + data["counts"]["fails"]
    assert stopped["checks"] == carried_out > 0
    assert stopped["sentence"] == f"The broker stopped listening after {carried_out} checks."
    assert any(
        ": ElectLeaders" in line or "> ElectLeaders" in line for line in stopped["last_sent"]
    )
    # What follows is no finding.
    assert not bad_rows(data)
    reasons = {row["reason"] for row in data["checks"]}
    assert "not run: the broker stopped listening" in reasons
    assert "not judged: the broker stopped listening meanwhile" in reasons
    suite = fromstring(junit.read_text(encoding="utf-8"))
    (error,) = suite.iter("error")
    assert (suite.get("errors"), error.get("message")) == ("1", stopped["sentence"])
    assert stopped["sentence"] in page.read_text(encoding="utf-8")


def test_single_check_that_ends_the_broker_is_named_in_the_text(tmp_path: Path) -> None:
    with dying_broker(tmp_path / "output") as address:
        result = check(address, "--only", "operations/election_not_needed/v2")
    assert result.exit_code == 3, result.output
    assert "The broker stopped listening after 0 checks." in result.stdout
    assert "operations/election_not_needed/v2  c1> ElectLeaders v2" in result.stdout


def test_run_without_the_check_that_ends_the_broker_goes_to_its_end(tmp_path: Path) -> None:
    with dying_broker(tmp_path / "output") as address:
        result = check(address, "--only", "operations", "--except", "ElectLeaders", "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["stopped"] is None
    assert not [row["name"] for row in data["checks"] if row["api"] == "ElectLeaders"]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data", {})
    process.start()
    yield process
    process.kill()


@pytest.mark.parametrize(
    ("number", "what"), [(signal.SIGKILL, "listening"), (signal.SIGSTOP, "answering")]
)
def test_broker_that_is_killed_or_hangs_ends_the_run(
    number: signal.Signals, what: str, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Shorter for a quick test, but longer than a broker of a busy machine takes to answer.
    monkeypatch.setattr(diagnosis, "ANSWER_LIMIT_S", 5.0)
    results = itertools.count(1)
    add = Board.add

    def add_and_signal(board: Board, outcome: CheckOutcome) -> None:
        add(board, outcome)
        if next(results) == SIGNALLED_AFTER:
            os.kill(broker.pid, number)

    monkeypatch.setattr(Board, "add", add_and_signal)
    result = check(broker.bootstrap, *words_of(QUICK), "--parallel", "10", "--json")
    assert result.exit_code == 3, result.output
    data = json.loads(result.stdout)
    checks = data["stopped"]["checks"]
    assert data["stopped"]["sentence"] == f"The broker stopped {what} after {checks} checks."
    assert checks == data["counts"]["pass"] > SIGNALLED_AFTER / 2
    assert not bad_rows(data)
