"""Lag and progress of a group over time, summed over its partitions, in steps of equal length.

Over a long time each step covers several minutes. It has the mean progress and the highest lag of
those minutes.
"""

from collections.abc import Sequence
from typing import NamedTuple

from coterie.pipeline.report.content import GroupContent, Row

_MINUTE_MS = 60_000


class Series(NamedTuple):
    """A value for each step.

    Attributes:
        start_ms: the beginning of the first step.
        step_ms: the length of a step.
        values: None where the value is unknown.
    """

    start_ms: int
    step_ms: int
    values: list[float | None]


def progress_series(group: GroupContent, span_ms: tuple[int, int], most: int) -> Series | None:
    """Return the messages per second by which the group advanced. No commits are no progress.

    Args:
        group: the group.
        span_ms: the time to cover.
        most: the largest number of steps.
    """
    step_ms = _step_ms(span_ms, most)
    found = _by_step(group.tables["progress"], "advance", step_ms)
    seconds = step_ms / 1_000
    return _series(
        span_ms,
        step_ms,
        {at: round(sum(known) / seconds, 1) for at, (known, _) in found.items()},
        0,
    )


def lag_series(group: GroupContent, span_ms: tuple[int, int], most: int) -> Series | None:
    """Return the messages between the group and the ends of its logs; arguments as above."""
    step_ms = _step_ms(span_ms, most)
    found = _by_step(group.tables["lag"], "lag", step_ms)
    highest = {at: None if unknown else max(known) for at, (known, unknown) in found.items()}
    return _series(span_ms, step_ms, highest, None)


def _step_ms(span_ms: tuple[int, int], most: int) -> int:
    minutes = (span_ms[1] - span_ms[0]) // _MINUTE_MS + 1
    return -(-minutes // most) * _MINUTE_MS


def _series(
    span_ms: tuple[int, int],
    step_ms: int,
    values: dict[int, float | None] | dict[int, float],
    missing: float | None,
) -> Series | None:
    if all(value is None for value in values.values()):
        return None
    first = min(*values, span_ms[0] // step_ms * step_ms)
    last = max(*values, span_ms[1] // step_ms * step_ms)
    steps = range(first, last + 1, step_ms)
    return Series(first, step_ms, [values.get(at, missing) for at in steps])


def _by_step(rows: Sequence[Row], column: str, step_ms: int) -> dict[int, tuple[list[float], int]]:
    """Return by step the known values and the number of unknown ones."""
    found: dict[int, tuple[list[float], int]] = {}
    for row in rows:
        at = row["window_start_ts"] // step_ms * step_ms
        values, unknown = found.get(at, ([], 0))
        value = row[column]
        if value is None:
            unknown += 1
        else:
            values.append(value)
        found[at] = values, unknown
    return found
