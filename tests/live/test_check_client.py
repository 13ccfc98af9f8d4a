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


# As the example programs take them.
LOGIN = [
    *("--security", "{security}", "--mechanism", "{mechanism}", "--ca", "{ca}"),
    *("--username", "{username}", "--password", "{password}"),
]


def test_real_client_that_logs_in_passes() -> None:
    checks = [
        "reading/each-record-once",
        "logins/before-requests",
        "logins/hides-the-password",
        "logins/again-in-time",
        "logins/keeps-its-group",
        "logins/reports-refusals",
        "logins/after-a-refusal",
    ]
    program = ["confluent_consumer.py", *LOGIN]
    assert check_client(["--security", "SASL_SSL"], checks, program)["security"] == "SASL_SSL"


def test_real_client_that_lacks_rights_passes() -> None:
    checks = ["access/reports-a-refused-topic", "access/pauses-at-a-refused-group"]
    options = ["--security", "SASL_PLAINTEXT", "--mechanism", "PLAIN"]
    check_client(options, checks, ["aiokafka_consumer.py", *LOGIN])


def test_command_of_a_secured_client_has_its_password() -> None:
    command = [*(sys.executable, "-m", "coterie", "check-client", "--security", "SASL_SSL", "--")]
    command += ["true", "{bootstrap}", "{topic}", "{group}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert "The command has no {password}" in done.stderr
