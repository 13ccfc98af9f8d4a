"""Wrong input gives one clear sentence."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from coterie.cli.main import main
from coterie.lab.errors import WrongInput
from coterie.lab.scenario import parse_scenario

_HEAD = 'title = "x"\nmembers = 2\npartitions = 6\n'


def failure(*arguments: str) -> str:
    """Run a command of the lab, which must fail, and return what it says."""
    result = CliRunner().invoke(main, ["lab", *arguments])
    assert result.exit_code in (1, 2), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("run", "three-and-on"), "did you mean 'three-and-one'?"),
        (("run", "missing.toml"), "can't be read"),
        (("run", "herd", "--machine", "eagr-3"), "did you mean 'eager-3'?"),
        (("run", "herd", "--members", "99999"), "members must be between 0 and 3,000"),
        (("run", "herd", "--partitions", "0"), "partitions must be between 1"),
        (("run", "herd", "--set", "poll_gap=3"), "did you mean 'poll_gap_ms'?"),
        (("run", "herd", "--set", "rate=0"), "rate must be at least 1"),
        (("run", "herd", "--set", "rate=nan"), "rate must be a number"),
        (("run", "herd", "--set", "latency_ms=nan"), "latency_ms must be at least"),
        (("run", "herd", "--set", "beat_phase=odd"), "choose one of kept"),
        (("run", "herd", "--set", "rate"), "KEY=VALUE"),
        (("run", "herd", "--trace", "t"), "exactly one --machine"),
    ],
)  # fmt: skip
def test_one_sentence(arguments: tuple[str, ...], text: str) -> None:
    output = failure(*arguments)
    assert text in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("[[script]]\ndo = 'join'", "step 1 ('join') needs 'at_s', when, in seconds after"),
        (
            "[[script]]\nat_s = 0\ndo = 'join'\ncounts = 2",
            "(did you mean 'count'?). Its keys: at_s, do; optional: jitter_s, count, every_s.",
        ),
        ("[[script]]\nat_s = 0\ndo = 'joni'", "did you mean 'join'?"),
        ("[[script]]\nat_s = 0\ndo = 'pause'", "needs 's'"),
        ("[[script]]\nat_s = 0\ndo = 'join'\ncuont = 2", "did you mean 'count'?"),
        ("[[script]]\nat_s = 'x'\ndo = 'join'", "must be a number"),
        ("script = []\nmenbers = 3", "did you mean 'members'?"),
        ("script = []\nexpect = ['unowned static < 3']", "is not of the form"),
        ("script = []\n[set]\npoll = 3", "no setting 'poll'"),
        ("script = [", "Scenario s:"),
        ("script = []\ntail_s = 0", "tail_s must be between"),
        ("script = []\ntopics = 9", "topics must be between"),
        ("script = []\n[[recorded]]\nat_s = 1", "has the keys at_s, do and pod"),
        ("script = []\n[[recorded]]\nat_s = 1\ndo = 'flap'\npod = 1", "start, stop, kill"),
        ("script = []\n[[recorded]]\nat_s = -1\ndo = 'stop'\npod = 1", "a number from 0 on"),
        ("script = []\n[[recorded]]\nat_s = 1\ndo = 'stop'\npod = 'a'", "a pod is a number"),
        ("script = []\nforming = [-1]\nrecorded = []", "a pod is a number"),
        (
            "[[script]]\nat_s = 0\ndo = 'join'\n[[recorded]]\nat_s = 1\ndo = 'stop'\npod = 1",
            "leave 'script' empty",
        ),
    ],
)
def test_wrong_scenario(body: str, text: str) -> None:
    with pytest.raises(WrongInput) as raised:
        parse_scenario("s", _HEAD + body)
    assert text in str(raised.value)
    assert str(raised.value).startswith("Scenario s: ")


def test_step_about_a_pod_that_does_not_run(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(_HEAD + "[[script]]\nat_s = 0\ndo = 'crash'\npod = 2\n")
    assert "names pod 2, which does not run then" in failure("run", str(file))


def test_run_prints_strips_and_json(tmp_path: Path) -> None:
    arguments = ["lab", "run", "three-and-one", "--machine", "cooperative"]
    text = CliRunner().invoke(main, arguments).output
    assert "cooperative: " in text
    assert "partition-seconds without a reader, 2 moves" in text
    trace = tmp_path / "trace"
    result = CliRunner().invoke(main, [*arguments, "--json", "--trace", str(trace)])
    assert '"evidence": "simulated"' in result.output
    assert "event start pod-0002" in trace.read_text()


def test_options_of_a_sweep_that_exclude_each_other() -> None:
    output = failure("sweep", "--output", "x", "--master", "local[2]", "--processes", "2")
    assert "either --processes or --master" in output
    assert "--conf needs --master" in failure("sweep", "--output", "x", "--conf", "a=b")
