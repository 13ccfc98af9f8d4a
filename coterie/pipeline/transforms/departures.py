"""Find how members left a real Kafka's classic groups, from their commits [pipeline/departures].

A commit does not contain its member, so the commits of the partitions that a member owned are its
commits. The newest one before a departure is found like that before a move: in the same minute
among the commits themselves (`handovers`), otherwise as the last of the newest minute before.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.schemas import TIMESTAMP
from coterie.pipeline.timeline.departures import (
    LEAVE,
    OPEN,
    Exit,
    Left,
    Minutes,
    Place,
    cause_of,
    exits_of,
    held_up,
)
from coterie.pipeline.transforms.progress import are_among
from coterie.pipeline.transforms.task_partitions import partitions_read

# How sessions ended whose members' commits are looked at.
_JUDGED = pa.array([OPEN, LEAVE])
# The partitions that members owned who have left, and until when.
DEPARTED = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("at_ts", TIMESTAMP),
        ("from_ts", TIMESTAMP),
        ("member_key", pa.string()),
    ]
)


def departed(sessions: pa.Table, ownership: pa.Table) -> pa.Table:
    """Return the partitions of members that have left, as rows of `DEPARTED`.

    Sessions of which the journal recorded how they ended are among them if a leave ended them,
    because their silence shows why they left [pipeline/max-poll].

    Args:
        sessions, ownership: rows of `member_sessions` and `ownership`, all of some groups.
    """
    open_ = pc.and_(
        pc.is_in(sessions.column("exit_kind"), _JUDGED),
        sessions.column("session_timeout_ms").is_valid(),
    )
    left = sessions.filter(open_).select(["group_id", "member_key", "last_seen_ts"])
    if not left.num_rows:
        return DEPARTED.empty_table()
    keys = ["group_id", "member_key", "to_ts"]
    owned = partitions_read(ownership).join(left.rename_columns(keys), keys, join_type="inner")
    return owned.rename_columns(
        ["at_ts" if name == "to_ts" else name for name in owned.column_names]
    ).select(DEPARTED.names)


def exits(
    sessions: pa.Table, partitions: pa.Table, minutes: pa.Table, newest: pa.Table
) -> dict[Left, Exit]:
    """Return how members left, judged from their commits.

    Args:
        sessions: rows of `member_sessions`.
        partitions: see `departed`.
        minutes: rows of `commit_runs.MINUTES`.
        newest: the results of `handovers.newest_commits` for the rows of `partitions`.
    """
    by_place = _by_place(minutes.filter(pa.array(are_among(minutes, partitions))))
    at_moment: dict[tuple[Place, int], int] = {}
    for row in _rows(newest, "at_ts", "commit_ts"):
        moment = (row["group_id"], row["topic"], row["partition"]), row["at_ts"]
        at_moment[moment] = max(at_moment.get(moment, 0), row["commit_ts"])
    owned: dict[Left, list[dict[str, Any]]] = {}
    for row in _rows(partitions, "at_ts", "from_ts"):
        owned.setdefault((row["group_id"], row["member_key"], row["at_ts"]), []).append(row)
    left = sessions.filter(pc.is_in(sessions.column("exit_kind"), _JUDGED)).select(
        ["group_id", "member_key", "last_seen_ts", "session_timeout_ms", "rebalance_timeout_ms"]
    )
    every = sessions.select(["group_id", "member_key", "identity", "first_seen_ts", "last_seen_ts"])
    waited = held_up(_rows(every, "first_seen_ts", "last_seen_ts"))
    return exits_of(_rows(left, "last_seen_ts"), owned, by_place, at_moment, waited)


def with_exits(sessions: pa.Table, found: Mapping[Left, Exit]) -> pa.Table:
    """Return rows of `member_sessions` with how their members left."""
    if not found:
        return sessions
    keys = _rows(sessions.select(["group_id", "member_key", "last_seen_ts"]), "last_seen_ts")
    known = [found.get((row["group_id"], row["member_key"], row["last_seen_ts"])) for row in keys]
    is_open = pc.equal(sessions.column("exit_kind"), OPEN).fill_null(False)
    for name, values, replaces in (
        ("silent_ms", [each and each.silent_ms for each in known], None),
        ("exit_evidence", [each and each.evidence for each in known], is_open),
        ("exit_kind", [each and each.kind for each in known], is_open),
    ):
        field = sessions.schema.field(name)
        column = pc.coalesce(pa.array(values, field.type), sessions.column(name))
        if replaces is not None:
            # What the journal recorded is not replaced.
            column = pc.if_else(replaces, column, sessions.column(name))
        sessions = sessions.set_column(sessions.schema.get_field_index(name), field, column)
    return sessions


def with_causes(rebalances: pa.Table, found: Mapping[Left, Exit]) -> pa.Table:
    """Return rows of `rebalances` whose cause is a leave or an expiry, where it is known which."""
    if not found:
        return rebalances
    rows = _rows(
        rebalances.select(["group_id", "trigger", "left", "completed_ts", "evidence"]),
        "completed_ts",
    )
    causes = [cause_of(row, found) for row in rows]
    evidence = [
        # That a member left is proved, an expiry is not.
        row["evidence"] if cause in (row["trigger"], LEAVE) else "inferred"
        for row, cause in zip(rows, causes, strict=True)
    ]
    for name, values in (("trigger", causes), ("evidence", evidence)):
        index = rebalances.schema.get_field_index(name)
        rebalances = rebalances.set_column(index, name, pa.array(values, pa.string()))
    return rebalances


def _by_place(minutes: pa.Table) -> dict[Place, Minutes]:
    found: dict[Place, Minutes] = {}
    ordered = minutes.sort_by("window_start_ts")
    for row in _rows(ordered, "window_start_ts", "first_ts", "last_ts"):
        if not row["commits"]:
            continue
        place = row["group_id"], row["topic"], row["partition"]
        known = found.setdefault(place, Minutes([], [], [], []))
        for column, name in zip(
            known, ("window_start_ts", "first_ts", "last_ts", "commits"), strict=True
        ):
            column.append(row[name])
    return found


def _rows(table: pa.Table, *times: str) -> list[dict[str, Any]]:
    """Return rows with these times in microseconds."""
    for name in times:
        index = table.schema.get_field_index(name)
        table = table.set_column(index, name, table.column(name).cast(pa.int64()))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
