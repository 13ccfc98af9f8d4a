"""Crash the broker's log in every way that we know: `python -m tests.crash`, or `make crash`.

Real processes are killed, planted bugs are searched for, and disks are made and started on, kind by
kind. Each failure is printed with the command that repeats it; the figures follow, and what each
part did in its share of the time. The exit status is 0 only if nothing acknowledged was lost, no
answer was wrong and every planted bug that was searched for was found.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from functools import partial

import click

from tests.crash.campaign import KINDS, Campaign, Runner, Task, pair_tasks, tasks_of
from tests.crash.group_crashes import GroupCrashes
from tests.crash.group_plants import PLANTS as GROUP_PLANTS
from tests.crash.headers import try_headers
from tests.crash.pair_plants import PAIR_PLANTS
from tests.crash.pair_table import claims, search
from tests.crash.parts import Part, Report, run_parts, search_until, table
from tests.crash.plants import PLANTS, find
from tests.crash.scenarios import SCENARIOS
from tests.crash.security_crashes import SecurityCrashes
from tests.crash.security_plants import PLANTS as SECURITY_PLANTS
from tests.crash.share_crashes import ShareCrashes
from tests.crash.share_plants import PLANTS as SHARE_PLANTS
from tests.crash.story_crashes import StoryCrashes, crash_until
from tests.crash.story_crashes import find as find_in_story
from tests.crash.story_crashes import repeat as repeat_crash
from tests.crash.transaction_crashes import TransactionCrashes
from tests.crash.transaction_plants import PLANTS as TRANSACTION_PLANTS
from tests.planting import Plant

# How many of the failures are printed.
_MAX_PRINTED = 40
# Every planted bug, and the search for it.
_ALL_PLANTS: tuple[tuple[Plant, Callable[[Plant], str]], ...] = (
    *((plant, find) for plant in PLANTS),
    *((plant, partial(find_in_story, TransactionCrashes)) for plant in TRANSACTION_PLANTS),
    *((plant, partial(find_in_story, GroupCrashes)) for plant in GROUP_PLANTS),
    *((plant, partial(find_in_story, SecurityCrashes)) for plant in SECURITY_PLANTS),
    *((plant, partial(find_in_story, ShareCrashes)) for plant in SHARE_PLANTS),
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
@click.option(
    "--security-kills", default=40, show_default=True, help="The same, with users and rules."
)
@click.option(
    "--stories/--no-stories", default=True, help="Crash transactions, groups and users, too."
)
@click.option("--pairs/--no-pairs", default=True, help="Cross all operations, too.")
@click.option("--repeat", default="", metavar="WHERE", help="One crash, as a failure printed it.")
@click.option(
    "--repeat-transactions", default="", metavar="WHERE", help="The same, of transactions."
)
@click.option("--repeat-groups", default="", metavar="WHERE", help="The same, of groups.")
@click.option("--repeat-security", default="", metavar="WHERE", help="The same, of users, rules.")
@click.option("--repeat-shares", default="", metavar="WHERE", help="The same, of share groups.")
def main(
    *,
    seconds: float,
    processes: int,
    kinds: str,
    scenarios: str,
    plants: bool,
    kills: int,
    pipeline_kills: int,
    security_kills: int,
    stories: bool,
    pairs: bool,
    repeat: str,
    repeat_transactions: str,
    repeat_groups: str,
    repeat_security: str,
    repeat_shares: str,
) -> None:
    """Crash, damage and fail; compare what is left with what was acknowledged."""
    if repeat:
        raise SystemExit(_repeat(repeat))
    if repeat_transactions:
        raise SystemExit(_repeat_in_story(TransactionCrashes, repeat_transactions))
    if repeat_groups:
        raise SystemExit(_repeat_in_story(GroupCrashes, repeat_groups))
    if repeat_security:
        raise SystemExit(_repeat_in_story(SecurityCrashes, repeat_security))
    if repeat_shares:
        raise SystemExit(_repeat_in_story(ShareCrashes, repeat_shares))
    parts = _parts(
        kinds.split(","),
        scenarios.split(","),
        processes,
        kills=kills,
        pipeline_kills=pipeline_kills,
        security_kills=security_kills,
        plants=plants,
        stories=stories,
        pairs=pairs,
    )
    done = run_parts(list(parts), seconds)
    for line in table(done):
        click.echo(line)
    failures = sum(each.report.failures for each in done)
    missed = sum(each.report.missed for each in done)
    took_s = sum(each.took_s for each in done)
    click.echo(f"{failures} failures, {missed} plants not found, in {took_s:.0f} s")
    raise SystemExit(1 if failures or missed else 0)


def _parts(
    kinds: list[str],
    scenarios: list[str],
    processes: int,
    *,
    kills: int,
    pipeline_kills: int,
    security_kills: int,
    plants: bool,
    stories: bool,
    pairs: bool,
) -> Iterator[Part]:
    """Yield the parts of a run, with their shares of the time."""
    if kills:
        yield Part("kills", 20, lambda until_s: _kill(kills, processes, until_s))
    if pipeline_kills:
        # The clients need some seconds more to copy the rest.
        yield Part("kills of pipelines", 8, lambda until_s: _kill_pipeline(pipeline_kills, until_s))
    if security_kills:
        yield Part("kills with users", 8, lambda until_s: _kill_secured(security_kills, until_s))
    if plants:
        yield Part("wrong headers", 5, _try_headers)
    if stories:
        stories_of = (
            (13, TransactionCrashes),
            (13, GroupCrashes),
            (3, SecurityCrashes),
            (3, ShareCrashes),
        )
        for share, of in stories_of:
            yield Part(f"crashes of {of.what}", share, partial(_crash_stories, of, processes))
    if plants:
        yield Part("planted bugs", 16, lambda until_s: _search_for_plants(until_s, processes))
    if pairs:
        yield Part("pairs of operations", 18, lambda until_s: _cross(until_s, processes))
    if pairs and plants:
        yield Part(
            "planted bugs, by pairs", 8, lambda until_s: _search_by_pairs(until_s, processes)
        )
    yield Part("disks", 12, lambda until_s: _crash_disks(until_s, kinds, scenarios, processes))


def _repeat(where: str) -> int:
    """Repeat one crash, given as `kind:scenario:mode:operations:detail`."""
    kind, scenario, mode, operations, detail = where.split(":", 4)
    task = Task(kind, scenario, mode == "commit", int(operations), int(operations))
    result = Runner(task).run(detail)
    for line in result.failures:
        click.echo(line)
    click.echo(f"{sum(result.outcomes.values())} tried: {dict(result.outcomes)}")
    return 1 if result.failures else 0


def _repeat_in_story(of: type[StoryCrashes], where: str) -> int:
    """Repeat one crash of a story, as a failure printed it."""
    wrong = repeat_crash(of, where)
    click.echo("\n".join(wrong) or "nothing is wrong")
    return 1 if wrong else 0


def _print(lines: list[str], head: str) -> None:
    click.echo(f"\n{head}")
    for line in lines:
        click.echo(line)


def _kill(kills: int, processes: int, until_s: float) -> Report:
    """Kill real processes."""
    from tests.crash.kills import kill_many  # It needs a server, unlike everything else here.

    done = kill_many(kills, processes, at_most_s=until_s - time.monotonic())
    _print(done.table(), "kills")
    return Report(f"{done.kills} of {kills} kills", len(done.failures))


def _kill_pipeline(kills: int, until_s: float) -> Report:
    """Kill broker and clients of a pipeline."""
    from tests.crash.transaction_kills import kill_pipeline  # It needs clients, as above.

    done = kill_pipeline(kills, until_s)
    _print(done.table(), "kills of pipelines")
    what = f"{done.kills} of {kills} kills, {done.copied:,} records copied"
    return Report(what, len(done.failures))


def _kill_secured(kills: int, until_s: float) -> Report:
    """Kill a broker whose users, rules and tokens change."""
    from tests.crash.security_kills import kill_secured  # It needs clients, as above.

    done = kill_secured(kills, until_s)
    _print(done.table(), "kills with users")
    return Report(f"{done.kills} of {kills} kills", len(done.failures))


def _crash_stories(of: type[StoryCrashes], processes: int, until_s: float) -> Report:
    """Crash while a story runs."""
    tried, failures = crash_until(of, until_s, processes)
    figures = [f"{kind:<28}{count:>10,}" for kind, count in sorted(tried.items())]
    _print([*failures[:_MAX_PRINTED], *figures], f"crashes of {of.what}")
    return Report(f"{tried.total():,} disks", len(failures))


def _try_headers(until_s: float) -> Report:
    """Produce batches with wrong headers."""
    done = try_headers(until_s=until_s)
    _print(done.table()[-_MAX_PRINTED:], "wrong headers")
    tried = done.outcomes.total()
    return Report(f"{tried:,} of {tried + done.untried:,} batches", len(done.failures))


def _search_for_plants(until_s: float, processes: int) -> Report:
    """Search for every planted bug."""
    # In any order: where there is no time for all, each run searches for others.
    order = random.sample(range(len(_ALL_PLANTS)), len(_ALL_PLANTS))
    found = search_until(until_s, _search, order, processes)
    lines = []
    for number, (by, seconds) in sorted(found.items()):
        plant, _ = _ALL_PLANTS[number]
        lines.append(f"{plant.name:<78}{by or 'NOT FOUND':<24}{seconds:>9.2f}")
    _print(lines, f"{'planted bug':<78}{'by':<24}{'seconds':>9}")
    missed = sum(not by for by, _ in found.values())
    return Report(f"{len(found)} of {len(_ALL_PLANTS)} searches ended", missed=missed)


def _search(number: int) -> tuple[str, float]:
    """Search for one planted bug, in a process of a pool; return by what it was found, and when."""
    began = time.monotonic()
    plant, search = _ALL_PLANTS[number]
    return search(plant), time.monotonic() - began


def _cross(until_s: float, processes: int) -> Report:
    """Crash pairs of operations."""
    campaign = Campaign()
    campaign.run_until(until_s, pair_tasks(), processes)
    _print([*campaign.failures[:_MAX_PRINTED], *campaign.table()], "pairs of operations")
    return Report(f"{campaign.tasks:,} tasks, {len(campaign.disks):,} disks", campaign.wrong)


def _search_by_pairs(until_s: float, processes: int) -> Report:
    """Search for each bug by each pair that pairs.tsv names, for each bug once at first.

    The others are searched for in any order, so each run has others where there is no time for all.
    """
    named = claims()
    random.shuffle(named)
    firsts = {letter: (letter, pair) for letter, pair in reversed(named)}
    named = [*firsts.values(), *(each for each in named if each not in firsts.values())]
    assert firsts.keys() == {each.letter for each in PAIR_PLANTS}, "the document has every letter"
    found = search_until(until_s, _ByPair(named), range(len(named)), processes)
    missed = [named[number] for number, by in sorted(found.items()) if not by]
    for letter, pair in missed:
        click.echo(f"plant {letter} is not found by {pair}")
    return Report(f"{len(found)} of {len(named)} searches ended", missed=len(missed))


class _ByPair:
    """The search for a planted bug by a pair."""

    def __init__(self, named: list[tuple[str, str]]) -> None:
        self._named = named

    def __call__(self, number: int) -> str:
        return search(*self._named[number])


def _crash_disks(until_s: float, kinds: list[str], scenarios: list[str], processes: int) -> Report:
    """Start on the disks of scenarios."""
    campaign = Campaign()
    left = campaign.run_until(until_s, tasks_of(kinds, scenarios), processes)
    _print([*campaign.failures[:_MAX_PRINTED], *campaign.table()], "disks")
    what = f"{campaign.tasks:,} of {campaign.tasks + left:,} tasks begun"
    return Report(f"{what}, {len(campaign.disks):,} disks", campaign.wrong)


if __name__ == "__main__":
    main()
