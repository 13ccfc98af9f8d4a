"""Ownership strips for the terminal: a line for each partition, a column for each moment."""

from collections.abc import Iterator

from coterie.lab.entries import Interval
from coterie.lab.kernel import SECOND
from coterie.lab.outcome import RunOutcome

WIDTH = 72
MAX_ROWS = 12
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SIGNS = {
    "barrier": "|",
    "handover": "/",
    "undetected": "?",
    "waiting": ".",
    "delay": ":",
    "broker": "!",
    "poison": "*",
    "start": "^",
    "idle": "x",
}
_DOUBLE = "="
_SHORTEST_US = 10 * SECOND


def legend() -> list[str]:
    """Return the lines that explain the signs."""
    return [
        "A letter is the member that reads; = two members read. Without a reader:",
        "| stopped for a rebalance that gives it back    / given up, not yet given to another",
        "? its owner is dead or paused, nobody knows     . that is known, rebalance under way",
        ": Connect waits for the worker to come back     ^ the new owner is starting    x gave up",
        "! its broker is down    * a record is tried again and again",
    ]


def end_of_interest_us(outcome: RunOutcome) -> int:
    """Return until when something happens in the outcome: shortly after the last gap."""
    ends = [each.to_us for each in outcome.intervals if each.owner is None]
    last_us = max(ends, default=0)
    return min(int(outcome.window_s * SECOND), max(_SHORTEST_US, last_us * 11 // 10))


def shown_partitions(outcome: RunOutcome) -> range:
    """Return the partitions that are drawn: all, or at most `MAX_ROWS` spread over all of them."""
    count = partition_count(outcome)
    return range(0, count, max(1, -(-count // MAX_ROWS)))


def partition_count(outcome: RunOutcome) -> int:
    """Return how many partitions there are at the end; a script may have added some."""
    return 1 + max((each.partition for each in outcome.intervals), default=outcome.partitions - 1)


def strip_lines(outcome: RunOutcome) -> Iterator[str]:
    """Yield the strip of an outcome: a heading, partitions, a time axis."""
    end_us = end_of_interest_us(outcome)
    metrics = outcome.metrics
    yield (
        f"{outcome.machine}: {metrics['unowned']:,.1f} partition-seconds without a reader,"
        f" {metrics['moves']:,.0f} moves"
    )
    numbers = shown_partitions(outcome)
    rows: dict[int, list[Interval]] = {number: [] for number in numbers}
    for interval in outcome.intervals:
        if interval.partition in rows:
            rows[interval.partition].append(interval)
    letters: dict[str, str] = {}
    for number in numbers:
        yield f"  {number:>5} {_strip(rows[number], end_us, letters)}"
    marks = [f"{end_us * part / 4 / SECOND:.4g} s" for part in range(5)]
    axis = "".join(mark.ljust(WIDTH // 4) for mark in marks)
    yield f"        {axis.rstrip()}"


def _strip(intervals: list[Interval], end_us: int, letters: dict[str, str]) -> str:
    """Return one line; in each column, gaps and double reading come before reading."""
    cells = [" "] * WIDTH
    for gaps in (False, True):
        for interval in sorted(intervals, key=lambda each: each.from_us):
            if (interval.owner is None) is not gaps or interval.from_us >= end_us:
                continue
            first = interval.from_us * WIDTH // end_us
            last = max(first, (min(interval.to_us, end_us) * WIDTH - 1) // end_us)
            if interval.owner is None:
                sign = _SIGNS[interval.cause]
            else:
                sign = letters.setdefault(interval.owner, _LETTERS[len(letters) % len(_LETTERS)])
            for column in range(first, min(last, WIDTH - 1) + 1):
                cells[column] = sign
    _mark_double(intervals, end_us, cells)
    return "".join(cells)


def _mark_double(intervals: list[Interval], end_us: int, cells: list[str]) -> None:
    """Mark the columns in which two members read for some of the time."""
    readers = sorted(
        (each for each in intervals if each.owner is not None), key=lambda each: each.from_us
    )
    until_us = 0
    for each in readers:
        if each.from_us < until_us and each.from_us < end_us:
            first = each.from_us * WIDTH // end_us
            last = (min(until_us, each.to_us, end_us) * WIDTH - 1) // end_us
            for column in range(first, min(last, WIDTH - 1) + 1):
                cells[column] = _DOUBLE
        until_us = max(until_us, each.to_us)
