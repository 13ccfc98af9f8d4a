"""The examples in other languages; `make languages` installs what they need and runs them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
# The first run compiles the client of the Go example.
LIMIT_S = 600
COTERIE = Path(sys.executable).with_name("coterie")


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S + 10)
@pytest.mark.parametrize(
    ("language", "installed", "command", "passed"),
    [
        ("node", "node_modules/kafkajs", ("node", "--test"), "# fail 0"),
        ("go", "vendor/github.com", ("go", "test", "-count=1", "./..."), "ok "),
    ],
    ids=["node", "go"],
)
def test_tests_of_the_example_pass(
    language: str, installed: str, command: tuple[str, ...], passed: str
) -> None:
    directory = EXAMPLES / language
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    if not (directory / installed).exists():
        pytest.skip(f"examples/{language}/{installed} is missing: run `make languages`")
    ended = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "COTERIE": str(COTERIE)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert passed in ended.stdout
