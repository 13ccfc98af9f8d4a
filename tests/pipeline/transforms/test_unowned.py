"""The commits of partitions without an owner are those that a plain loop finds
[pipeline/zombie-commit].
"""

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.pipeline.transforms.unowned import UNOWNED, unowned

Row = dict[str, Any]

_GIVEN = pa.schema([*UNOWNED, ("from_ms", pa.int64()), ("to_ms", pa.int64())])
_FOREVER_MS = 1 << 60

# A topic whose name is not known is named by its id.
_ID = "A" * 22

_times = st.tuples(st.integers(0, 30), st.integers(0, 6))
_place = st.fixed_dictionaries(
    {
        "group_id": st.sampled_from(["g", "h"]),
        "topic": st.sampled_from(["a", "b", _ID]),
        "partition": st.sampled_from([0, 1]),
    }
)


def _commit(place: Row, times: tuple[int, int], number: int) -> Row:
    first, last = times[0], times[0] + times[1]
    times_us = {"first_ts": first * 1000, "last_ts": last * 1000}
    return place | times_us | {"from_ms": first, "to_ms": last, "commits": number + 1}


def _owned(place: Row, times: tuple[int, int], ends: bool) -> Row:
    end = times[0] + times[1] if ends else _FOREVER_MS
    return place | {"from_ms": times[0], "to_ms": end, "commits": None}


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(_place, _times), max_size=20),
    st.lists(st.tuples(_place, _times, st.booleans()), max_size=12),
    st.randoms(use_true_random=False),
)
def test_commits_without_owner_are_those_of_a_plain_loop(
    commits: list[tuple[Row, tuple[int, int]]],
    owned: list[tuple[Row, tuple[int, int], bool]],
    rng: Any,
) -> None:
    commit_rows = [_commit(*each, number) for number, each in enumerate(commits)]
    owned_rows = [_owned(*each) for each in owned]

    def overlaps(row: Row, *names: str) -> bool:
        return any(
            all(each[name] == row[name] for name in names)
            and each["from_ms"] <= row["to_ms"]
            and each["to_ms"] >= row["from_ms"]
            for each in owned_rows
        )

    names = "group_id", "topic", "partition"
    expected = {
        row["commits"]
        for row in commit_rows
        if any(
            (each["group_id"], each["topic"]) == (row["group_id"], row["topic"])
            for each in owned_rows
        )
        and overlaps(row, "group_id")
        and not overlaps(row, *names)
        and not any(
            overlaps(row | {"topic": _ID, "partition": partition}, *names) for partition in (0, 1)
        )
    }
    rows = commit_rows + owned_rows
    rng.shuffle(rows)
    batch = pa.RecordBatch.from_pylist([dict.fromkeys(_GIVEN.names) | row for row in rows], _GIVEN)
    found = [row["commits"] for each in unowned([batch]) for row in each.to_pylist()]
    assert sorted(found) == sorted(expected)
