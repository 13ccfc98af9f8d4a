"""`coterie lab compare`: machines of a sweep, or two sweeps, pair by pair."""

from typing import Any

import click

from coterie.cli.errors import CommandFailed
from coterie.cli.lab.errors import lab_errors, need_pyarrow
from coterie.cli.options import json_option
from coterie.cli.output import Column, print_json, print_table
from coterie.cli.values import FACTOR

_COLUMNS = [
    Column("SCENARIO", "scenario", 20),
    Column("MEMBERS", "members", 8, number=True),
    Column("SETTINGS", "settings", 10),
    Column("MACHINE", "machine", 14),
    Column("PAIRS", "pairs", 6, number=True),
    Column("BASELINE", "baseline", 10, number=True),
    Column("VALUE", "value", 10, number=True),
    Column("RATIO", "ratio", 8, number=True),
    Column("5 %", "ratio_p05", 8, number=True),
    Column("95 %", "ratio_p95", 8, number=True),
    Column("WINS", "wins", 5, number=True),
]


@click.command("compare")
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@click.argument("other", metavar="[DIR2]", required=False, type=click.Path(exists=True))
@click.option("--baseline", metavar="MACHINE", help="Compare the machines of DIR with this one.")
@click.option(
    "--metric", metavar="NAME", default="unowned", show_default=True, help="What to compare."
)
@click.option(
    "--fail-over", type=FACTOR, metavar="RATIO", help="Exit with 1 if a median ratio is above it."
)
@json_option
def command(
    *,
    directory: str,
    other: str | None,
    baseline: str | None,
    metric: str,
    fail_over: float | None,
    as_json: bool,
) -> None:
    """Compare runs with the same seed: the machines of a sweep, or those of two sweeps."""
    if (other is None) == (baseline is None):
        raise click.UsageError("give either --baseline or a second directory")
    need_pyarrow()
    from coterie.lab.compare import compare_machines, compare_sweeps
    from coterie.lab.store import Store

    with lab_errors():
        rows = Store(directory).runs()
        if baseline is not None:
            found = compare_machines(rows, baseline, metric)
        else:
            found = compare_sweeps(rows, Store(str(other)).runs(), metric)
    if as_json:
        print_json([each._asdict() for each in found])
    else:
        print_table(_COLUMNS, [_texts(each._asdict()) for each in found])
    above = [each for each in found if fail_over is not None and (each.ratio or 0) > fail_over]
    if above:
        worst = max(above, key=lambda each: each.ratio or 0)
        raise CommandFailed(
            f"{len(above)} of {len(found)} ratios are above {fail_over}:"
            f" {worst.scenario} {worst.machine} has {worst.ratio:.3g}."
        )


def _texts(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: f"{value:,.4g}" if isinstance(value, float) else value for name, value in row.items()
    }
