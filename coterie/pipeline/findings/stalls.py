"""Partitions with a lag and without progress, one finding a group and cause [pipeline/stalls].

While live members make no progress it is critical. If nobody is in the group it is information: a
group that was stopped has a lag.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.findings.changes import MINUTE_MS
from coterie.pipeline.findings.finding import (
    CRITICAL,
    INFO,
    WARNING,
    Finding,
    Rule,
    clock,
    cost_of,
    counted,
    duration,
    places_text,
)
from coterie.pipeline.findings.group import Group, Row, rows_of
from coterie.pipeline.findings.last_progress import LastProgress, Place
from coterie.pipeline.schemas import TIMESTAMP
from coterie.pipeline.transforms.task_partitions import partitions_read

# After this many minutes with a lag and without progress a partition is stalled, as in `lag_1m`.
STALLED_MS = 5 * MINUTE_MS
# Partitions that stall within this time of each other have one cause.
APART_MS = 10 * MINUTE_MS

# A stall that is over matters only if it was longer than processing a batch takes.
PASSED_MS = 8 * MINUTE_MS

STALLED = Rule(
    "stalled_partition", CRITICAL, "members of the group are there, but make no progress"
)
PASSED = Rule("passed_stall", WARNING, "members of the group made no progress for minutes")
EMPTY = Rule("empty_group_with_lag", INFO, "nobody is in a group that has a lag")


class _Stall(NamedTuple):
    """The stall of some partitions.

    Attributes:
        rows: their rows of `lag_1m`, by time.
        has_members: whether the group has members.
        idle: by partition and its last progress the last minute without progress since then.
    """

    rows: list[Row]
    has_members: bool
    idle: dict[tuple[Place, int], int]

    @property
    def from_ms(self) -> int:
        """When the first of the partitions made its last progress."""
        return min(since_ms for _, since_ms in self.idle)

    @property
    def since_ms(self) -> int:
        """When the last of the partitions made its last progress."""
        return max(since_ms for _, since_ms in self.idle)

    @property
    def idle_ms(self) -> int:
        """For how long partitions made no progress, summed over them."""
        return sum(last_ms + MINUTE_MS - since_ms for (_, since_ms), last_ms in self.idle.items())

    @property
    def to_ms(self) -> int:
        """The last minute without progress."""
        last: int = self.rows[-1]["window_start_ts"]
        return last

    @property
    def newest(self) -> dict[Place, Row]:
        """The newest row of each partition."""
        return {_place(row): row for row in self.rows}


def stalled_partitions(group: Group) -> Iterator[Finding]:
    """Find partitions without progress, where the log end is known."""
    rows = _lagging(group)
    if not rows:
        return
    for stall in _stalls(group, rows):
        found = _finding(group, stall)
        if found.rule != PASSED.name or found.to_ms - found.from_ms >= PASSED_MS:
            yield found


def _lagging(group: Group) -> list[Row]:
    """Return the rows of stalled partitions, and those with a lag while nobody is in the group.

    Nobody can reduce that lag, so a single log end shows it.
    """
    lags = group.rows.lag_1m
    wanted = pc.fill_null(lags.column("stalled"), fill_value=False)
    has_lag = pc.fill_null(pc.greater(lags.column("lag"), 0), fill_value=False)
    times = pc.unique(lags.column("window_start_ts").filter(has_lag))
    empty = [not group.has_members(at_us // 1000) for at_us in times.cast(pa.int64()).to_pylist()]
    if any(empty):
        is_empty = pc.is_in(lags.column("window_start_ts"), times.filter(pa.array(empty)))
        wanted = pc.or_(wanted, pc.and_(has_lag, is_empty))
    return sorted(rows_of(lags.filter(wanted)), key=lambda row: row["window_start_ts"])


def _stalls(group: Group, rows: Sequence[Row]) -> Iterator[_Stall]:
    """Separate the rows where partitions made progress, and where members came or the last one
    left.

    A time without log ends separates nothing: nobody looked, and the stall went on.
    """
    progress = LastProgress(group, {_place(row) for row in rows})
    current: _Stall | None = None
    known: dict[Place, int] = {}
    for at_ms, found in groupby(rows, key=lambda row: int(row["window_start_ts"])):
        minute = []
        for row in found:
            place = _place(row)
            last_ms = progress.before(place, at_ms)
            if last_ms is None:
                # Its beginning is not in the commits.
                last_ms = known.get(place, at_ms - STALLED_MS if row["stalled"] else at_ms)
            if row["stalled"] or at_ms - last_ms >= STALLED_MS:
                known[place] = last_ms
                minute.append(row)
        if not minute:
            continue
        since_ms = min(known[_place(row)] for row in minute)
        has_members = group.has_members(at_ms)
        if current is not None and (
            has_members != current.has_members
            or since_ms > current.to_ms + APART_MS
            # Members came and left in between.
            or group.empty_since_ms(at_ms) != group.empty_since_ms(current.to_ms)
        ):
            yield current
            current = None
        if current is None:
            current = _Stall([], has_members, {})
        current.rows.extend(minute)
        current.idle.update({(_place(row), known[_place(row)]): at_ms for row in minute})
    if current is not None:
        yield current


def _place(row: Row) -> Place:
    return row["topic"], row["partition"]


def _finding(group: Group, stall: _Stall) -> Finding:
    newest = stall.newest
    lag = sum(row["lag"] or 0 for row in newest.values())
    from_ms, to_ms, now_ms = stall.from_ms, stall.to_ms, group.now_ms
    cost = cost_of(stall.idle_ms / 1000, lag / len(newest))
    owners = _owners(group, stall)
    subject = places_text(newest)
    which = counted(len(newest), "partition")
    stand = "stands" if len(newest) == 1 else "stand"
    if not stall.has_members:
        since = group.empty_since_ms(to_ms)
        if since is None:
            who = "the group has no members that a coordinator manages"
        else:
            who = f"nobody is in the group since {clock(since, now_ms)}"
            from_ms = min(from_ms, since)
        evidence = f"{which} {stand}, {who}, lag {lag:,}"
        rule = EMPTY
    else:
        # Until the last minutes: later rows would show progress.
        goes_on = to_ms > now_ms - APART_MS
        rule = STALLED if goes_on else PASSED
        if len(owners) == 1:
            owner = next(iter(owners))
            by = f"{owner} has not progressed"
            subject = owner
        elif owners:
            by = f"{counted(len(owners), 'member')} have not progressed"
        else:
            by = "no member has owned " + ("it" if len(newest) == 1 else "them")
        how_long = "" if goes_on else f" for {duration(to_ms - from_ms)}"
        evidence = (
            f"{which} {stand if goes_on else 'stood'}{how_long}: {by} since"
            f" {clock(stall.since_ms, now_ms)}, lag {lag:,}; {places_text(newest)}"
        )
    return Finding(rule.name, group.group_id, from_ms, to_ms, from_ms, subject, lag, evidence, cost)


def _owners(group: Group, stall: _Stall) -> set[str]:
    """Return the identities of the members that owned the partitions at the end of the stall."""
    owned = partitions_read(group.rows.ownership)
    at = pa.scalar(stall.to_ms * 1000, TIMESTAMP)
    begins = pc.less_equal(owned.column("from_ts"), at)
    ends = pc.fill_null(pc.greater(owned.column("to_ts"), at), fill_value=True)
    places = stall.newest
    rows = rows_of(
        owned.filter(pc.and_(begins, ends)), ["topic", "partition", "member_key", "from_ts"]
    )
    return {
        group.identities.get(row["member_key"], row["member_key"])
        for row in rows
        if (row["topic"], row["partition"]) in places
    }
