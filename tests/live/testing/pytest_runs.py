"""Runs of pytest in processes of their own, on tests that are written as text."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

TIMEOUT_S = 60

# Where one of these is set, pytest does not shorten the errors of its summary, so that the
# sections of a report are printed twice. The output is to be the same in CI as on a laptop.
VARIABLES_OF_CI = ("CI", "BUILD_NUMBER")


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
        env={name: value for name, value in os.environ.items() if name not in VARIABLES_OF_CI},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr
