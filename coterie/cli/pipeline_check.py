"""`coterie pipeline check`: the tables against the rules that a coordinator keeps."""

import click

from coterie.cli.broker import CommandFailed
from coterie.cli.output import Column, Row, json_option, note, print_json, print_table
from coterie.cli.pipeline_session import spark_options, spark_session, told_errors

_STYLES = {"error": "red", "warning": "yellow"}


_COLUMNS = [
    Column("SEVERITY", "severity", 8, style=lambda value: _STYLES.get(value, "")),
    Column("RULE", "rule", 24),
    Column("SUBJECT", "subject", 24),
    Column("DETAIL", "detail", 40),
]


@click.command("check", short_help="Hold the tables against the coordinator's rules.")
@click.argument("output", metavar="OUTPUT", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--delete-retention-ms",
    metavar="MS",
    type=click.IntRange(min=0),
    help="How long the brokers keep tombstones (delete.retention.ms).  [default: a day]",
)
@json_option
@spark_options
def check(
    *,
    output: str,
    delete_retention_ms: int | None,
    as_json: bool,
    master: str | None,
    settings: dict[str, str],
) -> None:
    """Hold what `coterie pipeline run` made in OUTPUT against the rules: one owner a partition and
    generation, generations that increase, commits from live generations only, keys in their
    partitions, the last value of every key kept by compaction.

    Exit code 1 if a rule is broken. A warning is something that the records do not rule out.
    """
    with told_errors():
        from coterie.pipeline.check import DELETE_RETENTION_MS, ERROR
        from coterie.pipeline.check import check as find
        from coterie.pipeline.extent import is_little
        from coterie.pipeline.store import Store

        store = Store.reading(output)
        if delete_retention_ms is None:
            delete_retention_ms = DELETE_RETENTION_MS
        little = is_little(output)
        with spark_session("coterie pipeline check", master, settings, little=little) as spark:
            findings = find(spark, store, delete_retention_ms=delete_retention_ms)
    rows: list[Row] = [each._asdict() for each in findings]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(_COLUMNS, rows)
    errors = sum(each.severity == ERROR for each in findings)
    if errors:
        raise CommandFailed(f"{errors:,} of {len(rows):,} findings are broken rules.")
    if not as_json:
        note("No rule is broken." if rows else "Nothing was found: every rule holds.")
