"""`coterie check-client` with a real client library."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
LIMIT_S = 90


def check_client(options: list[str], checks: list[str], program: list[str]) -> dict[str, Any]:
    """Run some checks of a program that must pass; return what `--json` prints."""
    only = [word for each in checks for word in ("--only", each)]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "coterie", "check-client", "--json", *options, *only, "--"),
            *(sys.executable, str(ROOT / "examples/clients" / program[0])),
            *("{bootstrap}", "{topic}", "{group}", *program[1:]),
        ],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    assert {each["name"]: each["status"] for each in found["checks"]} == dict.fromkeys(
        checks, "pass"
    )
    assert found["client"]["prints"]
    assert found["client"]["commits"]
    return found


def test_real_client_passes() -> None:
    checks = ["joining/uses-given-id", "reading/each-record-once", "closing/leaves"]
    program = ["aiokafka_consumer.py", "--instance-id", "{instance_id}"]
    assert check_client([], checks, program)["protocol"] == "classic"


def test_real_client_of_the_consumer_protocol_passes() -> None:
    checks = [
        "joining/makes-its-id",
        "reading/each-record-once",
        "closing/leaves",
        "reconciling/reports-what-is-left",
        "reconciling/takes-over",
    ]
    program = ["confluent_consumer.py", "--protocol", "{protocol}"]
    found = check_client(["--protocol", "consumer"], checks, program)
    assert found["protocol"] == "consumer"
