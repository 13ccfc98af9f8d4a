"""How members left, from generations and commits of the group log [pipeline/departures]."""

from collections.abc import Iterable
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.tables import TABLES
from coterie.pipeline.timeline.columns import rebalance_columns, session_columns
from coterie.pipeline.timeline.from_log import log_history
from coterie.pipeline.timeline.model import (
    Generation,
    GroupHistory,
    RecordedMember,
)
from coterie.pipeline.timeline.with_departures import Commit, with_departures
from coterie.pipeline.transforms import departures
from coterie.pipeline.transforms.commit_runs import COLUMNS, RUNS, commit_runs
from coterie.pipeline.transforms.handovers import (
    FOUND,
    MOMENTS,
    newest_commits,
    with_dictionaries,
)
from coterie.pipeline.transforms.progress import commit_minutes
from tests.pipeline.timeline.facts import partitions

# Not the beginning of a minute.
START_MS = 1_760_000_437_000
SESSION_MS = 6_000


def generation(number: int, after_ms: int, **assigned: str) -> Generation:
    members = tuple(
        RecordedMember(
            name, None, name, "/h", ("a",), (), partitions(given), None, SESSION_MS, 60_000
        )
        for name, given in assigned.items()
    )
    return Generation(number, START_MS + after_ms, "consumer", "range", None, members)


def commits(*, every_ms: int = 1_000, **until_ms: int) -> pa.RecordBatch:
    """Return regular commits of partitions `a_0`, `a_1`, ... until some time."""
    schema = pa.schema([TABLES["offset_commits"].schema.field(name) for name in COLUMNS])
    rows: list[dict[str, Any]] = [
        {
            "group_id": "g",
            "topic": "a",
            "partition": int(place[2:]),
            "committed_offset": at_ms,
            "record_ts": (START_MS + at_ms) * 1000,
            "is_tombstone": False,
        }
        for place, end_ms in until_ms.items()
        for at_ms in range(0, end_ms, every_ms)
    ]
    rows.sort(key=lambda row: row["record_ts"])
    for number, row in enumerate(rows):
        row["log_offset"] = number
    return pa.RecordBatch.from_pylist(rows, schema)


# How each member left, with the evidence, and the cause of each rebalance with its evidence.
Told = tuple[dict[str, tuple[str | None, str | None]], list[tuple[str, str]]]


def told(history: GroupHistory, batches: list[pa.RecordBatch]) -> Told:
    """Judge a history as `show` does and as a run does, which must say the same."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    shown = with_departures(
        history,
        [
            Commit(row["topic"], row["partition"], round(row["record_ts"].timestamp() * 1e6))
            for row in rows
        ],
    )
    exits = {each.member_key: (each.exit_kind, each.exit_evidence) for each in shown.sessions}
    causes = [(each.trigger.cause, each.evidence.value) for each in shown.rebalances]
    assert (exits, causes) == _by_tables(history, batches)
    return exits, causes


def _by_tables(history: GroupHistory, batches: list[pa.RecordBatch]) -> Told:
    sessions = _table("member_sessions", map(session_columns, history.sessions))
    rebalances = _table("rebalances", map(rebalance_columns, history.rebalances))
    owned = _table(
        "ownership",
        (
            each._asdict() | {"from_ts": each.from_ms, "to_ts": each.to_ms}
            for each in history.ownership
        ),
    )
    partitions = departures.departed(sessions, owned)
    moments = with_dictionaries(partitions.select(MOMENTS.names))
    minutes = commit_minutes(pa.Table.from_batches([commit_runs(each) for each in batches], RUNS))
    newest = pa.Table.from_batches([newest_commits(each, moments) for each in batches], FOUND)
    found = departures.exits(sessions, partitions, minutes, newest)
    sessions = departures.with_exits(sessions, found)
    rebalances = departures.with_causes(rebalances, found)
    exits = {
        row["member_key"]: (row["exit_kind"], row["exit_evidence"]) for row in sessions.to_pylist()
    }
    return exits, [(row["trigger"], row["evidence"]) for row in rebalances.to_pylist()]


def _table(name: str, rows: Iterable[dict[str, Any]]) -> pa.Table:
    in_us = [
        {
            name: value * 1000 if name.endswith("_ts") and value is not None else value
            for name, value in row.items()
        }
        for row in rows
    ]
    return pa.Table.from_pylist(in_us, TABLES[name].schema)


def test_members_that_left_and_expired_are_distinguished() -> None:
    history = log_history(
        "g",
        [
            generation(1, 0, one="a-0", two="a-1", three="a-2"),
            generation(2, 100_000, one="a-0 a-2", two="a-1"),
            generation(3, 200_000, one="a-0 a-1 a-2"),
        ],
    )
    rows = commits(a_0=200_500, a_1=193_000, a_2=99_000)
    # In one batch, and in two whose rows are summed one by one.
    for batches in ([rows], [rows.slice(0, 150), rows.slice(150)]):
        exits, causes = told(history, batches)
        assert exits["three"] == ("leave", "silent for 2.0 s, session 6 s: too short for an expiry")
        assert exits["two"] == ("session expiry", "silent for 8.0 s, session 6 s")
        assert exits["one"] == (None, None)
        assert causes == [("join", "log"), ("leave", "log"), ("session expiry", "inferred")]


def test_commits_of_the_owner_before_and_after_are_not_its_own() -> None:
    history = log_history(
        "g",
        [
            generation(1, 0, one="a-0", two=""),
            generation(2, 50_000, one="", two="a-0"),
            generation(3, 52_000, one="a-0"),
        ],
    )
    # `two` never commits: the commits until 50 s are of `one`, and so are those after 52 s.
    batch = commits(a_0=49_500)
    later = commits(every_ms=500, a_0=59_000)
    later = later.filter(pc.greater(later.column("committed_offset"), 52_000))
    columns = [
        pa.array(range(100, 100 + later.num_rows), pa.int64())
        if name == "log_offset"
        else later.column(name)
        for name in COLUMNS
    ]
    after = pa.RecordBatch.from_arrays(columns, schema=later.schema)
    exits, _ = told(history, [batch, after])
    assert exits["two"] == ("leave or expiry", "did not commit")


def test_last_member_of_a_group_is_judged_too() -> None:
    history = log_history("g", [generation(1, 0, one="a-0"), generation(2, 70_000)])
    exits, _ = told(history, [commits(a_0=69_500)])
    assert exits["one"][0] == "leave"
