"""The parts of a run, and how its time is divided among them.

Each part gets its share of the time that is left. So what one part leaves over the others get, and
what one takes too much they lose; no part gets nothing, and the run ends when it should.
"""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Report(NamedTuple):
    """What a part did.

    Attributes:
        what: in a few words, with figures.
        failures: how many crashes, kills or answers were wrong.
        missed: how many planted bugs were searched for and not found.
    """

    what: str
    failures: int = 0
    missed: int = 0


class Part(NamedTuple):
    """A part of a run.

    Attributes:
        name: for the table.
        share: of the time, relative to the others.
        run: does it until a time on the monotonic clock.
    """

    name: str
    share: float
    run: Callable[[float], Report]


class PartRun(NamedTuple):
    """A part that was done: the seconds that it got, those that it took, and its report."""

    name: str
    given_s: float
    took_s: float
    report: Report


def run_parts(
    parts: Sequence[Part], seconds: float, now_s: Callable[[], float] = time.monotonic
) -> list[PartRun]:
    """Run parts one after the other.

    Args:
        parts: the parts.
        seconds: the time of all of them.
        now_s: the monotonic clock.
    """
    end_s = now_s() + seconds
    done = []
    for number, part in enumerate(parts):
        began_s = now_s()
        share = part.share / sum(each.share for each in parts[number:])
        given_s = max(end_s - began_s, 0.0) * share
        report = part.run(began_s + given_s)
        done.append(PartRun(part.name, given_s, now_s() - began_s, report))
    return done


def table(done: Sequence[PartRun]) -> list[str]:
    """Return a line for each part."""
    head = f"\n{'part':<30}{'had s':>8}{'took s':>8}  what it did"
    return [
        head,
        *(
            f"{each.name:<30}{each.given_s:>8.1f}{each.took_s:>8.1f}  {each.report.what}"
            for each in done
        ),
    ]


def search_until(
    until_s: float, search: Callable[[int], Any], numbers: Sequence[int], processes: int
) -> dict[int, Any]:
    """Make as many searches as there is time for, in a pool of processes.

    Args:
        until_s: the end, on the monotonic clock. A search that runs then is given up.
        search: makes the search with a number, and returns what it has found.
        numbers: the numbers of the searches, in order.
        processes: how many are made at a time.

    Returns:
        What the searches that have ended have found, by their numbers.
    """
    found: dict[int, Any] = {}
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        results = pool.imap_unordered(_Numbered(search), numbers)
        while len(found) < len(numbers):
            try:
                number, result = results.next(max(until_s - time.monotonic(), 0.0))
            except multiprocessing.TimeoutError:
                break
            found[number] = result
    return found


class _Numbered:
    """Makes a search, and returns its number too."""

    def __init__(self, search: Callable[[int], Any]) -> None:
        self._search = search

    def __call__(self, number: int) -> tuple[int, Any]:
        return number, self._search(number)
