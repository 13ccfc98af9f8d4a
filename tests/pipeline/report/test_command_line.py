"""`coterie pipeline run`, `check` and `show` as a user runs them, one after the other."""

import glob
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pip install coterie[pipeline]")

from tests.pipeline.report.test_story import PRINTED, SEED, data_with

LIMIT_S = 300
ENGINES = {
    "local": ("--engine", "local"),
    "spark": ("--master", "local[2]", "--conf", "spark.driver.memory=1g"),
}

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.slow,
    pytest.mark.timeout(3 * LIMIT_S),
    pytest.mark.usefixtures("java"),
]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "coterie", "pipeline", *arguments]


def coterie(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, check=False, timeout=LIMIT_S
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_run_check_and_show(tmp_path: Path, engine: str) -> None:
    given = ENGINES[engine]
    data, output = data_with(tmp_path, SEED), str(tmp_path / "tables")
    done = coterie("run", "--input", data, "--output", output, *given)
    assert done.returncode == 0, done.stderr
    *table, manifest = done.stdout.splitlines()
    assert manifest == os.path.join(output, "manifest.json")
    assert table[0].split() == ["STAGE", "TABLE", "ROWS", "BYTES", "SECONDS", "ROWS/S"]
    assert [line.split()[1] for line in table if line.startswith("build")].count("rebalances") == 1
    assert coterie("show", output, "kmo", "--limit", "2").stdout == PRINTED

    checked = coterie("check", output, "--json", *given)
    findings = json.loads(checked.stdout)
    assert checked.returncode == any(each["severity"] == "error" for each in findings)


def test_following_ends_with_everything_in_the_tables(tmp_path: Path) -> None:
    data, output = data_with(tmp_path, SEED), str(tmp_path / "tables")
    given = ["--input", data, "--output", output, "--engine", "local"]
    line = command("run", *given, "--follow", "--json")
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as following:
        deadline = time.monotonic() + LIMIT_S
        # Stopped during its first run, a follower would leave the rest to the next run.
        while not glob.glob(os.path.join(output, "rebalances", "part=*")):
            assert following.poll() is None, following.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.2)
        following.send_signal(signal.SIGTERM)
        printed, errors = following.communicate(timeout=LIMIT_S)
    assert following.returncode == 0, errors
    assert json.loads(printed)["manifest"] == os.path.join(output, "manifest.json")
    assert coterie("show", output, "kmo", "--limit", "2").stdout == PRINTED
