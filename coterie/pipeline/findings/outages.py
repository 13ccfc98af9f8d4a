"""Outages: no group commits for a while, and then all sessions are new [pipeline/outage]."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from coterie.pipeline.findings.changes import MINUTE_MS, Session
from coterie.pipeline.timeline.departures import LEAVE

# Consumers commit every five seconds by default.
LEAST_SILENCE_MS = 5_000
# Where commits are rare, a silence is unusual if it is this many times the gaps between them.
UNUSUAL = 3
_USUAL_PERCENTILE = 95
# One group may have been killed and started again just then, while the other ones had nothing to
# read. That many groups were silent at once is no chance.
REPLACED_GROUPS = 2
SILENT_GROUPS = 4
# Members that were expelled come back within a heartbeat and a join phase; those that try an
# address that is not there wait up to some seconds between two attempts.
RETURN_MS = MINUTE_MS


class Outage(NamedTuple):
    """A time in which nothing was recorded of any group, and after which sessions are new.

    Attributes:
        from_ms, to_ms: the last record before it, and the first one after it.
        groups: the groups all of whose members were replaced after it.
        replaced_ms: the time between the first and the last of these replacements.
        last_replaced_ms: the last of them.
        known: how many groups had members.
        missing: the identities of members that expired after it and did not come back.
        loaded_ms: when a coordinator loaded its partitions; None if no journal says so.
    """

    from_ms: int
    to_ms: int
    groups: tuple[str, ...]
    replaced_ms: int
    last_replaced_ms: int
    known: int
    missing: tuple[str, ...]
    loaded_ms: int | None


def outages(
    records_ms: Iterable[int], sessions: Mapping[str, Sequence[Session]], loaded_ms: Sequence[int]
) -> Iterator[Outage]:
    """Find the outages.

    Args:
        records_ms: when anything was recorded: commits, rebalances, joins and departures.
        sessions: the sessions of each group.
        loaded_ms: when a coordinator loaded a partition.
    """
    times = np.unique(np.fromiter(records_ms, np.int64))
    if len(times) < 2:
        return
    gaps = np.diff(times)
    usual = float(np.percentile(gaps, _USUAL_PERCENTILE))
    least = max(LEAST_SILENCE_MS, UNUSUAL * usual)
    silences = [(int(times[n]), int(times[n + 1])) for n in np.flatnonzero(gaps >= least)]
    for from_ms, to_ms in silences:
        found = _outage(from_ms, to_ms, sessions, loaded_ms)
        if found is not None:
            yield found


def _outage(
    from_ms: int, to_ms: int, sessions: Mapping[str, Sequence[Session]], loaded_ms: Sequence[int]
) -> Outage | None:
    known, replaced, moments = 0, [], []
    missing: list[str] = []
    until_ms = to_ms + RETURN_MS
    for group_id, of_group in sessions.items():
        old = [
            each
            for each in of_group
            if each.from_ms <= from_ms and (each.to_ms is None or each.to_ms > from_ms)
        ]
        if not old:
            continue
        known += 1
        ends = [each.to_ms for each in old if each.to_ms is not None and each.to_ms <= until_ms]
        begins = [each.from_ms for each in of_group if from_ms < each.from_ms <= until_ms]
        back = {each.identity for each in of_group if each.from_ms > from_ms}
        missing += [
            each.identity
            for each in old
            if each.to_ms is not None
            and each.to_ms <= until_ms
            and each.exit_kind != LEAVE
            and each.identity not in back
        ]
        # The group was never empty: its new members joined before or as the old ones expired.
        if len(ends) == len(old) and begins and min(begins) <= max(ends):
            replaced.append(group_id)
            moments.append(max(*ends, min(begins)))
    loads = [each for each in loaded_ms if from_ms <= each <= to_ms + RETURN_MS]
    # Java's members keep their ids, so after an outage some groups have new members and some go on.
    needed = 1 if loads or known >= SILENT_GROUPS else REPLACED_GROUPS
    if len(replaced) < needed:
        return None
    return Outage(
        from_ms,
        to_ms,
        tuple(sorted(replaced)),
        max(moments) - min(moments),
        max(moments),
        known,
        tuple(missing),
        loads[0] if loads else None,
    )
