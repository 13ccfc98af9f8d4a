"""`coterie check-client` with a real client library."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
CHECKS = ["joining/uses-given-id", "reading/each-record-once", "closing/leaves"]
LIMIT_S = 90


def test_real_client_passes() -> None:
    program = [sys.executable, str(ROOT / "examples/clients/aiokafka_consumer.py")]
    only = [word for each in CHECKS for word in ("--only", each)]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "coterie", "check-client", "--json", *only, "--"),
            *(*program, "{bootstrap}", "{topic}", "{group}", "--instance-id", "{instance_id}"),
        ],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    found = json.loads(done.stdout)
    assert {each["name"]: each["status"] for each in found["checks"]} == dict.fromkeys(
        CHECKS, "pass"
    )
    assert found["client"]["prints"]
    assert found["client"]["commits"]
