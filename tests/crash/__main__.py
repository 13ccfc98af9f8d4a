"""Crash the broker's log in every way that we know: `python -m tests.crash`, or `make crash`.

Real processes are killed, planted bugs are searched for, and disks are made and started on, kind by
kind. Each failure is printed with the command that repeats it; the figures follow. The exit status
is 0 only if nothing acknowledged was lost, no answer was wrong and every planted bug was found.
"""

import multiprocessing
import os
import time

import click

from tests.crash.campaign import KINDS, Campaign, Runner, Task, pair_tasks, tasks_of
from tests.crash.headers import try_headers
from tests.crash.pair_table import claims, search
from tests.crash.plants import PLANTS, find
from tests.crash.scenarios import SCENARIOS
from tests.crash.transaction_crashes import crash_for
from tests.crash.transaction_crashes import repeat as repeat_crash
from tests.crash.transaction_plants import PLANTS as TRANSACTION_PLANTS
from tests.crash.transaction_plants import find as find_in_transactions

# The share of the time in which real processes are killed: on a busy machine starts take long.
_KILLS_SHARE = 0.25
# The share of the time for kills while real clients copy records exactly once.
_PIPELINE_SHARE = 0.15
# The share of the time for crashes while transactions run.
_TRANSACTIONS_SHARE = 0.2
# The share of the time for pairs of operations.
_PAIRS_SHARE = 0.25
# How many of the failures are printed.
_MAX_PRINTED = 40
# Every planted bug, and the search for it.
_ALL_PLANTS = (
    *((plant, find) for plant in PLANTS),
    *((plant, find_in_transactions) for plant in TRANSACTION_PLANTS),
)


@click.command()
@click.option("--seconds", default=600.0, show_default=True, help="How long to run, about.")
@click.option("--processes", default=os.cpu_count() or 1, show_default=True, help="At a time.")
@click.option("--kinds", default=",".join(KINDS), show_default=True, help="Kinds, in order.")
@click.option("--scenarios", default=",".join(SCENARIOS), show_default=True, help="Scenarios.")
@click.option("--plants/--no-plants", default=True, help="Search for the planted bugs, too.")
@click.option("--kills", default=200, show_default=True, help="How often to kill real processes.")
@click.option(
    "--pipeline-kills", default=60, show_default=True, help="The same, with transactions."
)
@click.option("--transactions/--no-transactions", default=True, help="Crash transactions, too.")
@click.option("--pairs/--no-pairs", default=True, help="Cross all operations, too.")
@click.option("--repeat", default="", metavar="WHERE", help="One crash, as a failure printed it.")
@click.option(
    "--repeat-transactions", default="", metavar="WHERE", help="The same, of transactions."
)
def main(
    *,
    seconds: float,
    processes: int,
    kinds: str,
    scenarios: str,
    plants: bool,
    kills: int,
    pipeline_kills: int,
    transactions: bool,
    pairs: bool,
    repeat: str,
    repeat_transactions: str,
) -> None:
    """Crash, damage and fail; compare what is left with what was acknowledged."""
    if repeat:
        raise SystemExit(_repeat(repeat))
    if repeat_transactions:
        wrong = repeat_crash(repeat_transactions)
        click.echo("\n".join(wrong) or "nothing is wrong")
        raise SystemExit(1 if wrong else 0)
    began = time.monotonic()
    failures = _kill(kills, processes, seconds * _KILLS_SHARE) if kills else 0
    if pipeline_kills:
        failures += _kill_pipeline(pipeline_kills, seconds * _PIPELINE_SHARE)
    failures += _try_headers() if plants else 0
    if transactions:
        failures += _crash_transactions(seconds * _TRANSACTIONS_SHARE, processes)
    missed = _search_for_plants(processes) if plants else 0
    if pairs:
        failures += _cross_operations(seconds * _PAIRS_SHARE, processes)
        missed += _search_by_pairs(processes) if plants else 0
    campaign = Campaign()
    tasks = tasks_of(kinds.split(","), scenarios.split(","))
    left = campaign.run_for(seconds - (time.monotonic() - began), tasks, processes)
    for line in (*campaign.failures[:_MAX_PRINTED], *campaign.table()):
        click.echo(line)
    failures += campaign.wrong
    click.echo(f"{campaign.tasks} tasks done, {left} not begun for lack of time")
    click.echo(f"{failures} failures, {missed} plants not found")
    raise SystemExit(1 if failures or missed else 0)


