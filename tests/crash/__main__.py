"""Crash the broker's log in every way we know of: `python -m tests.crash --seconds 600`, or
`make crash`.

First real processes are killed, then disks are made and started on, kind by kind, then the planted
bugs are hunted. Each failure is told with the command that repeats it; the figures follow. The exit
status is 0 only if nothing acknowledged was lost, no answer was wrong and every planted bug was
found.
"""

import os
import time

import click

from tests.crash.campaign import KINDS, Campaign, Runner, Task, tasks_of
from tests.crash.plants import PLANTS, find
from tests.crash.scenarios import STORIES

_MOST_TOLD = 40


@click.command()
@click.option("--seconds", default=600.0, show_default=True, help="How long, about.")
@click.option("--processes", default=os.cpu_count() or 1, show_default=True, help="At a time.")
@click.option("--kinds", default=",".join(KINDS), show_default=True, help="Which kinds, in order.")
@click.option("--stories", default=",".join(STORIES), show_default=True, help="Which stories.")
@click.option("--plants/--no-plants", default=True, help="Whether to hunt the planted bugs too.")
@click.option("--kills", default=200, show_default=True, help="Real processes to kill.")
@click.option("--repeat", default="", metavar="WHERE", help="One crash, as a failure named it.")
def main(
    *,
    seconds: float,
    processes: int,
    kinds: str,
    stories: str,
    plants: bool,
    kills: int,
    repeat: str,
) -> None:
    """Crash, damage and fail; compare what is left with what clients were told."""
    if repeat:
        raise SystemExit(_repeat(repeat))
    began = time.monotonic()
    failures = _kill(kills, processes) if kills else 0
    missed = _hunt() if plants else 0
    campaign = Campaign()
    tasks = tasks_of(kinds.split(","), stories.split(","))
    left = campaign.run_for(seconds - (time.monotonic() - began), tasks, processes)
    for line in (*campaign.failures[:_MOST_TOLD], *campaign.table()):
        click.echo(line)
    failures += campaign.wrong
    click.echo(f"{campaign.tasks} tasks done, {left} left over for want of time")
    click.echo(f"{failures} failures, {missed} plants not found")
    raise SystemExit(1 if failures or missed else 0)


def _repeat(where: str) -> int:
    """Do one crash again, as `kind:story:mode:operations:detail`."""
    kind, story, mode, operations, detail = where.split(":", 4)
    task = Task(kind, story, mode == "commit", int(operations), int(operations))
    result = Runner(task).run(detail)
    for line in result.failures:
        click.echo(line)
    click.echo(f"{sum(result.outcomes.values())} tried: {dict(result.outcomes)}")
    return 1 if result.failures else 0


def _kill(kills: int, processes: int) -> int:
    """Kill real processes, print what came of it, say how many lost something."""
    from tests.crash.kills import kill_many  # needs a server, which nothing else here does

    done = kill_many(kills, processes)
    for line in done.table():
        click.echo(line)
    return len(done.failures)


def _hunt() -> int:
    """Look for every planted bug, print the table, say how many were not found."""
    missed = 0
    click.echo(f"\n{'planted bug':<68}{'by':<24}{'seconds':>9}")
    for plant in PLANTS:
        began = time.monotonic()
        found = find(plant)
        missed += not found
        by = found or "NOT FOUND"
        click.echo(f"{plant.name:<68}{by:<24}{time.monotonic() - began:>9.2f}")
    return missed


if __name__ == "__main__":
    main()
