"""`coterie pipeline check`: check the tables against the rules of a coordinator."""

import click

from coterie.cli.errors import CommandFailed
from coterie.cli.options import json_option
from coterie.cli.output import Column, Row, note, print_json, print_table
from coterie.cli.pipeline.session import (
    EngineOptions,
    engine_options,
    pipeline_errors,
    started_engine,
)
from coterie.cli.values import LONG_NATURAL

_STYLES = {"error": "red", "warning": "yellow"}

_COLUMNS = [
    Column("SEVERITY", "severity", 8, style=lambda value: _STYLES.get(value, "")),
    Column("RULE", "rule", 24),
    Column("SUBJECT", "subject", 24),
    Column("DETAIL", "detail", 40),
]


@click.command("check")
@click.argument("output", metavar="OUTPUT", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--delete-retention-ms",
    metavar="MS",
    type=LONG_NATURAL,
    help="How long the brokers keep tombstones (delete.retention.ms).  [default: one day]",
)
@json_option
@engine_options
def command(
    *,
    output: str,
    delete_retention_ms: int | None,
    as_json: bool,
    options: EngineOptions,
) -> None:
    """Check the tables that `coterie pipeline run` made in OUTPUT.

    The rules: in each generation a partition has at most one owner; generations increase; commits
    come from live generations only; every key is in its partition; compaction keeps the last value
    of every key.

    The exit code is 1 if a rule is violated. A warning is a possible violation that the records
    neither prove nor rule out.
    """
    with pipeline_errors():
        from coterie.pipeline.check_rules import ERROR
        from coterie.pipeline.extent import is_little
        from coterie.pipeline.jobs.check import DELETE_RETENTION_MS, check
        from coterie.pipeline.store import Store

        store = Store.reading(output)
        if delete_retention_ms is None:
            delete_retention_ms = DELETE_RETENTION_MS
        little = is_little(output)
        with started_engine("coterie pipeline check", options, little=little) as engine:
            findings = check(engine, store, delete_retention_ms=delete_retention_ms)
    rows: list[Row] = [each._asdict() for each in findings]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(_COLUMNS, rows)
    errors = sum(each.severity == ERROR for each in findings)
    if errors:
        raise CommandFailed(f"{errors:,} of {len(rows):,} findings are violated rules.")
    if not as_json:
        note("No rule is violated.")
