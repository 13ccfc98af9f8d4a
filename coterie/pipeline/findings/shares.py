"""Share groups: records that fail again and again, members that hold records for too long, and
start offsets that stand while the group goes on [pipeline/share-findings].
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from coterie.pipeline.findings.changes import MINUTE_MS, Changes
from coterie.pipeline.findings.finding import (
    WARNING,
    Finding,
    Rule,
    cost_of,
    counted,
    duration,
    listed,
)
from coterie.pipeline.findings.group import Group, Row, rows_of
from coterie.pipeline.timeline.share_partitions import REJECTED, SUSPECT_DELIVERIES

# As a partition of another group that makes no progress [pipeline/stall].
STANDS_MS = 5 * MINUTE_MS
# One or two records may meet a pause of their member; more are a member that is too slow.
LEAST_EXPIRED = 3

POISON = Rule("poison_record", WARNING, "a share group gave records up after their last delivery")
NEAR = Rule(
    "near_delivery_limit", WARNING, "a share group gets records again and again, and leaves them"
)
LOCKS = Rule(
    "expired_locks", WARNING, "a member of a share group held records until their locks expired"
)
STANDS = Rule(
    "start_offset_stands",
    WARNING,
    "the start offset of a share group stands, although records behind it are processed",
)


class ShareRows(NamedTuple):
    """What is known of a share group's deliveries, with times in epoch milliseconds.

    Attributes:
        partitions, poison: rows of `share_partitions` and `poison_records`.
        expired: rows of `share_deliveries` whose locks expired.
    """

    partitions: Sequence[Row]
    poison: Sequence[Row]
    expired: Sequence[Row]


def share_findings(group: Group) -> Iterator[Finding]:
    """Find what is wrong with the deliveries of a group; other groups have none."""
    rows = group.rows
    if rows.share_partitions.num_rows:
        found = map(rows_of, (rows.share_partitions, rows.poison_records, rows.expired_locks))
        yield from findings_of(group, ShareRows(*found))


def findings_of(group: Changes, rows: ShareRows) -> Iterator[Finding]:
    """Find what is wrong with deliveries.

    Args:
        group: the group, for the names of its members.
        rows: what is known of its deliveries.
    """
    given_up = [
        row for row in rows.poison if row["became"] == "ARCHIVED" and row["ended_by"] != REJECTED
    ]
    if given_up:
        yield _poison(group, given_up)
    waiting = [
        row
        for row in rows.poison
        if row["became"] == "AVAILABLE" and row["delivery_count"] >= SUSPECT_DELIVERIES
    ]
    if waiting:
        yield _near(group, waiting)
    yield from _locks(group, rows.expired)
    yield from _standing(group, rows.partitions)


def _poison(group: Changes, rows: Sequence[Row]) -> Finding:
    most = max(row["delivery_count"] for row in rows)
    known = all(row["ended_by"] is not None for row in rows)
    evidence = (
        f"{counted(len(rows), 'record')} ({_records(rows)}) {'was' if len(rows) == 1 else 'were'}"
        f" {'given up' if known else 'given up or rejected'}, delivered {counted(most, 'time')}:"
        " nobody gets them any more"
    )
    return _finding(group, POISON, rows, None, len(rows), evidence)


def _near(group: Changes, rows: Sequence[Row]) -> Finding:
    most = max(row["delivery_count"] for row in rows)
    evidence = (
        f"{counted(len(rows), 'record')} ({_records(rows)}) came back after each of up to {most}"
        " deliveries, and will be given up: the default is after 5"
    )
    return _finding(group, NEAR, rows, None, most, evidence)


def _locks(group: Changes, rows: Sequence[Row]) -> Iterator[Finding]:
    by_member: dict[str, list[Row]] = {}
    for row in rows:
        key = row["member_id"] or ""
        by_member.setdefault(group.identities.get(key, key), []).append(row)
    for identity, some in sorted(by_member.items()):
        records = sum(row["records"] for row in some)
        if records < LEAST_EXPIRED:
            continue
        moments = len({row["at_ts"] for row in some})
        places = sorted({f"{row['topic']}-{row['partition']}" for row in some})
        again = counted(moments, "time")
        evidence = (
            f"held {counted(records, 'record')} of {listed(places)} until"
            f" {'its lock' if records == 1 else 'their locks'} expired, {again}: others get them"
            " again while it may still process them"
        )
        yield _finding(group, LOCKS, some, identity or None, records, evidence)


def _standing(group: Changes, rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        start_ms, last_ms = row["start_ts"], row["last_ts"]
        if start_ms is None or last_ms is None or not row["complete"]:
            continue
        if last_ms - start_ms < STANDS_MS:
            continue
        place = f"{row['topic']}-{row['partition']}"
        tried = ""
        if row["most_deliveries"]:
            tried = f", delivered {counted(row['most_deliveries'], 'time')} so far"
        evidence = (
            f"{place} stands at offset {row['start_offset']} for {duration(last_ms - start_ms)}"
            f"{tried}, while {counted(row['complete'], 'record')} behind it"
            f" {'was' if row['complete'] == 1 else 'were'} done with"
        )
        yield Finding(
            STANDS.name,
            group.group_id,
            start_ms,
            last_ms,
            start_ms,
            place,
            row["complete"],
            evidence,
            cost_of((last_ms - start_ms) / 1000, row["waiting"]),
        )


def _records(rows: Sequence[Row]) -> str:
    places = sorted((row["topic"], row["partition"], row["record_offset"]) for row in rows)
    return listed([f"{topic}-{number} at {offset}" for topic, number, offset in places])


def _finding(
    group: Changes,
    rule: Rule,
    rows: Sequence[Row],
    subject: str | None,
    value: float,
    evidence: str,
) -> Finding:
    times = [row["at_ts"] for row in rows] if "at_ts" in rows[0] else []
    times = times or [row[name] for row in rows for name in ("first_ts", "last_ts")]
    from_ms, to_ms = min(times), max(times)
    # Each record that was given up or waits counts as a message that waits as long.
    cost = cost_of((to_ms - from_ms) / 1000 + 1, value)
    return Finding(rule.name, group.group_id, from_ms, to_ms, to_ms, subject, value, evidence, cost)
