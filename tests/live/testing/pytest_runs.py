"""Runs of pytest in processes of their own, on tests that are written as text."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

# Two seconds on a quiet machine; less than the time limit of a test.
TIMEOUT_S = 110

# The output is to be the same everywhere. In CI pytest does not shorten the errors of its summary,
# so that the sections of a report are printed twice. In its debug mode asyncio warns of each slow
# callback, and pytest shows the warning. The others change colours, width and options.
_VARIABLES_OF_OUTPUT = (
    "BUILD_NUMBER", "CI", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "PY_COLORS", "PYTEST_ADDOPTS",
    "PYTHONASYNCIODEBUG",
)  # fmt: skip


def environment() -> dict[str, str]:
    """Return the environment in which the output of tests is the same everywhere."""
    return {name: value for name, value in os.environ.items() if name not in _VARIABLES_OF_OUTPUT}


def run_pytest(directory: Path, tests: list[str], *options: str) -> tuple[int, str]:
    """Run pytest on files with tests; return its exit code and output."""
    for number, test in enumerate(tests):
        (directory / f"test_{number}.py").write_text(textwrap.dedent(test))
    (directory / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function")
    plugins = ("cacheprovider", "cov", "hypothesispytest", "randomly", "timeout")
    without = [option for name in plugins for option in ("-p", f"no:{name}")]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *without, *options],
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr
