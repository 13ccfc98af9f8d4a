"""Commits summed up by numpy: equal to a plain loop, however the rows are cut into stretches."""

from collections import defaultdict
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.pipeline.transforms.commit_runs import MINUTE_US, commit_runs
from coterie.pipeline.transforms.handovers import WANTED, handed_over

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

# Few names, partitions and moments, so that they meet; one partition as a damaged record has it.
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


def _plain_minutes(commits: list[Commit]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """By key and minute what the runs' sums must come to."""
    found: dict[tuple[Any, ...], dict[str, Any]] = defaultdict(
        lambda: {"commits": 0, "advance": 0, "rewinds": 0, "back": 0, "times": []}
    )
    before: dict[tuple[Any, ...], int | None] = {}
    for commit in _counted(commits):
        key = tuple(commit[name] for name in _KEY)
        minute = found[*key, commit["record_ts"] // MINUTE_US]
        offset, previous = commit["committed_offset"], before.get(key)
        before[key] = offset
        minute["last_offset"] = offset
        if offset is None:
            continue
        minute["commits"] += 1
        minute["times"].append(commit["record_ts"])
        step = 0 if previous is None else offset - previous
        minute["advance"] += max(step, 0)
        minute["rewinds"] += step < 0
        minute["back"] = max(minute["back"], -step)
    return dict(found)


def _joined(stretches: list[list[Commit]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The same from the runs, with the steps between stretches as whoever joins them adds them."""
    runs = [row for each in stretches for row in commit_runs(_rows(each)).to_pylist()]
    found: dict[tuple[Any, ...], dict[str, Any]] = defaultdict(
        lambda: {"commits": 0, "advance": 0, "rewinds": 0, "back": 0, "times": []}
    )
    before: dict[tuple[Any, ...], int | None] = {}
    for run in sorted(runs, key=lambda run: int(run["first_log_offset"])):
        key = tuple(run[name] for name in _KEY)
        minute = found[*key, int(run["window_start_ts"].timestamp()) // 60]
        step = 0
        previous = before.get(key)
        if (
            run["after_log_offset"] is None
            and previous is not None
            and run["first_offset"] is not None
        ):
            step = run["first_offset"] - previous
        before[key] = minute["last_offset"] = run["last_offset"]
        minute["commits"] += run["commits"]
        minute["advance"] += run["advance"] + max(step, 0)
        minute["rewinds"] += run["rewinds"] + (step < 0)
        minute["back"] = max(minute["back"], run["rewound_by"] or 0, -step)
        for name in ("first_ts", "last_ts"):
            if run[name] is not None:
                minute["times"].append(round(run[name].timestamp()) * 1_000_000)
    return dict(found)


def _comparable(minutes: dict[tuple[Any, ...], dict[str, Any]]) -> dict[tuple[Any, ...], Any]:
    return {
        key: minute | {"times": (min(minute["times"], default=0), max(minute["times"], default=0))}
        for key, minute in minutes.items()
    }


@settings(max_examples=150, deadline=None)
@given(st.lists(_commit, max_size=40), st.lists(st.integers(0, 40), max_size=4))
def test_runs_add_up_to_a_plain_count_wherever_the_rows_are_cut(
    commits: list[Commit], cuts: list[int]
) -> None:
    commits = _numbered(commits)
    borders = [0, *sorted(cuts), len(commits)]
    stretches = [commits[begin:end] for begin, end in pairwise(borders)]
    assert _comparable(_joined(stretches)) == _comparable(_plain_minutes(commits))


@settings(max_examples=100, deadline=None)
@given(st.lists(_commit, min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_the_order_of_rows_in_a_stretch_does_not_matter(commits: list[Commit], rng: Any) -> None:
    commits = _numbered(commits)
    mixed = list(commits)
    rng.shuffle(mixed)

    def runs(rows: list[Commit]) -> list[Commit]:
        return sorted(commit_runs(_rows(rows)).to_pylist(), key=lambda run: str(run.values()))

    assert runs(mixed) == runs(commits)


def test_the_farthest_step_back_is_told_with_its_commit() -> None:
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
        "group_id": st.sampled_from(["g", "h", "nobody"]),
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
def test_the_newest_commit_of_the_minute_up_to_a_moment(
    commits: list[Commit], moments: list[dict[str, Any]]
) -> None:
    commits = _numbered(commits)
    wanted = pa.Table.from_pylist(moments, WANTED)
    found = {
        (*(row[name] for name in _KEY), round(row["at_ts"].timestamp()) * 1_000_000): (
            row["log_offset"],
            row["committed_offset"],
        )
        for row in handed_over(_rows(commits), wanted).to_pylist()
    }
    expected = {}
    for moment in moments:
        for commit in _counted(commits):
            if (
                all(commit[name] == moment[name] for name in _KEY)
                and commit["record_ts"] // MINUTE_US == moment["at_ts"] // MINUTE_US
                and commit["record_ts"] <= moment["at_ts"]
            ):
                # The last of them in the log is the newest.
                key = (*(moment[name] for name in _KEY), moment["at_ts"])
                expected[key] = (commit["log_offset"], commit["committed_offset"])
    assert found == expected