def _repeat(where: str) -> int:
    """Repeat one crash, given as `kind:scenario:mode:operations:detail`."""
    kind, scenario, mode, operations, detail = where.split(":", 4)
    task = Task(kind, scenario, mode == "commit", int(operations), int(operations))
    result = Runner(task).run(detail)
    for line in result.failures:
        click.echo(line)
    click.echo(f"{sum(result.outcomes.values())} tried: {dict(result.outcomes)}")
    return 1 if result.failures else 0


def _kill(kills: int, processes: int, at_most_s: float) -> int:
    """Kill real processes, print the figures, and return the number of failures."""
    from tests.crash.kills import kill_many  # It needs a server, unlike everything else here.

    done = kill_many(kills, processes, at_most_s=at_most_s)
    for line in done.table():
        click.echo(line)
    return len(done.failures)


def _kill_pipeline(kills: int, at_most_s: float) -> int:
    """Kill broker and clients of a pipeline, print the figures, return the number of failures."""
    from tests.crash.transaction_kills import kill_pipeline  # It needs clients, as above.

    done = kill_pipeline(kills, at_most_s)
    for line in done.table():
        click.echo(line)
    return len(done.failures)


def _crash_transactions(seconds: float, processes: int) -> int:
    """Crash while transactions run, print the figures, and return the number of failures."""
    tried, failures = crash_for(seconds, processes)
    for line in failures[:_MAX_PRINTED]:
        click.echo(line)
    for kind, count in sorted(tried.items()):
        click.echo(f"{kind:<28}{count:>10,}")
    return len(failures)


def _try_headers() -> int:
    """Produce batches with wrong headers, print the figures, and return the number of failures."""
    done = try_headers()
    for line in done.table()[-_MAX_PRINTED:]:
        click.echo(line)
    return len(done.failures)


def _search_for_plants(processes: int) -> int:
    """Search for every planted bug, print a table, and return how many were not found."""
    missed = 0
    click.echo(f"\n{'planted bug':<78}{'by':<24}{'seconds':>9}")
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        results = pool.imap(_search, range(len(_ALL_PLANTS)))
        for (plant, _), (found, seconds) in zip(_ALL_PLANTS, results, strict=True):
            missed += not found
            click.echo(f"{plant.name:<78}{found or 'NOT FOUND':<24}{seconds:>9.2f}")
    return missed


def _cross_operations(seconds: float, processes: int) -> int:
    """Crash pairs of operations, print the figures, and return the number of failures."""
    campaign = Campaign()
    campaign.run_for(seconds, pair_tasks(), processes)
    click.echo("\npairs of operations")
    for line in (*campaign.failures[:_MAX_PRINTED], *campaign.table()):
        click.echo(line)
    return campaign.wrong


def _search_by_pairs(processes: int) -> int:
    """Search for each bug by each pair that docs/crashes.md names; return how many failed."""
    named = claims()
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        results = pool.starmap(search, named)
    missed = [claim for claim, found in zip(named, results, strict=True) if not found]
    for letter, pair in missed:
        click.echo(f"plant {letter} is not found by {pair}")
    click.echo(
        f"{len(named) - len(missed)} of {len(named)} searches by pairs have found their plant"
    )
    return len(missed)


def _search(number: int) -> tuple[str, float]:
    """Search for one planted bug, in a process of a pool; return by what it was found, and when."""
    began = time.monotonic()
    plant, search = _ALL_PLANTS[number]
    return search(plant), time.monotonic() - began


if __name__ == "__main__":
    main()
