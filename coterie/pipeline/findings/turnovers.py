"""Groups all of whose members were replaced: by a restart of the broker, or by a rollout.

One join, or one member with its successor, is no turnover: every member that a group had must end
its session, and others must have begun theirs [pipeline/rollout].
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from coterie.pipeline.findings.changes import MINUTE_MS, Session
from coterie.pipeline.findings.finding import episodes

# A rolling deployment stops the next member when the one before is back, which takes seconds, and
# rarely more than a minute.
NEXT_MS = MINUTE_MS
# A deployment of more than ten members takes longer, but half of the groups have fewer.
LONGEST_MS = 10 * MINUTE_MS
# What a broker does to a group happens in one rebalance. Sessions of one rebalance may differ by
# the time that the join phase takes.
AT_ONCE_MS = 2_000


class Turnover(NamedTuple):
    """The time in which all members of a group were replaced.

    Attributes:
        group_id: the group.
        from_ms, to_ms: the first and the last end or beginning of a session.
        members: how many members were replaced.
        at_once: whether they were in one rebalance, so that the group was never empty.
    """

    group_id: str
    from_ms: int
    to_ms: int
    members: int
    at_once: bool


def turnovers_of(group_id: str, sessions: Sequence[Session]) -> Iterator[Turnover]:
    """Yield the turnovers of a group, in order of time."""
    ended = sorted(
        (each for each in sessions if each.to_ms is not None), key=lambda each: each.to_ms or 0
    )
    after_ms = -1
    for session in ended:
        begin_ms = session.to_ms or 0
        if begin_ms <= after_ms:
            continue
        found = _turnover(group_id, sessions, begin_ms)
        if found is not None:
            yield found
            after_ms = found.to_ms


def _turnover(group_id: str, sessions: Sequence[Session], begin_ms: int) -> Turnover | None:
    """Return the turnover that begins with the end of a session, if there is one."""
    old = [
        each
        for each in sessions
        if each.from_ms < begin_ms - NEXT_MS and (each.to_ms is None or each.to_ms >= begin_ms)
    ]
    if not old or any(each.to_ms is None for each in old):
        return None
    ends = sorted(each.to_ms or 0 for each in old)
    last_ms = ends[-1]
    begins = sorted(
        each.from_ms for each in sessions if begin_ms - NEXT_MS <= each.from_ms <= last_ms + NEXT_MS
    )
    times = sorted([*ends, *begins])
    gaps = (later - earlier for earlier, later in pairwise(times))
    if not begins or last_ms - begin_ms > LONGEST_MS or max(gaps, default=0) > NEXT_MS:
        return None
    here = sum(
        each.from_ms >= begin_ms - NEXT_MS
        and (each.to_ms is None or each.to_ms > last_ms + NEXT_MS)
        for each in sessions
        if each.from_ms <= last_ms + NEXT_MS
    )
    if 2 * here < len(old):
        return None
    at_once = last_ms - begin_ms <= AT_ONCE_MS and begins[0] <= last_ms
    return Turnover(group_id, times[0], times[-1], len(old), at_once)


def together(turnovers: Sequence[Turnover], within_ms: int) -> Iterator[list[Turnover]]:
    """Yield turnovers that begin within a time of the first of them; times do not chain."""
    in_order = sorted(turnovers, key=lambda each: each.from_ms)
    return episodes(in_order, lambda each: each.from_ms, within_ms)


def all_turnovers(sessions: Mapping[str, Sequence[Session]]) -> list[Turnover]:
    """Return the turnovers of all groups."""
    return [found for group_id, each in sessions.items() for found in turnovers_of(group_id, each)]
