"""The tests of the examples pass in a pytest process of their own, with their own settings."""

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


def test_tests_of_the_examples_pass() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-c", "examples/pytest.ini", "examples"]
    plugins = ("cacheprovider", "cov", "hypothesispytest", "randomly", "xdist")
    without = [option for name in plugins for option in ("-p", f"no:{name}")]
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    ended = subprocess.run(
        [*command, *without],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert " passed" in ended.stdout
