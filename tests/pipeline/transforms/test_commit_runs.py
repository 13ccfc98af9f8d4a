"""The sums of commits equal those of a plain loop, however the rows are cut into stretches
[pipeline/commit-minutes].
"""

from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.pipeline.transforms.commit_runs import MINUTE_US, commit_runs, join_runs
from coterie.pipeline.transforms.handovers import MOMENTS, newest_commits, with_dictionaries

Commit = dict[str, Any]

_COMMITS = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("committed_offset", pa.int64()),
        ("record_ts", pa.timestamp("us", tz="UTC")),
        ("is_tombstone", pa.bool_()),
    ]
)
_START_US = 1_760_000_400_000_000
_KEY = ("group_id", "topic", "partition")

# Few names, partitions and times, so that they coincide, and a very large partition number.
_commit = st.fixed_dictionaries(
    {
        "group_id": st.sampled_from(["g", "h", "spark-kafka-relation-1"]),
        "topic": st.sampled_from(["a", "b"]),
        "partition": st.sampled_from([0, 1, (1 << 31) - 1]),
        "committed_offset": st.one_of(st.none(), st.integers(0, 20)),
        "record_ts": st.one_of(
            st.none(), st.integers(0, 150).map(lambda s: _START_US + s * 1_000_000)
        ),
    }
)


def _numbered(commits: list[Commit]) -> list[Commit]:
    return [
        commit | {"log_offset": 3 * number, "is_tombstone": commit["committed_offset"] is None}
        for number, commit in enumerate(commits)
    ]


def _rows(commits: list[Commit]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(commits, _COMMITS)


def _counted(commits: list[Commit]) -> list[Commit]:
    return [
        commit
        for commit in commits
        if commit["record_ts"] is not None and not commit["group_id"].startswith("spark-kafka-")
    ]


def _plain_minutes(commits: list[Commit]) -> dict[tuple[Any, ...], Commit]:
    """Return the sums by key and minute, computed by a plain loop over the log."""
    found: dict[tuple[Any, ...], Commit] = {}
    before: dict[tuple[Any, ...], int | None] = {}
    for commit in _counted(commits):
        key = tuple(commit[name] for name in _KEY)
        minute = found.setdefault((*key, commit["record_ts"] // MINUTE_US), dict(_NOTHING))
        offset, previous = commit["committed_offset"], before.get(key)
        before[key] = minute["last_offset"] = offset
        if offset is None:
            continue
        minute["commits"] += 1
        times = [commit["record_ts"], *(minute[name] or 0 for name in ("first_ts", "last_ts"))]
        minute["first_ts"] = min(filter(None, times))
        minute["last_ts"] = max(times)
        step = 0 if previous is None else offset - previous
        minute["advance"] += max(step, 0)
        minute["rewinds"] += step < 0
        if -step > (minute["rewound_by"] or 0):
            minute |= {"rewound_by": -step, "rewound_offset": commit["log_offset"]}
    return found


_NOTHING: Commit = {
    "commits": 0,
    "advance": 0,
    "rewinds": 0,
    "last_offset": None,
    "rewound_by": None,
    "rewound_offset": None,
    "first_ts": None,
    "last_ts": None,
}


def _joined(stretches: list[list[Commit]]) -> dict[tuple[Any, ...], Commit]:
    """Return the same sums and `overlaps`, joined from the runs of stretches."""
    minutes = {}
    for batch in join_runs([commit_runs(_rows(each)) for each in stretches]):
        for row in batch.to_pylist():
            for name in ("window_start_ts", "first_ts", "last_ts"):
                if row[name] is not None:
                    row[name] = round(row[name].timestamp()) * 1_000_000
            key = (*(row.pop(name) for name in _KEY), row.pop("window_start_ts") // MINUTE_US)
            minutes[key] = row
    return minutes


@settings(max_examples=200, deadline=None)
@given(st.lists(_commit, max_size=40), st.lists(st.integers(0, 40), max_size=4))
def test_minutes_equal_a_plain_loop_wherever_the_rows_are_cut(
    commits: list[Commit], cuts: list[int]
) -> None:
    commits = _numbered(commits)
    borders = [0, *sorted(cuts), len(commits)]
    stretches = [commits[begin:end] for begin, end in pairwise(borders)]
    expected = _plain_minutes(commits).items()
    assert _joined(stretches) == {key: row | {"overlaps": False} for key, row in expected}


@settings(max_examples=200, deadline=None)
@given(st.lists(_commit, max_size=40), st.randoms(use_true_random=False))
def test_partitions_of_overlapping_stretches_are_marked(commits: list[Commit], rng: Any) -> None:
    commits = _numbered(commits)
    stretches: list[list[Commit]] = [[], [], []]
    for commit in commits:
        rng.choice(stretches).append(commit)
    found, expected = _joined(stretches), _plain_minutes(commits)
    assert found.keys() == expected.keys()
    marked = {key[:3] for key, row in found.items() if row["overlaps"]}
    for key, row in expected.items():
        if key[:3] not in marked:
            assert found[key] == row | {"overlaps": False}


@settings(max_examples=100, deadline=None)
@given(st.lists(_commit, min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_order_of_rows_in_a_stretch_does_not_matter(commits: list[Commit], rng: Any) -> None:
    commits = _numbered(commits)
    mixed = list(commits)
    rng.shuffle(mixed)

    def runs(rows: list[Commit]) -> list[Commit]:
        return sorted(commit_runs(_rows(rows)).to_pylist(), key=lambda run: str(run.values()))

    assert runs(mixed) == runs(commits)


def test_largest_step_back_is_reported_with_its_commit() -> None:
    offsets = [10, 4, 5, 2, 3, 1]
    commits = _numbered(
        [
            {
                "group_id": "g",
                "topic": "a",
                "partition": 0,
                "committed_offset": offset,
                "record_ts": _START_US,
            }
            for offset in offsets
        ]
    )
    (run,) = commit_runs(_rows(commits)).to_pylist()
    assert (run["rewinds"], run["rewound_by"], run["rewound_offset"]) == (3, 6, 3)


_moment = st.fixed_dictionaries(
    {
        "group_id": st.sampled_from(["g", "h", "unknown"]),
        "topic": st.sampled_from(["a", "b"]),
        "partition": st.sampled_from([0, 1, 5]),
        "at_ts": st.integers(0, 150).map(lambda s: _START_US + s * 1_000_000),
    }
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(_commit, max_size=40),
    st.lists(_moment, max_size=12, unique_by=lambda each: tuple(each.values())),
)
def test_newest_commits_are_those_of_a_plain_loop(
    commits: list[Commit], moments: list[dict[str, Any]]
) -> None:
    commits = _numbered(commits)
    encoded = with_dictionaries(pa.Table.from_pylist(moments, MOMENTS))
    found = {
        (*(row[name] for name in _KEY), round(row["at_ts"].timestamp()) * 1_000_000): (
            row["log_offset"],
            row["committed_offset"],
        )
        for row in newest_commits(_rows(commits), encoded).to_pylist()
    }
    expected = {}
    for moment in moments:
        for commit in _counted(commits):
            if (
                all(commit[name] == moment[name] for name in _KEY)
                and commit["record_ts"] // MINUTE_US == moment["at_ts"] // MINUTE_US
                and commit["record_ts"] <= moment["at_ts"]
            ):
                # The last one in the log is the newest.
                key = (*(moment[name] for name in _KEY), moment["at_ts"])
                expected[key] = (commit["log_offset"], commit["committed_offset"])
    assert found == expected
