"""`coterie check-client` before any program runs: the list of checks, and wrong commands."""

import json
import re

import pytest

from tests.unit.cli.command import run

PLACES = ["{bootstrap}", "{topic}", "{group}"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_list_has_each_check_once_with_sentence_and_source(protocol: str) -> None:
    result = run(None, "check-client", "--list", "--json", "--protocol", protocol)
    checks = json.loads(result.stdout)["checks"]
    names = [each["name"] for each in checks]
    assert len(names) == len(set(names)) >= 60
    for each in checks:
        assert re.fullmatch(r"[a-z]+/[A-Za-z-]+", each["name"])
        assert each["area"] == each["name"].partition("/")[0]
        assert each["sentence"].endswith(".")
        assert each["source"]


def test_only_selects_by_area_and_pattern() -> None:
    result = run(None, "check-client", "--list", "--only", "fenced", "--only", "closing/e*")
    names = [line for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert names == [
        "closing/ends",
        "fenced/stops",
        "fenced/does-not-commit",
        "fenced/stops-heartbeats",
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "Missing the command of the consumer program"),
        (["--", "consumer", "{topic}"], "The command has no {bootstrap}, {group}"),
        (["--only", "nothing", "--", "consumer", *PLACES], "no check fits"),
        (["--", "no-such-program", *PLACES], "'no-such-program' was not found"),
    ],
)
def test_wrong_command_is_exit_code_2(arguments: list[str], text: str) -> None:
    result = run(None, "check-client", *arguments)
    assert result.exit_code == 2
    assert text in result.stderr


def test_program_that_ends_at_once_is_reported_with_its_errors() -> None:
    line = "echo no module named kafka >&2; exit 3"
    result = run(None, "check-client", "--", "sh", "-c", line, *PLACES)
    assert result.exit_code == 2
    assert "ended with 3 before it connected to 127.0.0.1:" in result.stderr
    assert "no module named kafka" in result.stderr
