"""The time of `make crash` is divided among its parts."""

import time

import pytest

from tests.crash.campaign import Campaign, Task, run
from tests.crash.parts import Part, Report, run_parts, search_until, table


def test_what_one_part_leaves_over_the_others_get() -> None:
    now_s = 1000.0
    until: dict[str, float] = {}

    def part(name: str, share: float, took_s: float) -> Part:
        def work(until_s: float) -> Report:
            nonlocal now_s
            until[name] = until_s
            now_s += took_s
            return Report(f"{name} was done", failures=1)

        return Part(name, share, work)

    parts = [part("early", 1, 10.0), part("late", 1, 50.0), part("exact", 1, 30.0)]
    parts.append(part("last", 1, 30.0))
    done = run_parts(parts, 120.0, lambda: now_s)
    # A quarter of 120 s, a third of the 110 that are left, half of 60, and the last 30.
    assert until == {
        "early": 1030.0,
        "late": pytest.approx(1010 + 110 / 3),
        "exact": 1090.0,
        "last": 1120.0,
    }
    assert [each.given_s for each in done][2:] == [30.0, 30.0]
    assert table(done)[-1].split() == ["last", "30.0", "30.0", "last", "was", "done"]


def test_a_part_after_the_end_gets_no_time() -> None:
    seen: list[float] = []

    def work(until_s: float) -> Report:
        seen.append(until_s)
        return Report("")

    run_parts([Part("late", 1, work)], 0.0, lambda: 7.0)
    assert seen == [7.0]


def test_searches_end_with_their_time() -> None:
    assert search_until(time.monotonic() + 600, abs, [2, 0, 1], 2) == {0: 0, 1: 1, 2: 2}
    # The second search would take an hour.
    assert len(search_until(time.monotonic() + 0.5, _wait, [0, 1], 1)) <= 1


def _wait(number: int) -> int:
    time.sleep(3600 * number)
    return number


@pytest.mark.parametrize(
    ("kind", "scenario"),
    [("death", "commit"), ("failing EIO", "commit"), ("window", "aar"), ("short calls", "commit")],
)
def test_a_task_tries_little_after_its_time(kind: str, scenario: str) -> None:
    result = run(Task(kind, scenario, True, 0, 9, lost=0, until_s=-1.0))
    assert sum(result.outcomes.values()) <= 1


def test_a_campaign_begins_no_task_after_its_time() -> None:
    campaign = Campaign()
    assert campaign.run_until(-1.0, [Task("death", "commit", True, 0, 9)], 1) == 1
    assert campaign.tasks == 0
