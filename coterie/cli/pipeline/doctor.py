"""`coterie pipeline doctor`: check whether the pipeline can run on this machine."""

import time

import click

from coterie.cli.check_rows import CHECK_COLUMNS, check_row, fail_if_any
from coterie.cli.errors import CommandFailed
from coterie.cli.options import json_option
from coterie.cli.output import Row, note, print_rows
from coterie.cli.pipeline.session import pipeline_errors, spark_options, spark_session

_QUERY_ROWS = 1_000


@click.command("doctor")
@click.option(
    "--try",
    "try_query",
    is_flag=True,
    help="Also start Spark and run a query, which takes about 10 seconds.",
)
@json_option
@spark_options
def command(
    *, try_query: bool, as_json: bool, master: str | None, settings: dict[str, str]
) -> None:
    """Check Java, the Python packages, the memory and the disk space that the pipeline needs.

    For everything that is missing, the command to install it is shown, and the exit code is 1.
    """
    # Imported here, because `coterie.pipeline` needs time that the help of this command saves.
    from coterie.installation import missing
    from coterie.pipeline.doctor import checks

    found = checks()
    lacking = missing(found)
    rows = [check_row(each) for each in found]
    if try_query and not lacking:
        rows.append(_query_row(master, settings))
    print_rows(CHECK_COLUMNS, rows, as_json=as_json)
    fail_if_any(lacking)
    if not as_json:
        hint = "" if try_query else " Use --try to start Spark and run a query."
        note(f"The pipeline can run here.{hint}")


def _query_row(master: str | None, settings: dict[str, str]) -> Row:
    """Start a session, run a query with Python workers, and return its row."""
    began = time.monotonic()
    with (
        pipeline_errors(),
        spark_session("coterie pipeline doctor", master, settings, little=True) as spark,
    ):
        started = time.monotonic()
        numbers = spark.range(_QUERY_ROWS).mapInArrow(lambda batches: batches, "id bigint")
        count = numbers.count()
        ended = time.monotonic()
        version, spark_master = spark.version, spark.conf.get("spark.master")
    if count != _QUERY_ROWS:
        raise CommandFailed(f"Spark counted {count} of {_QUERY_ROWS} rows.")
    found = (
        f"Spark {version} on {spark_master} starts in {started - began:.1f} s, the first query with"
        f" Python workers takes {ended - started:.1f} s"
    )
    return {"what": "a query", "state": "ok", "found": found, "remedy": None}
