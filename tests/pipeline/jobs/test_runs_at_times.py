"""Runs at several times find the same as one run at the end, as far as they know the same.

Each run knows the log up to its time, and two log ends for each partition, as a run that reads a
cluster over the wire [pipeline/log-ends].

Rules: [pipeline/stalls].
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from coterie.pipeline.engine import LocalEngine
from coterie.pipeline.jobs.run import run
from coterie.pipeline.lag import EARLIER_MS
from tests.pipeline.jobs.written import NOW_MS, Directory, table

MINUTE_MS = 60_000
END_MIN = 100
HEADER = "topic,partition,at_ts,log_end_offset\n"


def produced(minute: float) -> int:
    """Return the log end of each partition: ten messages a minute."""
    return int(1000 + 10 * minute)


def write_story(path: Path, until_min: float) -> str:
    """Write the log of three groups up to a time."""
    data = Directory(path, "cluster-1")

    def at(minute: float) -> int:
        return NOW_MS + int(minute * MINUTE_MS)

    records: list[tuple[float, Any]] = []

    def generation(minute: float, group: str, number: int, **assigned: str) -> None:
        records.append((minute, lambda: data.generation(group, number, at(minute), **assigned)))

    def commits(group: str, partition: int, first: int, last: int) -> None:
        for tenth in range(10 * first, 10 * last, 3):
            minute = tenth / 10
            offset = produced(minute) - 1
            records.append(
                (minute, lambda m=minute, o=offset: data.commit(group, f"a-{partition}", o, at(m)))
            )

    generation(0, "steady", 1, one="a-0 a-1")
    generation(0, "stuck", 1, one="a-0 a-1")
    generation(0, "gone", 1, one="a-0 a-1")
    for partition in (0, 1):
        commits("steady", partition, 1, END_MIN)
        commits("stuck", partition, 1, 44)
        commits("gone", partition, 1, 30)
    generation(30, "gone", 2)
    # A member of `steady` comes and goes.
    for number in range(8):
        generation(10 + number / 2, "steady", 2 + 2 * number, one="a-0", two="a-1")
        generation(10.2 + number / 2, "steady", 3 + 2 * number, one="a-0 a-1")
    for minute, write in sorted(records, key=lambda each: each[0]):
        if minute <= until_min:
            write()
    return data.write()


def run_at(tmp_path: Path, output: str, minute: float, samples: list[float]) -> None:
    """Run at a time; `samples` are the times at which this run and earlier ones saw log ends."""
    lines = [
        f"a,{partition},{seconds_of(minute)},{produced(minute)}\n"
        for sample in samples
        for minute in (sample - EARLIER_MS / MINUTE_MS, sample)
        for partition in (0, 1)
    ]
    ends = tmp_path / f"ends-{len(samples)}-{minute}.csv"
    ends.write_text(HEADER + "".join(lines))
    directory = write_story(tmp_path / f"data-{len(samples)}-{minute}", minute)
    run(LocalEngine(), [directory], output, log_ends=str(ends))


def seconds_of(minute: float) -> str:
    return datetime.fromtimestamp(NOW_MS / 1000 + 60 * minute, UTC).isoformat()


def findings(output: str) -> list[tuple[Any, ...]]:
    return table(output, "anomalies", "rule", "group_id", "window_start_ts", "subject", "evidence")


@pytest.mark.parametrize(
    "times", [[16, 60.4, END_MIN], [15.1, 15.7, 33, 47.5, 52, 71, 88.8, END_MIN]]
)
def test_findings_do_not_depend_on_the_times_of_the_runs(
    tmp_path: Path, times: list[float]
) -> None:
    once, often = str(tmp_path / "once"), str(tmp_path / "often")
    run_at(tmp_path, once, END_MIN, [END_MIN])
    past: dict[tuple[Any, ...], float] = {}
    for number, minute in enumerate(times, 1):
        run_at(tmp_path, often, minute, times[:number])
        columns = ("rule", "group_id", "window_start_ts", "window_end_ts", "cost")
        costs = {row[:-1]: row[-1] for row in table(often, "anomalies", *columns)}
        for finding, cost in past.items():
            assert costs[finding] == pytest.approx(cost), finding
        until = NOW_MS + (minute - 1) * MINUTE_MS
        past = {key: cost for key, cost in costs.items() if key[3].timestamp() * 1000 < until}
    found = findings(often)
    assert found == findings(once)
    assert sorted({(rule, group) for rule, group, *_ in found}) == [
        ("empty_group_with_lag", "gone"),
        ("rebalance_storm", "steady"),
        ("stalled_partition", "stuck"),
    ]
    assert len(found) == 3
    (evidence,) = (row[4] for row in found if row[1] == "stuck")
    assert "has not progressed since 09:37:54" in evidence
