"""`coterie lab run`: one scenario, one seed, some machines."""

import os
import time
from typing import TYPE_CHECKING

import click

from coterie.cli.errors import CommandFailed
from coterie.cli.lab.errors import lab_errors, settings_of
from coterie.cli.lab.table import COLUMNS, row_texts
from coterie.cli.options import json_option
from coterie.cli.output import note, print_json, print_table, printable
from coterie.cli.pipeline.session import pipeline_errors
from coterie.cli.values import LONG, NATURAL
from coterie.client.names import counted
from coterie.lab.summary import size_text

if TYPE_CHECKING:
    from coterie.lab.outcome import RunOutcome
    from coterie.lab.recorded import Recorded
    from coterie.lab.records import KeptRecords
    from coterie.lab.run import Run

_A_DAY_MS = 86_400_000


@click.command("run")
@click.argument("scenario", required=False)
@click.option("--machine", "machines", multiple=True, metavar="NAME", help="A machine; repeatable.")
@click.option("--members", type=NATURAL, metavar="N", help="Members at the beginning.")
@click.option("--partitions", type=NATURAL, metavar="N", help="Partitions.")
@click.option(
    "--seed", type=LONG, metavar="N", default=0, show_default=True, help="Seed of all chance."
)
@click.option(
    "--set", "pairs", multiple=True, metavar="KEY=VALUE", help="Change a setting; repeatable."
)
@click.option(
    "--script-from",
    "history",
    nargs=2,
    metavar="HISTORY GROUP",
    help="Instead of a scenario, replay what happened to a group: HISTORY is the output of"
    " `coterie pipeline run`, or a data directory.",
)
@click.option(
    "--trace",
    "trace",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write what happened, line by line; needs one --machine.",
)
@click.option(
    "--verbose",
    is_flag=True,
    help="With --trace: also each request of a member and its answer, or each node of ZooKeeper.",
)
@click.option(
    "--records",
    "records",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Write the group's log and journal as a data directory, for `coterie pipeline` and"
    " `coterie serve`; needs one --machine that has a coordinator of Coterie.",
)
@click.option(
    "--svg",
    "svg",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Draw the partitions over time as one SVG file.",
)
@json_option
def command(
    *,
    scenario: str | None,
    machines: tuple[str, ...],
    members: int | None,
    partitions: int | None,
    seed: int,
    pairs: tuple[str, ...],
    history: tuple[str, str] | None,
    trace: str | None,
    verbose: bool,
    records: str | None,
    svg: str | None,
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

    if (scenario is None) == (history is None):
        raise click.UsageError("give either a SCENARIO or --script-from")
    if history is not None and (members, partitions) != (None, None):
        raise click.UsageError("--script-from has the sizes of the recorded group")
    if verbose and trace is None:
        raise click.UsageError("--verbose says what --trace FILE has")
    recorded = None if history is None else _recorded(*history)
    with lab_errors():
        if recorded is not None:
            chosen = recorded.scenario
        else:
            chosen = load_scenario(str(scenario)).resized(members, partitions)
        names = machines or chosen.machines or tuple(MACHINES)
        for option, value in (("--trace", trace), ("--records", records)):
            if value is not None and len(names) != 1:
                raise click.UsageError(f"{option} needs exactly one --machine")
        kept = None if records is None else _kept_records(names[0])
        options = RunOptions(settings_of(pairs), trace is not None, verbose, records=kept)
        runs = [Run(name, chosen, seed, options) for name in names]
        outcomes = [each.finish() for each in runs]
        if kept is not None and records is not None:
            kept.write(records)
    title = f"{chosen.title}: {size_text(chosen.members, chosen.partitions)}"
    _write_files(runs[0], outcomes, title, trace=trace, svg=svg)
    if records is not None:
        note(f"The records of the group 'group' are in {printable(records)}.")
    if as_json:
        print_json([outcome.row() for outcome in outcomes])
        return
    click.echo(title)
    click.echo(chosen.story)
    click.echo()
    print_table(COLUMNS, [row_texts(outcome.machine, outcome.metrics) for outcome in outcomes])
    if recorded is not None:
        _note_recorded(recorded)
    for outcome in outcomes:
        click.echo()
        for line in strip_lines(outcome):
            click.echo(line)
    click.echo()
    for line in legend():
        click.echo(line)


def _recorded(path: str, group_id: str) -> "Recorded":
    """Return the recorded history of a group."""
    if not os.path.isdir(path):
        raise CommandFailed(
            f"There is no directory {printable(path)}.",
            "--script-from takes the output of `coterie pipeline run`, or a data directory.",
        )
    with lab_errors(), pipeline_errors():
        from coterie.lab.recorded import read_recorded
        from coterie.pipeline.segments import topic_names

        return read_recorded(path, group_id, topic_names(path))


def _note_recorded(recorded: "Recorded") -> None:
    """Print what really happened, and the assumptions."""
    from coterie.lab.recorded import ASSUMPTIONS

    unowned_s = recorded.unowned_s
    without = "an unknown time" if unowned_s is None else f"{unowned_s:,.1f} partition-seconds"
    note(
        f"Recorded: {counted(recorded.rebalances, 'rebalance')}, {counted(recorded.moved, 'move')},"
        f" {without} without an owner."
    )
    if recorded.session_ms:
        times = ", ".join(f"{each:,} ms" for each in recorded.session_ms)
        note(f"Recorded session timeouts: {times}; --set session_ms=... sets that of all members.")
        shown = recorded.scenario.settings["heartbeat_ms"]
        source = "as answers to rebalances show it" if recorded.heartbeat_ms else "not recorded"
        note(f"Heartbeat interval: {shown:,} ms, {source}; --set heartbeat_ms=... sets another.")
    if recorded.left_out:
        note(f"{recorded.left_out:,} earlier starts and stops are left out.")
    note("Assumptions:")
    for line in ASSUMPTIONS:
        note(f"  {line}")


def _kept_records(machine: str) -> "KeptRecords":
    """Return what keeps the records of a run, which begins a day ago.

    A broker that serves the records would remove much older ones as expired.
    """
    from coterie.lab.errors import WrongInput
    from coterie.lab.machines import WITH_RECORDS, machine_named
    from coterie.lab.records import KeptRecords

    machine_named(machine)
    if machine not in WITH_RECORDS:
        raise WrongInput(
            f"The machine '{machine}' writes no records of Kafka. Machines with records:"
            f" {', '.join(WITH_RECORDS)}."
        )
    return KeptRecords(round(time.time() * 1_000) - _A_DAY_MS)


def _write_files(
    first: "Run", outcomes: list["RunOutcome"], title: str, *, trace: str | None, svg: str | None
) -> None:
    """Write the trace of the first run, and the picture of all."""
    if trace is not None:
        _write_text("trace", trace, "".join(first.environment.world.trace or []))
    if svg is not None:
        from coterie.lab.report.picture import picture

        _write_text("picture", svg, picture(title, outcomes))


def _write_text(what: str, path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise CommandFailed(
            f"The {what} can't be written to {printable(path)}: {error.strerror}."
        ) from None
