"""Unusual commits: offsets that went back, and commits of partitions without an owner."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.findings.changes import MINUTE_MS
from coterie.pipeline.findings.finding import (
    INFO,
    WARNING,
    Finding,
    Rule,
    cost_of,
    counted,
    most_frequent,
    places_text,
)
from coterie.pipeline.findings.group import Group, Row, rows_of
from coterie.pipeline.schemas import TIMESTAMP
from coterie.pipeline.transforms.task_partitions import partitions_read
from coterie.pipeline.transforms.unowned import UNOWNED, unowned

# Commits and assignments are timed at different places, and a commit may be in flight. Ten seconds
# is the shortest session timeout that clients use by default [pipeline/zombie-commit].
ZOMBIE_GRACE_MS = 10_000
# Commits within this time of each other have one cause.
APART_MS = 60 * MINUTE_MS

_FOREVER_MS = 1 << 62

REWIND = Rule("rewind", WARNING, "committed offsets went back while the group had members")
RESET = Rule("offsets_reset", INFO, "committed offsets went back while nobody was in the group")
ZOMBIE = Rule("zombie_commit", WARNING, "commits of a partition without an owner")


def rewinds(group: Group) -> Iterator[Finding]:
    """Find committed offsets that went back, so that messages are read again."""
    minutes = group.rows.minutes
    back = rows_of(minutes.filter(pc.greater(minutes.column("rewinds"), 0)))
    for rows in _episodes(back):
        here = [row for row in rows if group.has_members(row["last_ts"])]
        away = [row for row in rows if not group.has_members(row["last_ts"])]
        if here:
            yield _rewind(group, REWIND, here)
        if away:
            yield _rewind(group, RESET, away)


def _episodes(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield the rows that are not more than an hour apart."""
    current: list[Row] = []
    for row in sorted(rows, key=lambda each: each["first_ts"]):
        if current and row["first_ts"] - current[-1]["last_ts"] > APART_MS:
            yield current
            current = []
        current.append(row)
    if current:
        yield current


def _rewind(group: Group, rule: Rule, rows: Sequence[Row]) -> Finding:
    places = {(row["topic"], row["partition"]) for row in rows}
    furthest = max(rows, key=lambda row: row["rewound_by"] or 0)
    again = sum(row["rewound_by"] or 0 for row in rows)
    times = sum(row["rewinds"] for row in rows)
    evidence = (
        f"{counted(len(places), 'partition')} went back {counted(times, 'time')}, by up to"
        f" {furthest['rewound_by'] or 0:,} messages ({furthest['topic']}-{furthest['partition']},"
        f" at log offset {furthest['rewound_offset']})"
    )
    return Finding(
        rule.name,
        group.group_id,
        min(row["first_ts"] for row in rows),
        max(row["last_ts"] for row in rows),
        furthest["last_ts"],
        places_text(places),
        furthest["rewound_by"] or 0,
        evidence,
        # Each message that is read again counts as waiting for a second.
        cost_of(1.0, again),
    )


def zombie_commits(group: Group) -> Iterator[Finding]:
    """Find commits of partitions that no member owned while the group had members.

    A commit does not contain its member, so the log cannot show more [pipeline/zombie-commit].
    """
    if group.is_share_group:
        # Nobody commits: its start offsets move also after its members have left.
        return
    found = without_owner(group.rows.minutes, group.rows.ownership)
    rows = rows_of(found)
    if not rows:
        return
    places = {(row["topic"], row["partition"]) for row in rows}
    commits = sum(row["commits"] for row in rows)
    worst, _ = most_frequent(
        f"{row['topic']}-{row['partition']}" for row in rows for _ in range(row["commits"])
    )
    from_ms, to_ms = min(r["first_ts"] for r in rows), max(r["last_ts"] for r in rows)
    evidence = (
        f"{counted(commits, 'commit')} of {counted(len(places), 'partition')} while no member of"
        f" the group owned them, most of {worst}"
    )
    yield Finding(
        ZOMBIE.name,
        group.group_id,
        from_ms,
        to_ms,
        from_ms,
        places_text(places),
        commits,
        evidence,
        cost_of(1.0, commits),
    )


def without_owner(commits: pa.Table, ownership: pa.Table) -> pa.Table:
    """Return the commits of partitions that no member owned while their group had members.

    Args:
        commits: the key of a partition, `first_ts`, `last_ts` and `commits`: several commits
            together, or each on its own; of one or of several groups.
        ownership: the table of that name, of the same groups.
    """
    made = commits.filter(pc.greater(commits.column("commits"), 0)).select(UNOWNED.names)
    rows = made.append_column("from_ms", _ms(made, "first_ts", -ZOMBIE_GRACE_MS))
    rows = rows.append_column("to_ms", _ms(made, "last_ts", ZOMBIE_GRACE_MS))
    ownership = partitions_read(ownership)
    ends = pc.fill_null(_ms(ownership, "to_ts"), _FOREVER_MS)
    owned = pa.table(
        {
            "group_id": ownership.column("group_id"),
            "topic": ownership.column("topic"),
            "partition": ownership.column("partition"),
            "first_ts": pa.nulls(ownership.num_rows, TIMESTAMP),
            "last_ts": pa.nulls(ownership.num_rows, TIMESTAMP),
            "commits": pa.nulls(ownership.num_rows, pa.int64()),
            "from_ms": _ms(ownership, "from_ts"),
            "to_ms": ends,
        }
    )
    both = pa.concat_tables([rows.cast(owned.schema), owned]).combine_chunks().to_batches()
    return pa.Table.from_batches(list(unowned(both)), UNOWNED)


def _ms(table: pa.Table, column: str, more_ms: int = 0) -> pa.ChunkedArray:
    """Return a column of times as epoch milliseconds, with a number added."""
    in_ms = table.column(column).cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
    return pc.add(in_ms, more_ms)
