"""Find how members left a real Kafka's classic groups, from their commits [pipeline/departures].

A commit does not contain its member, so the commits of the partitions that a member owned are its
commits. The newest one before a departure is found like that before a move: in the same minute
among the commits themselves (`handovers`), otherwise as the last of the newest minute before.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.schemas import TIMESTAMP
from coterie.pipeline.tables import TABLES
from coterie.pipeline.timeline.columns import session_columns
from coterie.pipeline.timeline.departures import LEAVE, OPEN, Departure, Exit, judged
from coterie.pipeline.timeline.model import Evidence, GroupHistory
from coterie.pipeline.transforms.commit_runs import MINUTE_US, RUNS, commit_runs
from coterie.pipeline.transforms.handovers import (
    FOUND,
    MOMENTS,
    newest_commits,
    with_dictionaries,
)
from coterie.pipeline.transforms.progress import are_among, commit_minutes

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
# So many of the newest minutes show how often a member usually commits.
_USUAL_MINUTES = 10

# A member that left: its group, its key, and when in microseconds.
Left = tuple[str, str, int]
_Place = tuple[str, str, int]


def departed(sessions: pa.Table, ownership: pa.Table) -> pa.Table:
    """Return the partitions of members whose departure is open, as rows of `DEPARTED`.

    Args:
        sessions, ownership: rows of `member_sessions` and `ownership`, all of some groups.
    """
    open_ = pc.and_(
        pc.fill_null(pc.equal(sessions.column("exit_kind"), OPEN), fill_value=False),
        sessions.column("session_timeout_ms").is_valid(),
    )
    left = sessions.filter(open_).select(["group_id", "member_key", "last_seen_ts"])
    if not left.num_rows:
        return DEPARTED.empty_table()
    keys = ["group_id", "member_key", "to_ts"]
    owned = ownership.join(left.rename_columns(keys), keys, join_type="inner")
    return owned.rename_columns(
        ["at_ts" if name == "to_ts" else name for name in owned.column_names]
    ).select(DEPARTED.names)


class _Minutes(NamedTuple):
    """The minutes of a partition by time: beginning, first and last commit, number of commits."""

    starts: list[int]
    first: list[int]
    last: list[int]
    commits: list[int]


def exits(
    sessions: pa.Table, partitions: pa.Table, minutes: pa.Table, newest: pa.Table
) -> dict[Left, Exit]:
    """Return how members left whose departure was open.

    Args:
        sessions: rows of `member_sessions`.
        partitions: see `departed`.
        minutes: rows of `commit_runs.MINUTES`.
        newest: the results of `handovers.newest_commits` for the rows of `partitions`.
    """
    by_place = _by_place(minutes.filter(pa.array(are_among(minutes, partitions))))
    at_moment: dict[tuple[_Place, int], int] = {}
    for row in _rows(newest, "at_ts", "commit_ts"):
        moment = (row["group_id"], row["topic"], row["partition"]), row["at_ts"]
        at_moment[moment] = max(at_moment.get(moment, 0), row["commit_ts"])
    owned: dict[Left, list[dict[str, Any]]] = {}
    for row in _rows(partitions, "at_ts", "from_ts"):
        owned.setdefault((row["group_id"], row["member_key"], row["at_ts"]), []).append(row)
    left = sessions.filter(pc.equal(sessions.column("exit_kind"), OPEN)).select(
        ["group_id", "member_key", "last_seen_ts", "session_timeout_ms", "rebalance_timeout_ms"]
    )
    found = {}
    for session in _rows(left, "last_seen_ts"):
        at_us = session["last_seen_ts"]
        key = session["group_id"], session["member_key"], at_us
        committed, gaps = [], []
        for row in owned.get(key, ()):
            place = row["group_id"], row["topic"], row["partition"]
            known = by_place.get(place)
            if known is None:
                continue
            last_us = at_moment.get((place, at_us)) or _last_before(known, at_us)
            # Earlier commits are those of the owner before.
            if last_us is not None and last_us >= row["from_ts"]:
                committed.append(last_us)
            gaps += _gaps(known, row["from_ts"], at_us)
        found[key] = judged(
            Departure(
                at_us // 1000,
                session["session_timeout_ms"],
                session["rebalance_timeout_ms"],
                owned=key in owned,
                committed_ms=max(committed) // 1000 if committed else None,
                usual_gap_ms=median(gaps) / 1000 if gaps else None,
            )
        )
    return found


def judged_history(history: GroupHistory, commits: Iterable[pa.RecordBatch]) -> GroupHistory:
    """Return a history with how members left.

    Args:
        history: the history of one group, worked out from the group log.
        commits: the group's commits with `commit_runs.COLUMNS`.
    """
    group_id = history.group_id
    sessions = pa.Table.from_pylist(
        [_in_us(session_columns(each)) for each in history.sessions],
        TABLES["member_sessions"].schema,
    )
    owned = pa.table(
        {
            "group_id": [group_id] * len(history.ownership),
            "topic": [each.topic for each in history.ownership],
            "partition": pa.array([each.partition for each in history.ownership], pa.int32()),
            "member_key": [each.member_key for each in history.ownership],
            "from_ts": _times(each.from_ms for each in history.ownership),
            "to_ts": _times(each.to_ms for each in history.ownership),
        }
    )
    partitions = departed(sessions, owned)
    moments = with_dictionaries(partitions.select(MOMENTS.names))
    batches = list(commits)
    runs = pa.Table.from_batches([commit_runs(each) for each in batches], RUNS)
    newest = [newest_commits(each, moments) for each in batches if moments.num_rows]
    found = exits(sessions, partitions, commit_minutes(runs), pa.Table.from_batches(newest, FOUND))
    rebalances = []
    for each in history.rebalances:
        row = {
            "group_id": group_id,
            "trigger": each.trigger.cause,
            "left": each.left,
            "completed_ts": None if each.completed_ms is None else each.completed_ms * 1000,
        }
        cause = cause_of(row, found) or ""
        evidence = each.evidence if cause in (each.trigger.cause, LEAVE) else Evidence.INFERRED
        trigger = each.trigger._replace(cause=cause)
        rebalances.append(each._replace(trigger=trigger, evidence=evidence))
    judged_sessions = []
    for session in history.sessions:
        at_us = (session.last_seen_ms or 0) * 1000
        exit_ = found.get((group_id, session.member_key, at_us))
        if exit_ is not None and session.exit_kind == OPEN:
            session = session._replace(exit_kind=exit_.kind, exit_evidence=exit_.evidence)
        judged_sessions.append(session)
    return history._replace(rebalances=rebalances, sessions=judged_sessions)


def _in_us(row: dict[str, Any]) -> dict[str, Any]:
    times = {name: row[name] for name in ("first_seen_ts", "last_seen_ts")}
    return row | {name: None if at is None else at * 1000 for name, at in times.items()}


def _times(times_ms: Iterable[int | None]) -> pa.Array:
    return pa.array([None if at is None else at * 1000 for at in times_ms], TIMESTAMP)


def with_exits(sessions: pa.Table, found: Mapping[Left, Exit]) -> pa.Table:
    """Return rows of `member_sessions` with how their members left."""
    if not found:
        return sessions
    keys = _rows(sessions.select(["group_id", "member_key", "last_seen_ts"]), "last_seen_ts")
    known = [found.get((row["group_id"], row["member_key"], row["last_seen_ts"])) for row in keys]
    for name, values in (
        ("exit_kind", [each and each.kind for each in known]),
        ("exit_evidence", [each and each.evidence for each in known]),
    ):
        index = sessions.schema.get_field_index(name)
        column = pc.coalesce(pa.array(values, pa.string()), sessions.column(name))
        sessions = sessions.set_column(index, name, column)
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


def cause_of(row: Mapping[str, Any], found: Mapping[Left, Exit]) -> str | None:
    """Return the cause of a rebalance, which is that of its departures if they have the same.

    Args:
        row: `group_id`, `trigger`, `left` and `completed_ts` in microseconds.
        found: see `exits`.
    """
    trigger: str | None = row["trigger"]
    if trigger != OPEN or not row["left"] or row["completed_ts"] is None:
        return trigger
    kinds = {
        exit_.kind if exit_ is not None else OPEN
        for key in row["left"]
        for exit_ in [found.get((row["group_id"], key, row["completed_ts"]))]
    }
    return kinds.pop() if len(kinds) == 1 else trigger


def _by_place(minutes: pa.Table) -> dict[_Place, _Minutes]:
    found: dict[_Place, _Minutes] = {}
    ordered = minutes.sort_by("window_start_ts")
    for row in _rows(ordered, "window_start_ts", "first_ts", "last_ts"):
        if not row["commits"]:
            continue
        place = row["group_id"], row["topic"], row["partition"]
        known = found.setdefault(place, _Minutes([], [], [], []))
        for column, name in zip(
            known, ("window_start_ts", "first_ts", "last_ts", "commits"), strict=True
        ):
            column.append(row[name])
    return found


def _last_before(minutes: _Minutes, at_us: int) -> int | None:
    """Return the last commit of the newest minute before that of a time."""
    place = bisect_left(minutes.starts, at_us - at_us % MINUTE_US)
    return minutes.last[place - 1] if place else None


def _gaps(minutes: _Minutes, from_us: int, to_us: int) -> list[float]:
    """Return the mean time between the commits of each of the newest minutes of a time.

    Its first and last minute can contain commits of other owners, and a silence. That makes the
    result longer, so that less is inferred from it.
    """
    end = bisect_right(minutes.first, to_us)
    begin = max(bisect_left(minutes.last, from_us), end - _USUAL_MINUTES)
    return [
        (minutes.last[n] - minutes.first[n]) / (minutes.commits[n] - 1)
        for n in range(begin, end)
        if minutes.commits[n] > 1
    ]


def _rows(table: pa.Table, *times: str) -> list[dict[str, Any]]:
    """Return rows with these times in microseconds."""
    for name in times:
        index = table.schema.get_field_index(name)
        table = table.set_column(index, name, table.column(name).cast(pa.int64()))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
