"""The options that `coterie pipeline run` passes to the jobs; the jobs are not run here."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pip install coterie[pipeline]")

from coterie.cli.pipeline import run as run_command_module
from coterie.cli.pipeline.session import EngineOptions
from coterie.client.security import PLAINTEXT, Security
from coterie.pipeline import extent
from coterie.pipeline.engine import LocalEngine
from coterie.pipeline.findings.retention import OFFSETS_RETENTION_MS
from coterie.pipeline.jobs import follow, run
from coterie.pipeline.jobs.follow import FollowOptions, FollowReport
from coterie.pipeline.jobs.job import RunReport
from coterie.security.jaas import PLAIN_MODULE
from tests.unit.cli.command import run as run_command

REPORT = RunReport(None, [], [], 0.0)


class Jobs:
    """The arguments of the jobs."""

    run: dict[str, Any]
    follow: FollowOptions
    needs_spark: bool


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    jobs = Jobs()

    def run_once(engine: Any, inputs: Any, output: str, **arguments: Any) -> RunReport:
        jobs.run = arguments
        return REPORT

    def follow_logs(engine: Any, inputs: Any, output: str, **arguments: Any) -> FollowReport:
        jobs.follow = arguments["options"]
        return FollowReport(0, 0, 0, 0.0, REPORT, REPORT)

    @contextmanager
    def no_engine(
        _: str, options: EngineOptions, *, little: bool, needs_spark: bool = False
    ) -> Iterator[LocalEngine]:
        jobs.needs_spark = options.needs_spark(little=little, needs_spark=needs_spark)
        yield LocalEngine()

    monkeypatch.setattr(run_command_module, "started_engine", no_engine)
    monkeypatch.setattr(run, "run", run_once)
    monkeypatch.setattr(follow, "follow", follow_logs)
    monkeypatch.setattr(follow, "stop_on_signals", lambda: None)
    return jobs


def ran(tmp_path: Path, *arguments: str, source: str | None = None) -> None:
    given = ["--input", source or str(tmp_path), "--output", str(tmp_path / "out"), *arguments]
    result = run_command(None, "pipeline", "run", *given)
    assert result.exit_code == 0, result.stderr


def test_defaults_are_those_of_the_jobs(jobs: Jobs, tmp_path: Path) -> None:
    ran(tmp_path)
    assert jobs.run["retention_ms"] == OFFSETS_RETENTION_MS
    assert jobs.run["security"] is PLAINTEXT
    assert jobs.run["crc"]
    ran(tmp_path, "--follow")
    assert jobs.follow == FollowOptions()
    assert jobs.needs_spark
    ran(tmp_path, "--follow", "--engine", "local")
    assert not jobs.needs_spark


def test_retention_and_checksums_are_passed_to_both_jobs(jobs: Jobs, tmp_path: Path) -> None:
    given = ["--offsets-retention-minutes", "3", "--no-crc"]
    ran(tmp_path, *given)
    assert (jobs.run["retention_ms"], jobs.run["crc"]) == (180_000, False)
    ran(tmp_path, *given, "--follow", "--build-every", "5")
    assert (jobs.follow.retention_ms, jobs.follow.crc) == (180_000, False)
    assert jobs.follow.build_every_s == 5


def test_properties_of_the_client_are_passed_to_both_jobs(jobs: Jobs, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN_MODULE} required username="u" password="p";\n'
    )
    ran(tmp_path, "--command-config", str(properties))
    expected = Security(mechanism="PLAIN", jaas={"username": "u", "password": "p"})
    assert jobs.run["security"] == expected
    ran(tmp_path, "--command-config", str(properties), "--follow")
    assert jobs.follow.security == expected


@pytest.mark.parametrize(
    ("arguments", "needs_spark"),
    [
        ([], False),
        (["--master", "local[2]"], False),
        (["--master", "spark://host:7077"], True),
        (["--conf", "spark.driver.memory=4g"], True),
        (["--engine", "spark"], True),
        (["--engine", "local"], False),
    ],
)
def test_little_work_is_done_without_spark_unless_options_ask_for_it(
    jobs: Jobs, tmp_path: Path, arguments: list[str], needs_spark: bool
) -> None:
    """[pipeline/engines]"""
    ran(tmp_path, *arguments)
    assert jobs.needs_spark == needs_spark


def test_much_work_is_done_with_spark_unless_the_engine_is_named(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extent, "LOCAL_LOG_BYTES", -1)
    ran(tmp_path)
    assert jobs.needs_spark
    ran(tmp_path, "--engine", "local")
    assert not jobs.needs_spark


def test_settings_of_spark_are_refused_without_spark(tmp_path: Path) -> None:
    given = ["--input", str(tmp_path), "--output", str(tmp_path / "out")]
    refused = ["--engine", "local", "--conf", "spark.driver.memory=4g"]
    result = run_command(None, "pipeline", "run", *given, *refused)
    assert result.exit_code == 2
    assert "can't be used with --engine local" in result.stderr
