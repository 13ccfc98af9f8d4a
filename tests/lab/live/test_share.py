"""Lines of invented members of a share group, and records that members cannot process."""

from coterie.lab.live.measure import Measured, measure
from coterie.lab.live.share import SharedReplay
from coterie.lab.outcome import RunOutcome
from coterie.processes.lines import Line
from coterie.processes.member.poison import Poison
from tests.lab.live.test_measure import SCENARIO, S, line, outcome, parts

FORMED = [
    *(line(0, "driver", "started", member=name) for name in ("a.1", "b.1")),
    *(line(1, name, "taken", partitions=parts(0, 1, 2, 3)) for name in ("a.1", "b.1")),
]


def shared(lines: list[Line]) -> RunOutcome:
    """Measure lines of a run whose script begins after 10 s and that ends after 40 s."""
    begin_us, last_us, end_us = (1_000 * S + at_s * S for at_s in (10, 12, 40))
    what = Measured(SCENARIO, "share", 0, {}, ("topic",), "", begin_us, last_us, end_us)
    return measure(FORMED + lines, what, 10, SharedReplay)


def test_partitions_are_read_as_long_as_any_member_has_them() -> None:
    found = shared([line(12, "driver", "killed", member="b.1")])
    assert (found.metrics["unowned"], found.metrics["double"]) == (0, 0)


def test_nobody_reads_while_the_last_member_stands_still() -> None:
    found = shared(
        [
            line(12, "driver", "killed", member="b.1"),
            line(13, "driver", "paused", member="a.1"),
            line(15, "driver", "resumed", member="a.1"),
            line(16, "a.1", "taken", partitions=parts(0, 1, 2)),
        ]
    )
    # Four partitions for two seconds, and one that no member has for the last 24.
    assert found.metrics["unowned"] == 4 * 2 + 24
    assert found.metrics["moves"] == 0


def test_a_partition_stands_while_its_reader_tries_a_record_again() -> None:
    found = outcome(
        [
            line(12, "a.1", "stuck", partitions=parts(0)),
            line(13, "a.1", "stuck", partitions=parts(0)),
            line(20, "driver", "skipped", partitions=parts(0)),
        ]
    )
    assert found.causes["poison"] == found.metrics["unowned"] == 8


def test_only_the_poison_record_and_what_is_behind_it_waits() -> None:
    poison = Poison()
    records = [("t", 0, 7), ("t", 1, 3), ("t", 0, 8), ("t", 0, 9), ("t", 1, 4)]
    assert poison.before(records) == (records, None)
    poison.ordered("t", 0, 8, seconds=3_600)
    assert poison.before(records) == ([("t", 0, 7), ("t", 1, 3), ("t", 1, 4)], ("t", 0))
    assert poison.is_at(("t", 0, 8))
    poison.ordered("t", 0, 8, seconds=0)
    assert poison.before(records) == (records, None)
