"""`coterie pipeline run`: what is new in the logs becomes tables, once or as it comes."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from coterie.cli.broker import CommandFailed
from coterie.cli.output import (
    Column,
    Row,
    json_option,
    note,
    print_json,
    print_table,
    printable,
)
from coterie.cli.pipeline_progress import step_progress
from coterie.cli.pipeline_session import key_values, spark_options, spark_session, told_errors
from coterie.client.errors import ClientError

if TYPE_CHECKING:
    from coterie.pipeline.jobs.connector import Connector
    from coterie.pipeline.jobs.follow import Appended
    from coterie.pipeline.jobs.run import RunReport

_DEFAULT_BUILD_EVERY_S = 30.0
_MINUTE_MS = 60_000
# What reads clusters.
_OWN, _SPARK = "own", "spark"


def _grouped(value: Any) -> str:
    return "" if value is None else f"{value:,}"


def _seconds(value: Any) -> str:
    return "" if value is None else f"{value:.1f}"


_COLUMNS = [
    Column("STAGE", "stage", 8),
    Column("TABLE", "table", 20),
    Column("ROWS", "rows", 12, _grouped),
    Column("BYTES", "bytes", 14, _grouped),
    Column("SECONDS", "seconds", 8, _seconds),
    Column("ROWS/S", "rows_per_s", 8, _grouped),
]


@click.command("run", short_help="Make tables of what is new in the logs, with Spark.")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    required=True,
    metavar="DIR|kafka://HOST:PORT",
    shell_complete=lambda *_: [click.shell_completion.CompletionItem("", type="dir")],
    help="A broker's data directory (ours or a Kafka's, a copy too), or a cluster to read from;"
    " repeatable.",
)
@click.option(
    "--output",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Where the tables are; made if it is missing.",
)
@click.option(
    "--log-ends",
    metavar="FILE",
    type=click.Path(exists=True),
    help="Ends of the topics' logs over time, for lag: Parquet or CSV with topic, partition, at_ts,"
    " log_end_offset. Without it lag is not known.",
)
@click.option(
    "--offsets-retention-minutes",
    "retention_minutes",
    metavar="MINUTES",
    type=click.IntRange(min=1),
    help="The brokers' setting of that name: groups that lose their offsets soon are told."
    "  [default: Kafka's 10080]",
)
@click.option("--follow", is_flag=True, help="Go on as records come; Ctrl-C or SIGTERM ends it.")
@click.option(
    "--build-every",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=_DEFAULT_BUILD_EVERY_S,
    show_default=True,
    help="With --follow: how often silver and gold tables are brought up to date.",
)
@click.option(
    "--connector",
    type=click.Choice([_OWN, _SPARK]),
    default=_OWN,
    show_default=True,
    help="What reads clusters: our own client, in plain text, or Spark's Kafka connector, with TLS"
    " and SASL; --conf spark.jars.packages or spark.jars brings its jars.",
)
@click.option(
    "--connector-option",
    "connector_options",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_values,
    help="An option of the connector; repeatable: kafka.security.protocol=SASL_SSL.",
)
@click.option(
    "--connector-config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Settings of Kafka's clients in a file, as Kafka's own tools take it: passwords are not"
    " for command lines.",
)
@click.option("--rebuild", is_flag=True, help="Work out silver and gold from all of bronze again.")
@click.option("--no-crc", is_flag=True, help="Do not check checksums: damage may become rows.")
@json_option
@spark_options
def run(
    *,
    inputs: tuple[str, ...],
    output: str,
    log_ends: str | None,
    retention_minutes: int | None,
    follow: bool,
    build_every: float,
    connector: str,
    connector_options: dict[str, str],
    connector_config: str | None,
    rebuild: bool,
    no_crc: bool,
    as_json: bool,
    master: str | None,
    settings: dict[str, str],
) -> None:
    """Read what is new in __consumer_offsets and coterie.journal since the last run, and bring the
    tables in the output directory up to date.

    A run that is stopped or killed has done nothing; the next one does it again. A run that finds
    nothing new writes nothing. Groups of a second cluster get its name behind an @.
    """
    if follow and rebuild:
        raise click.UsageError("--rebuild is for a run by itself: do it first, then --follow.")
    with told_errors(), _told_refusals():
        by = _connector(inputs, connector, connector_options, connector_config, follow=follow)
        wanted = _Wanted(inputs, output, log_ends, not no_crc, by, as_json, master, settings)
        _check_inputs(inputs, is_asked=by is None)
        if follow:
            found = _follow(wanted, build_every, retention_minutes)
        else:
            found = _once(wanted, retention_minutes, rebuild=rebuild)
    if as_json:
        print_json(found)
    for warning in found["warnings"]:
        note(f"Warning: {printable(warning)}.")


class _Wanted(NamedTuple):
    """What both kinds of run are told."""

    inputs: tuple[str, ...]
    output: str
    log_ends: str | None
    crc: bool
    connector: "Connector | None"
    as_json: bool
    master: str | None
    settings: dict[str, str]


def _connector(
    inputs: Iterable[str],
    name: str,
    options: dict[str, str],
    settings_file: str | None,
    *,
    follow: bool,
) -> "Connector | None":
    """Spark's Kafka connector, if that is what reads clusters.

    Raises:
        UsageError: options that do not go together.
    """
    if name == _OWN:
        if options or settings_file:
            raise click.UsageError(
                "--connector-option and --connector-config are for --connector spark: our own"
                " client speaks plain text."
            )
        return None
    from coterie.pipeline.jobs.connector import Connector
    from coterie.pipeline.kafka_input import SCHEME, is_kafka

    if not any(is_kafka(each) for each in inputs):
        raise click.UsageError(f"--connector is for an --input {SCHEME}HOST:PORT.")
    if follow:
        raise click.UsageError(
            "--follow reads clusters with our own client only: run --connector spark without it,"
            " as often as wanted; each run goes on where the last one ended."
        )
    connector = Connector(options, settings_file)
    refused = connector.refused()
    if refused:
        raise click.UsageError(f"A run sets {', '.join(refused)} by itself.")
    return connector


def _check_inputs(inputs: Iterable[str], *, is_asked: bool) -> None:
    """Refuse what is none before Spark is started, which takes seconds.

    Args:
        inputs: as given.
        is_asked: whether clusters are to be asked, too, which our own client does.

    Raises:
        CommandFailed: an input is neither a directory nor a cluster.
        ClientError: nobody answers for a cluster, or it has no groups.
    """
    from coterie.address import Address
    from coterie.client.cluster import DEFAULT_PORT
    from coterie.pipeline.kafka_input import SCHEME, KafkaLog, address_of, is_kafka

    for each in inputs:
        if is_kafka(each):
            try:
                if is_asked:
                    KafkaLog(each).cluster.close()
                for address in address_of(each).split(","):
                    Address.parse(address, DEFAULT_PORT)
            except ValueError as error:
                raise click.UsageError(f"Invalid value for --input: {error}.") from error
        elif not os.path.isdir(each):
            raise CommandFailed(
                f"The input {printable(each)} is no directory.",
                f"Give a broker's data directory (its log.dirs), or {SCHEME}HOST:PORT.",
            )


@contextmanager
def _told_refusals() -> Iterator[None]:
    """What a broker refuses ends the command as it does elsewhere."""
    try:
        yield
    except ClientError as error:
        raise CommandFailed(error.cause, error.remedy) from error


def _retention_ms(minutes: int | None) -> int:
    from coterie.pipeline.transforms.anomalies import OFFSETS_RETENTION_MS

    return OFFSETS_RETENTION_MS if minutes is None else minutes * _MINUTE_MS


def _once(wanted: _Wanted, retention_minutes: int | None, *, rebuild: bool) -> Row:
    from coterie.pipeline.extent import is_little
    from coterie.pipeline.jobs.run import run as run_once

    little = is_little(wanted.output, wanted.inputs)
    with (
        spark_session(
            "coterie pipeline run", wanted.master, wanted.settings, little=little
        ) as spark,
        step_progress(spark, wanted=not wanted.as_json) as progress,
    ):
        report = run_once(
            spark,
            wanted.inputs,
            wanted.output,
            log_ends=wanted.log_ends,
            retention_ms=_retention_ms(retention_minutes),
            rebuild=rebuild,
            crc=wanted.crc,
            connector=wanted.connector,
            progress=progress.tell,
            copying=progress.copied,
        )
    found = _told(report, wanted.output)
    if not wanted.as_json:
        _print(found)
    return found


def _follow(wanted: _Wanted, build_every: float, retention_minutes: int | None) -> Row:
    from coterie.pipeline.jobs.follow import (
        FOLLOW_SETTINGS,
        FollowOptions,
        stop_on_signals,
    )
    from coterie.pipeline.jobs.follow import follow as follow_logs

    settings = {**FOLLOW_SETTINGS, **wanted.settings}
    with spark_session("coterie pipeline run", wanted.master, settings) as spark:
        stop = stop_on_signals()
        note("Following; Ctrl-C or SIGTERM ends it, with everything read by then in the tables.")
        options = FollowOptions(
            build_every_s=build_every,
            crc=wanted.crc,
            log_ends=wanted.log_ends,
            retention_ms=_retention_ms(retention_minutes),
        )
        report = follow_logs(
            spark, wanted.inputs, wanted.output, stop=stop, options=options, on_append=_arrivals()
        )
    found = _told(report.last, wanted.output) | {
        "records": report.rows,
        "batches": report.batches,
        "builds": report.builds,
        "seconds": round(report.seconds, 3),
    }
    if not wanted.as_json:
        note(
            f"Followed {report.seconds:.0f} s: {report.rows:,} records in {report.batches:,}"
            f" batches, tables brought up to date {report.builds:,} times."
        )
        click.echo(found["manifest"])
    return found


# How often a terminal is told of new records: they may come four times a second.
_TELL_EVERY_S = 1.0


def _arrivals() -> "Callable[[Appended], None]":
    """Counts new records on a terminal's last line."""
    seen = {"rows": 0, "told": 0.0}
    wanted = sys.stderr.isatty()

    def told(appended: "Appended") -> None:
        seen["rows"] += appended.rows
        now = time.monotonic()
        if wanted and now - seen["told"] >= _TELL_EVERY_S:
            seen["told"] = now
            click.echo(
                f"\r{time.strftime('%H:%M:%S')}  {seen['rows']:,.0f} records", nl=False, err=True
            )

    return told


def _told(report: "RunReport", output: str) -> Row:
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


def _print(found: Row) -> None:
    if found["run"] is None:
        note("Nothing new since the last run; nothing was written.")
    else:
        rows = sum(table["rows"] or 0 for table in found["tables"])
        # Not known where only the connector has read.
        size_bytes = found["input_bytes"]
        total = {
            "stage": "all",
            "table": f"of {size_bytes / 1e6:,.1f} MB of log" if size_bytes else "",
            "rows": rows,
            "bytes": sum(table["bytes"] or 0 for table in found["tables"]),
            "seconds": found["seconds"],
            "rows_per_s": round(rows / found["seconds"]) if found["seconds"] else None,
        }
        print_table(_COLUMNS, [*found["tables"], total])
    click.echo(found["manifest"])
