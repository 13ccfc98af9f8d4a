"""`coterie pipeline run`: make tables from the logs, once or continuously."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from coterie.cli.broker import command_config, security_of_command
from coterie.cli.errors import CommandFailed
from coterie.cli.options import json_option
from coterie.cli.output import Column, Row, note, print_json, print_table, printable
from coterie.cli.pipeline.progress import step_progress
from coterie.cli.pipeline.session import (
    SPARK,
    EngineOptions,
    engine_options,
    pipeline_errors,
    started_engine,
)
from coterie.cli.values import COUNT, PAUSE_S
from coterie.client.errors import ClientError
from coterie.client.names import counted
from coterie.client.security import Security

if TYPE_CHECKING:
    from coterie.pipeline.jobs.follow import Built
    from coterie.pipeline.jobs.job import RunReport

_DEFAULT_BUILD_EVERY_S = 30.0
_MINUTE_MS = 60_000


def _count_text(value: Any) -> str:
    return "" if value is None else f"{value:,}"


def _seconds_text(value: Any) -> str:
    # 0 is the time of a table that was written together with one above it.
    return f"{value:.1f}" if value else ""


_COLUMNS = [
    Column("STAGE", "stage", 8),
    Column("TABLE", "table", 20),
    Column("ROWS", "rows", 12, _count_text),
    Column("BYTES", "bytes", 14, _count_text),
    Column("SECONDS", "seconds", 8, _seconds_text),
    Column("ROWS/S", "rows_per_s", 8, _count_text),
]


@click.command("run")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    required=True,
    metavar="DIR|kafka://HOST:PORT",
    shell_complete=lambda *_: [click.shell_completion.CompletionItem("", type="dir")],
    help="Data directory of a broker (Coterie or Kafka, or a copy), or a cluster to read from;"
    " repeatable.",
)
@click.option(
    "--output",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Directory for the tables; created if it does not exist.",
)
@click.option(
    "--log-ends",
    metavar="FILE",
    type=click.Path(exists=True),
    help="Log end offsets over time, from which lag is computed: a Parquet or CSV file with topic,"
    " partition, at_ts, log_end_offset. Without it lag is not known.",
)
@click.option(
    "--offsets-retention-minutes",
    "retention_minutes",
    metavar="MINUTES",
    type=COUNT,
    help="The brokers' offsets.retention.minutes, to report groups that lose their offsets soon."
    "  [default: Kafka's 10080]",
)
@click.option("--follow", is_flag=True, help="Continue with new records until Ctrl-C or SIGTERM.")
@click.option(
    "--build-every",
    metavar="SECONDS",
    type=PAUSE_S,
    default=_DEFAULT_BUILD_EVERY_S,
    show_default=True,
    help="With --follow: how often the silver and gold tables are brought up to date.",
)
@click.option(
    "--rebuild", is_flag=True, help="Make all silver and gold tables anew from the bronze tables."
)
@click.option(
    "--no-crc", is_flag=True, help="Skip the checksums; damaged batches may then become rows."
)
@command_config
@json_option
@engine_options
def command(
    *,
    inputs: tuple[str, ...],
    output: str,
    log_ends: str | None,
    retention_minutes: int | None,
    follow: bool,
    build_every: float,
    rebuild: bool,
    no_crc: bool,
    as_json: bool,
    options: EngineOptions,
) -> None:
    """Read the new records of __consumer_offsets and coterie.journal, and bring the tables in the
    output directory up to date.

    Each run continues where the last one ended, and writes nothing if there is nothing new. A run
    that is interrupted changes nothing; the next one repeats it. The groups of a second cluster get
    the name of the cluster after an @.
    """
    began_s = time.monotonic()
    if follow and rebuild:
        raise click.UsageError("--rebuild can't be used with --follow. Run it first by itself.")
    with pipeline_errors(), _client_errors():
        security = security_of_command(click.get_current_context())
        given = _Options(inputs, output, log_ends, not no_crc, security, as_json, options, began_s)
        _check_inputs(inputs, security, waits=follow)
        if follow:
            result = _follow(given, build_every, retention_minutes)
        else:
            result = _run_once(given, retention_minutes, rebuild=rebuild)
    if as_json:
        print_json(result)
    for warning in result["warnings"]:
        note(f"Warning: {printable(warning)}.")


class _Options(NamedTuple):
    """The options of both kinds of run."""

    inputs: tuple[str, ...]
    output: str
    log_ends: str | None
    crc: bool
    security: Security
    as_json: bool
    engine: EngineOptions
    began_s: float


def _check_inputs(inputs: Iterable[str], security: Security, *, waits: bool) -> None:
    """Check the inputs before Spark is started, which takes seconds.

    Args:
        inputs: the values of --input.
        security: how connections to clusters are secured.
        waits: whether to wait for the first group of a cluster [pipeline/log-ends].

    Raises:
        CommandFailed: an input is neither a directory nor a cluster.
        ClientError: a cluster does not answer, or has no groups.
    """
    from coterie.pipeline.kafka_input import SCHEME, KafkaLog, NoGroupLog, is_kafka

    for each in inputs:
        if is_kafka(each):
            try:
                KafkaLog(each, security=security).cluster.close()
            except NoGroupLog as error:
                if not waits:
                    raise
                note(f"{error.cause} Waiting for its first consumer group.")
            except ValueError as error:
                raise click.UsageError(f"Invalid value for --input: {error}.") from error
        elif not os.path.isdir(each):
            raise CommandFailed(
                f"The input {printable(each)} is not a directory.",
                f"Give a broker's data directory (its log.dirs), or {SCHEME}HOST:PORT.",
            )


@contextmanager
def _client_errors() -> Iterator[None]:
    """Turn the errors of the own client into errors of the command, as other commands do."""
    try:
        yield
    except ClientError as error:
        raise CommandFailed(error.cause, error.remedy) from error


def _retention_ms(minutes: int | None) -> int:
    from coterie.pipeline.findings.retention import OFFSETS_RETENTION_MS

    return OFFSETS_RETENTION_MS if minutes is None else minutes * _MINUTE_MS


def _run_once(options: _Options, retention_minutes: int | None, *, rebuild: bool) -> Row:
    from coterie.pipeline.extent import is_little
    from coterie.pipeline.jobs.clusters import copy_clusters
    from coterie.pipeline.jobs.run import run
    from coterie.pipeline.kafka_input import is_kafka

    inputs = list(options.inputs)
    with step_progress(shown=not options.as_json) as progress:
        imported_s = time.monotonic()
        copied = []
        sources = [each for each in inputs if is_kafka(each)]
        if sources:
            # The size of a cluster's log is known when it has been copied.
            copied = copy_clusters(
                sources,
                options.output,
                progress.show_copying,
                crc=options.crc,
                security=options.security,
            )
            inputs = [each for each in inputs if each not in sources]
        copied_s = time.monotonic()
        little = is_little(options.output, inputs)
        if little and options.engine.engine == SPARK:
            note(
                "Starting Spark takes longer than the work on so little data;"
                " --engine local does it in this process."
            )
        with started_engine("coterie pipeline run", options.engine, little=little) as engine:
            started_s = time.monotonic() - copied_s + imported_s - options.began_s
            progress.watch(engine)
            report = run(
                engine,
                inputs,
                options.output,
                log_ends=options.log_ends,
                retention_ms=_retention_ms(retention_minutes),
                rebuild=rebuild,
                crc=options.crc,
                security=options.security,
                copied=copied,
                progress=progress.show_step,
                copying=progress.show_copying,
            )
    report = report._replace(seconds=time.monotonic() - options.began_s)
    result = _result(report, options.output) | {
        "engine": engine.name,
        "start_seconds": round(started_s, 3),
    }
    if not options.as_json:
        _print(result)
    return result


def _follow(options: _Options, build_every: float, retention_minutes: int | None) -> Row:
    from coterie.pipeline.jobs.follow import FollowEvents, FollowOptions, follow, stop_on_signals
    from coterie.pipeline.jobs.job import RunReport

    with started_engine(
        "coterie pipeline run", options.engine, little=True, needs_spark=True
    ) as engine:
        stop = stop_on_signals()
        note(
            "Following the logs. Ctrl-C or SIGTERM ends it after the records read so far are in the"
            " tables, or with a note if they are not."
        )
        follow_options = FollowOptions(
            build_every_s=build_every,
            crc=options.crc,
            log_ends=options.log_ends,
            retention_ms=_retention_ms(retention_minutes),
            security=options.security,
        )
        report = follow(
            engine,
            options.inputs,
            options.output,
            stop=stop,
            options=follow_options,
            events=FollowEvents(on_build=_note_build),
        )
    nothing = RunReport(None, [], [], report.seconds)
    result = _result(report.last or report.first or nothing, options.output) | {
        "engine": engine.name,
        "records": report.rows,
        "batches": report.batches,
        "builds": report.builds,
        "is_complete": report.last is not None,
        "seconds": round(report.seconds, 3),
    }
    if not options.as_json:
        note(
            f"Followed for {report.seconds:.0f} s: {counted(report.rows, 'record')} in"
            f" {report.batches:,} {'batch' if report.batches == 1 else 'batches'}; the tables were"
            f" brought up to date {counted(report.builds, 'time')}."
        )
        if report.last is None:
            note("The newest records are in the bronze tables only. The next run continues there.")
        click.echo(result["manifest"])
    return result


def _note_build(built: "Built") -> None:
    """Print a line for a build."""
    late = ", later than --build-every because the build before lasted longer"
    note(
        f"{time.strftime('%H:%M:%S')}  {counted(built.rows, 'new record')},"
        f" {counted(built.tables, 'table')} in"
        f" {built.seconds:.1f} s, {built.behind_s:.1f} s behind{late if built.is_late else ''}"
    )


def _result(report: "RunReport", output: str) -> Row:
    from coterie.pipeline.store import MANIFEST

    return {
        "run": report.number,
        "manifest": os.path.join(output, MANIFEST),
        "seconds": round(report.seconds, 3),
        "input_bytes": report.input_bytes,
        "tables": [
            {
                "stage": step.stage,
                "table": step.table,
                "rows": step.rows,
                "bytes": step.size_bytes,
                "seconds": None if step.seconds is None else round(step.seconds, 3),
                "rows_per_s": round((step.rows or 0) / step.seconds) if step.seconds else None,
            }
            for step in report.steps
        ],
        "warnings": list(report.warnings),
    }


def _print(result: Row) -> None:
    if result["run"] is None:
        note("There is nothing new since the last run; nothing was written.")
    else:
        rows = sum(table["rows"] or 0 for table in result["tables"])
        start = {"stage": "start", "table": result["engine"], "seconds": result["start_seconds"]}
        known_s = sum(table["seconds"] or 0.0 for table in [start, *result["tables"]])
        # Planning, the commit, and the end of Spark.
        rest = {"stage": "rest", "table": "", "seconds": result["seconds"] - known_s}
        size_bytes = result["input_bytes"]
        total = {
            "stage": "all",
            "table": f"of {size_bytes / 1e6:,.1f} MB of log",
            "rows": rows,
            "bytes": sum(table["bytes"] or 0 for table in result["tables"]),
            "seconds": result["seconds"],
            "rows_per_s": round(rows / result["seconds"]) if result["seconds"] else None,
        }
        print_table(_COLUMNS, [start, *result["tables"], rest, total])
    click.echo(result["manifest"])
