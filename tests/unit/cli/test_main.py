"""The command line as a whole: options, exit codes, colours, and what each command imports."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.cli.main import COMMANDS, main
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.list_groups import ListGroupsResponse, ListGroupsResponseGroup
from tests.unit.cli.command import run
from tests.unit.client.fake_broker import SILENCE, FakeBroker

ROOT = Path(__file__).parents[3]
GROUPS = ListGroupsResponse(
    error_code=0,
    groups=[ListGroupsResponseGroup(group_id="g", protocol_type="", group_state="Stable")],
)


def imported_by(code: str) -> set[str]:
    """Return the modules that a new interpreter has imported after running some code."""
    code += "\nimport sys; print('\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


def test_help_imports_no_command() -> None:
    """Otherwise `coterie serve` would start more slowly."""
    modules = imported_by(
        "from coterie.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    )
    assert "coterie.cli.main" in modules
    unwanted = {
        m
        for m in modules
        if m.startswith(("coterie.client", "coterie.protocol", "rich", "asyncio"))
    }
    assert not unwanted
    assert not {f"coterie.cli.{name}" for name in COMMANDS} & modules


@pytest.mark.parametrize("command", ["groups", "topics"])
def test_admin_commands_import_neither_server_nor_rich(command: str) -> None:
    modules = imported_by(f"import coterie.cli.{command}")
    assert not {m for m in modules if m.startswith(("rich", "asyncio", "coterie.server", "uvloop"))}


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"serve"}))
def test_every_command_has_help(name: str) -> None:
    result = run(None, name, "--help")
    assert result.exit_code == 0
    assert "Usage: coterie" in result.stdout


def test_unknown_command_is_a_usage_error() -> None:
    assert run(None, "gruops").exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["groups", "--bootstrap-server", "{}", "list"],
        ["groups", "list", "--bootstrap-server", "{}"],
        ["groups", "--bootstrap-server", "127.0.0.1:1", "list", "--bootstrap-server", "{}"],
    ],
    ids=["before", "after", "the-later-one-counts"],
)
def test_broker_can_be_named_before_or_after_the_subcommand(arguments: list[str]) -> None:
    with FakeBroker({ApiKey.LIST_GROUPS: GROUPS}) as broker:
        result = run(None, *(a.format(broker.bootstrap) for a in arguments))
    assert (result.exit_code, result.stdout) == (0, "g\n")


def test_option_overrides_the_environment() -> None:
    with FakeBroker() as wrong, FakeBroker({ApiKey.LIST_GROUPS: GROUPS}) as right:
        result = run(wrong, "groups", "list", "--bootstrap-server", right.bootstrap)
    assert result.stdout == "g\n"
    assert wrong.requests == []


def test_unreachable_broker_is_reported_with_a_remedy() -> None:
    result = run(None, "topics", "list", "--bootstrap-server", "127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "Error: No broker reached at 127.0.0.1:1: connection refused." in result.stderr
    assert "`coterie serve`" in result.stderr
    assert "COTERIE_BOOTSTRAP" in result.stderr


@pytest.mark.parametrize("value", ["host:port", ":1", "a:1,b:x"])
def test_invalid_address_is_a_usage_error(value: str) -> None:
    result = run(None, "groups", "list", "--bootstrap-server", value)
    assert result.exit_code == 2
    assert "Invalid value for --bootstrap-server" in result.stderr


def test_silent_broker_ends_the_command_at_the_timeout() -> None:
    with FakeBroker({ApiKey.LIST_GROUPS: SILENCE}) as broker:
        result = run(broker, "groups", "list", "--timeout", "0.2")
    assert result.exit_code == 1
    assert "did not respond to ListGroupsRequest within 0.2 s" in result.stderr


@pytest.mark.parametrize("value", ["0", "-1", "30000", "soon"])
def test_timeout_in_milliseconds_is_refused(value: str) -> None:
    """Kafka's tools take milliseconds; --timeout takes seconds, at most 3600."""
    assert run(None, "groups", "list", "--timeout", value).exit_code == 2


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
    ids=["piped", "forced", "no-color"],
)
def test_colours_appear_on_terminals_only(
    environment: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with FakeBroker({ApiKey.LIST_GROUPS: GROUPS}) as broker:
        from click.testing import CliRunner

        result = CliRunner().invoke(
            main,
            ["groups", "list", "--state", "--bootstrap-server", broker.bootstrap],
            color=True,
            catch_exceptions=False,
        )
    assert ("\x1b[" in result.stdout) == coloured
    # With and without colours the text and its layout are the same.
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", result.stdout).splitlines()]
    assert lines == ["GROUP                     STATE", "g                         Stable"]


def test_closed_pipe_is_no_traceback() -> None:
    """`coterie topics list | head -1` with many topics."""
    with FakeBroker(topics={f"topic-{n:05}": 1 for n in range(20_000)}) as broker:
        program = [sys.executable, "-c", "from coterie.cli.main import main; main()"]
        done = subprocess.run(
            f"{' '.join(repr(word) for word in program)} topics list | head -1",
            shell=True,
            cwd=ROOT,
            env={**os.environ, "COTERIE_BOOTSTRAP": broker.bootstrap},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.stdout == "topic-00000\n"
    assert "Traceback" not in done.stderr
