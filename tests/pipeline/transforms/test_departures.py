"""How members left, from generations and commits of the group log [pipeline/departures]."""

from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.tables import TABLES
from coterie.pipeline.timeline.from_log import log_history
from coterie.pipeline.timeline.model import Generation, GroupHistory, Member
from coterie.pipeline.transforms.commit_runs import COLUMNS
from coterie.pipeline.transforms.departures import judged_history
from tests.pipeline.timeline.facts import partitions

# Not the beginning of a minute.
START_MS = 1_760_000_437_000
SESSION_MS = 6_000


def generation(number: int, after_ms: int, **assigned: str) -> Generation:
    members = tuple(
        Member(name, None, name, "/h", ("a",), (), partitions(given), None, SESSION_MS, 60_000)
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


def told(history: GroupHistory) -> dict[str, tuple[str | None, str | None]]:
    return {each.member_key: (each.exit_kind, each.exit_evidence) for each in history.sessions}


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
        found = judged_history(history, batches)
        exits = told(found)
        assert exits["three"] == ("leave", "silent for 2.0 s, session 6 s: too short for an expiry")
        assert exits["two"] == ("session expiry", "silent for 8.0 s, session 6 s")
        assert exits["one"] == (None, None)
        causes = [(each.trigger.cause, each.evidence.value) for each in found.rebalances]
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
    exits = told(judged_history(history, [batch, after]))
    assert exits["two"] == ("leave or expiry", "did not commit")


def test_last_member_of_a_group_is_judged_too() -> None:
    history = log_history("g", [generation(1, 0, one="a-0"), generation(2, 70_000)])
    exits = told(judged_history(history, [commits(a_0=69_500)]))
    assert exits["one"][0] == "leave"
