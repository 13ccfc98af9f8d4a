"""Old clients against a broker that pretends to be as old as they are."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.testing import Broker
from tests.live.old_clients import KAFKA_PYTHON_1, NotInstallableError, installed

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.xdist_group("old_clients")


@pytest.mark.parametrize(
    ("release", "version", "produce", "fetch"),
    [("0.10.2", [0, 10, 2], 2, 3), ("0.11", [0, 11, 0], 3, 4)],
)
def test_old_client_produces_reads_commits_and_reads_on(
    release: str, version: list[int], produce: int, fetch: int
) -> None:
    try:
        path = installed(KAFKA_PYTHON_1)
    except NotInstallableError as reason:
        pytest.skip(f"{KAFKA_PYTHON_1.name} cannot be used here: {reason}")
    with Broker(version=release, topics={"t": 1}) as kafka:
        line = [sys.executable, "-m", "tests.live.message_set_program", kafka.bootstrap_servers]
        done = subprocess.run(
            [*line, "t"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(path)},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        versions = {each.api: each.version for each in kafka.requests}
    assert json.loads(done.stdout) == {
        "release": "1.4.7",
        "None": {
            "version": version,
            "produced": [0, 1, 2],
            "read": [[0, 0], [1, 1], [2, 2]],
            "committed": 3,
            "end": 3,
        },
        "gzip": {
            "version": version,
            "produced": [3, 4, 5],
            "read": [[3, 0], [4, 1], [5, 2]],
            "committed": 6,
            "end": 6,
        },
    }
    assert (versions["Produce"], versions["Fetch"]) == (produce, fetch)
