"""`coterie lab run`: one scenario, one seed, some machines."""

from typing import Any

import click

from coterie.cli.errors import CommandFailed
from coterie.cli.lab.errors import lab_errors, settings_of
from coterie.cli.options import json_option
from coterie.cli.output import Column, print_json, print_table, printable

_COLUMNS = [
    Column("MACHINE", "machine", 14),
    Column("UNOWNED s", "unowned", 10, number=True),
    Column("%", "unavailability", 6, number=True),
    Column("TWICE s", "double", 8, number=True),
    Column("MOVES", "moves", 6, number=True),
    Column("NEEDLESS", "needless", 9, number=True),
    Column("SETTLED s", "settle_s", 10, number=True),
    Column("GENERATIONS", "generations", 12, number=True),
    Column("GAVE UP", "give_ups", 8, number=True),
    Column("DUPLICATES", "duplicates", 11, number=True),
    Column("REQUESTS", "requests", 9, number=True),
]


@click.command("run")
@click.argument("scenario")
@click.option("--machine", "machines", multiple=True, metavar="NAME", help="A machine; repeatable.")
@click.option("--members", type=int, help="Members at the beginning.")
@click.option("--partitions", type=int, help="Partitions.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all chance.")
@click.option(
    "--set", "pairs", multiple=True, metavar="KEY=VALUE", help="Change a setting; repeatable."
)
@click.option(
    "--trace", "trace", metavar="FILE", type=click.Path(dir_okay=False),
    help="Write what happened, line by line; needs one --machine.",
)  # fmt: skip
@json_option
def command(
    *,
    scenario: str,
    machines: tuple[str, ...],
    members: int | None,
    partitions: int | None,
    seed: int,
    pairs: tuple[str, ...],
    trace: str | None,
    as_json: bool,
) -> None:
    """Run SCENARIO, a name of `coterie lab list` or a TOML file, under each machine.

    The table has one line for each machine; below are its partitions over time. The same command
    with the same seed gives the same result.
    """
    from coterie.lab.machines import MACHINES
    from coterie.lab.run import Run, RunOptions
    from coterie.lab.scenario import load_scenario
    from coterie.lab.strips import legend, strip_lines

    with lab_errors():
        chosen = load_scenario(scenario).resized(members, partitions)
        options = RunOptions(settings_of(pairs), trace is not None)
        names = machines or chosen.machines or tuple(MACHINES)
        if trace is not None and len(names) != 1:
            raise click.UsageError("--trace needs exactly one --machine")
        runs = [Run(name, chosen, seed, options) for name in names]
        outcomes = [each.finish() for each in runs]
    if trace is not None:
        _write_trace(trace, runs[0].environment.world.trace or [])
    if as_json:
        print_json([outcome.row() for outcome in outcomes])
        return
    click.echo(f"{chosen.title}: {chosen.members} members, {chosen.partitions} partitions")
    click.echo(chosen.story)
    click.echo()
    print_table(_COLUMNS, [_row(outcome.machine, outcome.metrics) for outcome in outcomes])
    for outcome in outcomes:
        click.echo()
        for line in strip_lines(outcome):
            click.echo(line)
    click.echo()
    for line in legend():
        click.echo(line)


def _row(machine: str, metrics: dict[str, float | None]) -> dict[str, Any]:
    row: dict[str, Any] = {"machine": machine}
    for name, value in metrics.items():
        if value is None:
            row[name] = "never" if name == "settle_s" else "-"
        elif name == "unavailability":
            row[name] = f"{value * 100:.2f}"
        elif name in ("unowned", "double", "settle_s"):
            row[name] = f"{value:,.1f}"
        else:
            row[name] = f"{value:,.0f}"
    return row


def _write_trace(path: str, lines: list[str]) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(lines)
    except OSError as error:
        raise CommandFailed(
            f"The trace can't be written to {printable(path)}: {error.strerror}."
        ) from None
