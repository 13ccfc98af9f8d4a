"""`coterie pipeline doctor`: what the pipeline needs, what is there, and what to do."""

import time

import click

from coterie.cli.broker import CommandFailed
from coterie.cli.output import Column, Row, json_option, note, print_json, print_table
from coterie.cli.pipeline_session import spark_options, spark_session, told_errors

_STYLES = {"ok": "green", "missing": "red", "low": "yellow"}
_COLUMNS = [
    Column("STATE", "state", 7, style=lambda value: _STYLES.get(value, "")),
    Column("WHAT", "what", 16),
    Column("FOUND", "found", 40),
    Column("DO", "remedy", 1),
]
_TRIED_ROWS = 1_000


@click.command("doctor", short_help="Tell what the pipeline needs and what is missing.")
@click.option(
    "--try", "try_it", is_flag=True, help="Start Spark too and let it run a query: some 10 seconds."
)
@json_option
@spark_options
def doctor(*, try_it: bool, as_json: bool, master: str | None, settings: dict[str, str]) -> None:
    """Tell which Java, which packages, how much memory and room there is, what of it will not do,
    and the command that puts it right. Exit code 1 if something is missing.
    """
    # Imported here, for the help needs none of it.
    from coterie.pipeline.doctor import checks, missing

    found = checks()
    lacking = missing(found)
    rows: list[Row] = [
        {
            "what": each.what,
            "state": "ok" if each.is_good else "missing" if each.is_needed else "low",
            "found": each.found,
            "remedy": each.remedy or None,
        }
        for each in found
    ]
    if try_it and not lacking:
        rows.append(_tried(master, settings))
    if as_json:
        print_json(rows)
    else:
        print_table(_COLUMNS, rows)
    if lacking:
        remedies = dict.fromkeys(each.remedy for each in lacking)
        raise CommandFailed(
            f"Missing: {', '.join(each.what for each in lacking)}.", "\n".join(remedies)
        )
    if not as_json:
        proof = "" if try_it else " With --try Spark is started to prove it."
        note(f"The pipeline can run here.{proof}")


def _tried(master: str | None, settings: dict[str, str]) -> Row:
    """Start a session and count with a Python worker."""
    began = time.monotonic()
    with told_errors(), spark_session("coterie doctor", master, settings, little=True) as spark:
        started = time.monotonic()
        numbers = spark.range(_TRIED_ROWS).mapInArrow(lambda batches: batches, "id bigint")
        counted = numbers.count()
        ended = time.monotonic()
        version, where = spark.version, spark.conf.get("spark.master")
    if counted != _TRIED_ROWS:
        raise CommandFailed(f"Spark counted {counted} rows where there are {_TRIED_ROWS}.")
    told = (
        f"Spark {version} on {where} starts in {started - began:.1f} s, first query with Python"
        f" workers {ended - started:.1f} s"
    )
    return {"what": "a query", "state": "ok", "found": told, "remedy": None}
