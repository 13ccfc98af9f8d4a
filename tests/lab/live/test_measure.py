"""Lines of invented members become an outcome; no process is started."""

import pytest

from coterie.lab.live.measure import Measured, measure
from coterie.lab.outcome import RunOutcome
from coterie.lab.scenario import load_scenario
from coterie.processes.lines import Line

S = 1_000_000
SCENARIO = load_scenario("three-and-one").resized(2, 4)


def line(at_s: float, by: str, event: str, **fields: object) -> Line:
    """Return a line."""
    return Line(1_000 * S + int(at_s * S), by, event, fields)


def parts(*numbers: int) -> list[tuple[str, int]]:
    """Return partitions of the topic."""
    return [("topic", number) for number in numbers]


FORMED = [
    line(0, "driver", "started", member="a.1"),
    line(1, "a.1", "generation", generation=1),
    line(1, "b.1", "generation", generation=1),
    line(1, "a.1", "assigned", partitions=parts(0, 1)),
    line(1, "b.1", "assigned", partitions=parts(2, 3)),
]


def outcome(lines: list[Line], machine: str = "eager-3", last_s: float = 12) -> RunOutcome:
    """Measure lines of a run whose script begins after 10 s and that ends after 40 s."""
    begin_us, last_us, end_us = (1_000 * S + int(at_s * S) for at_s in (10, last_s, 40))
    what = Measured(SCENARIO, machine, 0, {}, ("topic",), "", begin_us, last_us, end_us)
    return measure(FORMED + lines, what, rate=10)


def test_eager_rebalance_counts_what_each_member_gives_up() -> None:
    found = outcome(
        [
            line(12, "a.1", "revoked", partitions=parts(0, 1)),
            line(13, "b.1", "revoked", partitions=parts(2, 3)),
            *(line(13, name, "generation", generation=2) for name in ("a.1", "b.1", "c.1")),
            line(13, "a.1", "assigned", partitions=parts(0)),
            line(13, "b.1", "assigned", partitions=parts(2, 3)),
            line(14, "c.1", "assigned", partitions=parts(1)),
        ]
    )
    assert found.metrics["unowned"] == 3
    assert found.causes["barrier"] == 1
    assert found.causes["handover"] == 2
    assert found.metrics["moves"] == found.metrics["fewest_moves"] == 1
    assert found.metrics["generations"] == 1
    assert found.metrics["settle_s"] == 2
    assert found.evidence == "measured"


def test_dead_member_is_undetected_until_another_one_stops() -> None:
    found = outcome(
        [
            line(12, "driver", "killed", member="b.1"),
            line(18, "a.1", "revoked", partitions=parts(0, 1)),
            line(19, "a.1", "assigned", partitions=parts(0, 1, 2, 3)),
        ]
    )
    assert found.causes["undetected"] == 12
    assert found.causes["waiting"] == 2
    assert found.causes["barrier"] == 2


def test_member_that_goes_on_after_a_pause_reads_beside_its_successor() -> None:
    found = outcome(
        [
            line(12, "driver", "paused", member="b.1"),
            line(20, "a.1", "assigned", partitions=parts(2, 3)),
            line(25, "driver", "resumed", member="b.1"),
            line(25.5, "b.1", "lost", partitions=parts(2, 3)),
        ],
        "cooperative",
        last_s=25,
    )
    assert found.metrics["unowned"] == 16
    assert found.metrics["double"] == 1


def test_static_member_that_comes_back_moves_nothing() -> None:
    found = outcome(
        [
            line(12, "b.1", "ending"),
            line(12.5, "driver", "exited", member="b.1"),
            line(14, "driver", "started", member="b.1"),
            line(16, "b.1", "assigned", partitions=parts(2, 3)),
        ],
        "static",
    )
    assert found.metrics["unowned"] == 8
    assert found.metrics["moves"] == 0
    assert found.causes["barrier"] == 8


def test_records_are_counted_one_by_one() -> None:
    found = outcome(
        [
            line(10, "producer", "produced", ends=[["topic", 0, 100]]),
            line(11, "a.1", "delivered", batches=[["topic", 0, 0, 49]]),
            line(12, "a.1", "committed", offsets=[["topic", 0, 40]]),
            line(13, "b.1", "delivered", batches=[["topic", 0, 40, 89]]),
            line(14, "b.1", "committed", offsets=[["topic", 0, 95]]),
            line(15, "a.1", "committed", offsets=[["topic", 0, 90]]),
        ]
    )
    assert found.metrics["delivered"] == 100
    assert found.metrics["duplicates"] == 10
    assert found.metrics["rewinds"] == 1
    assert found.metrics["lost"] == 5
    assert found.metrics["peak_backlog"] == 100


@pytest.mark.parametrize(("calm_s", "settled"), [(25, 13), (35, None)])
def test_group_has_settled_after_ten_calm_seconds(calm_s: float, settled: float | None) -> None:
    found = outcome(
        [
            line(12, "a.1", "revoked", partitions=parts(0, 1)),
            line(calm_s, "a.1", "assigned", partitions=parts(0, 1)),
        ]
    )
    assert found.metrics["settle_s"] == settled


def test_client_that_says_what_it_owns_is_understood() -> None:
    found = outcome(
        [
            line(12, "a.1", "taken", partitions=parts(0)),
            line(14, "b.1", "taken", partitions=parts(1, 2, 3)),
        ]
    )
    assert found.metrics["unowned"] == 2
    assert found.metrics["moves"] == 1
