"""`python -m benchmarks` (`make bench`): measure brokers side by side, print tables.

Without options it starts and measures our server, librdkafka's mock cluster and the floor, three
rounds of three seconds for each figure. `--peer NAME=HOST:PORT` adds a broker that already runs.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import TextIO

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks import brokers as own
from benchmarks.address import NotLoopback
from benchmarks.brokers import Broker, Peer
from benchmarks.measures import Row, Scenario
from benchmarks.report import as_json, goals_table, machine, scenario_table
from benchmarks.rounds import LONGEST_DURATION_S, Plan, Step, Table, measure, steps
from benchmarks.scenarios import SCENARIOS

# The tables are wider than the 80 columns that rich assumes for a pipe.
PIPED_WIDTH = 150

QUICK = Plan(rounds=1, duration_s=0.3, settle_s=0.1, warmup_s=1.0, quick=True)
# The groups of 500 and of 1,000 members are left out of a quick run.
SLOW_ROWS = frozenset({("large_groups", "500"), ("large_groups", "1000")})

_OWN_BROKERS = {"coterie": own.coterie, "mock": own.mock, "floor": own.floor}


def chosen_rows(names: tuple[str, ...], *, quick: bool) -> list[tuple[Scenario, Row]]:
    """Return the rows of the named scenarios or rows ("churn", "heartbeat/closed"), or all."""
    everything = [(scenario, row) for scenario in SCENARIOS.values() for row in scenario.rows]
    known = {name for s, r in everything for name in (s.key, f"{s.key}/{r.key}")}
    for name in names:
        if name not in known:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(sorted(known))}")
    return [
        (scenario, row)
        for scenario, row in everything
        if (not names and not (quick and (scenario.key, row.key) in SLOW_ROWS))
        or scenario.key in names
        or f"{scenario.key}/{row.key}" in names
    ]


def chosen_brokers(
    peers: tuple[str, ...], without: tuple[str, ...], trees: tuple[str, ...] = ()
) -> list[Broker]:
    """Return our server, the mock cluster, the other trees, the peers and the floor in order."""
    started = {name: make() for name, make in _OWN_BROKERS.items() if name not in without}
    floor = started.pop("floor", None)
    found: list[Broker] = list(started.values())
    for text in trees:
        name, _, path = text.partition("=")
        if name in [*_OWN_BROKERS, *(broker.name for broker in found)]:
            raise click.BadParameter(f"the name {name!r} is taken", param_hint="--tree")
        try:
            found.append(own.of_tree(name, Path(path).resolve()))
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--tree") from error
    for text in peers:
        try:
            peer = Peer.parse(text)
        except (NotLoopback, ValueError) as error:
            raise click.BadParameter(str(error), param_hint="--peer") from error
        if peer.name in [*_OWN_BROKERS, *(broker.name for broker in found)]:
            raise click.BadParameter(f"the name {peer.name!r} is taken", param_hint="--peer")
        found.append(peer)
    return [*found, floor] if floor is not None else found


def run(todo: list[Step], plan: Plan, console: Console, errors: Console) -> Table:
    """Measure with a progress bar or, without a terminal, with one line for each measurement."""
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
    )
    with progress:
        task = progress.add_task("", total=len(todo))

        def before(step: Step) -> None:
            progress.update(task, description=step.title)
            if not errors.is_terminal:
                errors.print(step.title)

        return measure(todo, plan, before, lambda _: progress.advance(task))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--peer", "peers", multiple=True, metavar="NAME=HOST:PORT[:PID]", help="Add a peer.")
@click.option(
    "--tree",
    "trees",
    multiple=True,
    metavar="NAME=DIRECTORY",
    help="Add our server from another directory, such as build/compiled.",
)
@click.option("--scenario", "names", multiple=True, metavar="NAME", help="Measure only this.")
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(list(_OWN_BROKERS)),
    help="Do not start this broker.",
)
@click.option("--testing", is_flag=True, help="Add the brokers of tests, with and without a fault.")
@click.option("--baseline", metavar="NAME", help="The broker to which ratios refer (coterie).")
@click.option("--rounds", type=click.IntRange(1, 100), help="Rounds for each figure (3).")
@click.option(
    "--duration", type=click.FloatRange(0.1, LONGEST_DURATION_S), help="Seconds per figure (3)."
)
@click.option("--warmup", type=click.FloatRange(0, 40), help="Seconds of warm-up of a JVM (10).")
@click.option("--quick", is_flag=True, help="One short round, small groups: about 20 seconds.")
@click.option("--json", "json_file", type=click.File("w"), help="Write all rounds to a file.")
def main(
    *,
    peers: tuple[str, ...],
    trees: tuple[str, ...],
    names: tuple[str, ...],
    without: tuple[str, ...],
    testing: bool,
    baseline: str | None,
    rounds: int | None,
    duration: float | None,
    warmup: float | None,
    quick: bool,
    json_file: TextIO | None,
) -> None:
    """Measure Kafka group coordinators on loopback addresses side by side."""
    usual = QUICK if quick else Plan()
    plan = Plan(
        rounds or usual.rounds,
        duration or usual.duration_s,
        usual.settle_s,
        usual.warmup_s if warmup is None else warmup,
        quick,
    )
    rows, brokers = chosen_rows(names, quick=quick), chosen_brokers(peers, without, trees)
    brokers += own.of_tests() if testing else []
    known = [broker.name for broker in brokers]
    if not known:
        raise click.UsageError("no broker is left to measure")
    baseline = baseline or known[0]
    if baseline not in known:
        raise click.BadParameter(f"{baseline!r} is not one of {', '.join(known)}")

    # The brokers inherit this limit: a group of 1,000 members has 1,001 connections.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    console = Console() if sys.stdout.isatty() else Console(width=PIPED_WIDTH)
    table = run(steps(rows, brokers, plan), plan, console, Console(stderr=True))

    for scenario in SCENARIOS.values():
        of_scenario = [row for each, row in rows if each is scenario]
        if not of_scenario:
            continue
        console.print(scenario_table(scenario, of_scenario, table, baseline))
        console.print()
    if baseline == "coterie" and not quick:
        console.print(goals_table(table, baseline, known))
    about = machine()
    console.print(
        f"{plan.rounds} x {plan.duration_s:g} s, JVM warm-up {plan.warmup_s:g} s a row. Medians, "
        "and below them the lowest and the highest. CPU µs/request / 10 = CPU seconds per 100,000 "
        f"requests. {about['cpus']} x {about['processor']}, Python {about['python']}, "
        f"uvloop {about['uvloop']}.",
        style="dim",
    )
    if json_file is not None:
        json.dump(as_json(table, plan, baseline), json_file, indent=1)
    if any(result.generator_failed for row in table.values() for result in row.values()):
        raise click.ClickException("the generator failed; see the tables")


if __name__ == "__main__":
    main()
