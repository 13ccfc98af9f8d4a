"""A recorded history under other assignors, with expected numbers [pipeline/what-if]."""

from pathlib import Path

import pytest

from coterie.assignors.model import TopicPartition
from coterie.pipeline.timeline.from_journal import journal_history
from coterie.pipeline.timeline.from_log import log_history
from coterie.pipeline.timeline.model import Generation, GroupHistory, RecordedMember
from coterie.pipeline.what_if import NAMES, Rooms, replay
from tests.pipeline.timeline.facts import (
    began,
    completed,
    first_generation,
    join_done,
    joined,
    member_of,
    partitions,
    removed,
)

# Member one owns all six partitions from 100 on. Two joins at 1000 (one rejoins at 1400, completed
# at 1500). Three joins at 2000 (rejoins at 2100 and 2200, completed at 2300). One expires at 9000
# (completed at 9300).
HISTORY = (
    *first_generation("a-0 a-1 a-2 a-3 a-4 a-5"),
    joined(1000, "two"),
    began(1000, "join", "two", 1),
    join_done(1400, 2, 1000),
    completed(
        1500, 2, 1000, member_of("one", "a-0 a-1 a-2", after=400), member_of("two", "a-3 a-4 a-5")
    ),
    joined(2000, "three"),
    began(2000, "join", "three", 2),
    join_done(2200, 3, 2000),
    completed(
        2300,
        3,
        2000,
        member_of("one", "a-0 a-1", after=100),
        member_of("three", "a-2 a-3"),
        member_of("two", "a-4 a-5", after=200),
    ),
    removed(9000, "one", "session expiry"),
    began(9000, "session expiry", "one", 3),
    join_done(9250, 4, 9000),
    completed(
        9300,
        4,
        9000,
        member_of("three", "a-0 a-1 a-2", after=200),
        member_of("two", "a-3 a-4 a-5", after=250),
    ),
)


@pytest.fixture
def history() -> GroupHistory:
    return journal_history("g", HISTORY)


def moved(history: GroupHistory, assignor: str) -> list[int]:
    return [each.moved for each in replay(history, assignor).rebalances]


def unowned(history: GroupHistory, assignor: str) -> list[int | None]:
    return [each.unowned_ms for each in replay(history, assignor).rebalances]


def test_recorded_assignor_gives_the_recorded_numbers(history: GroupHistory) -> None:
    """Under range again: the same moves and the same times in every rebalance."""
    found = replay(history, "range")
    assert found.protocols == ("range",)
    assert (found.left_out, found.problem) == (0, None)
    assert [(each.moved, each.moved_min, each.unowned_ms) for each in found.rebalances] == [
        (each.moved, each.moved_min, each.unowned_partition_ms) for each in history.rebalances
    ]
    # Two joins: three of the six partitions move. Three sorts between the others: a-2, a-3 move.
    assert [each.moved for each in found.rebalances] == [0, 3, 2, 3]


def test_sticky_moves_only_what_must_move(history: GroupHistory) -> None:
    found = replay(history, "sticky")
    assert [each.moved for each in found.rebalances] == [0, 3, 2, 2]
    assert all(each.moved == each.moved_min for each in found.rebalances)


def test_round_robin_moves_more(history: GroupHistory) -> None:
    """Three members: one gets 0 3, three 1 4, two 2 5. Two members: three gets 0 2 4."""
    assert moved(history, "roundrobin") == [0, 3, 4, 4]


def test_eager_assignor_stops_a_member_from_its_rejoin_on(history: GroupHistory) -> None:
    # Two joins: the six partitions of one stop for 100 ms. Three joins: three stop for 200 ms,
    # three for 100. One expires: its two stop for 300 ms, two for 100 and two for 50.
    assert unowned(history, "sticky") == [0, 600, 900, 900]


def test_incremental_assignor_stops_moved_partitions_for_a_second_round(
    history: GroupHistory,
) -> None:
    # A second round takes as long as the recorded join and sync: 400 + 10, and 200 + 10. The two
    # partitions of the expired member are assigned in the first round, after 300 ms.
    assert unowned(history, "cooperative-sticky") == [0, 3 * 410, 2 * 210, 2 * 300]
    assert moved(history, "cooperative-sticky") == [0, 3, 2, 2]


def test_second_round_takes_as_long_as_the_recorded_one() -> None:
    found = journal_history(
        "g",
        (
            joined(0, "one"),
            began(0, "join", "one", 0, state="Empty"),
            completed(100, 1, 0, member_of("one", "a-0 a-1", owned="")),
            joined(1000, "two"),
            began(1000, "join", "two", 1),
            completed(
                1200, 2, 1000, member_of("one", "a-0", after=50, owned="a-0 a-1"), member_of("two")
            ),
            began(
                1210,
                "rejoin with changed subscription",
                "one",
                2,
                subscription_change="owned partitions",
            ),
            completed(1240, 3, 1210, member_of("one", "a-0", owned="a-0"), member_of("two", "a-1")),
        ),
    )
    replayed = replay(found, "cooperative-sticky").rebalances[-1]
    assert (replayed.recorded_moved, replayed.recorded_unowned_ms) == (1, 40)
    assert (replayed.moved, replayed.unowned_ms) == (1, 40)
    # An eager assignor needs no second round: both partitions stop from the rejoin to the end.
    assert replay(found, "range").rebalances[-1].unowned_ms == 2 * 150


def test_unknown_times_stay_unknown() -> None:
    def member(name: str, assigned: str) -> RecordedMember:
        return RecordedMember(name, None, name, "/host", ("a",), (), partitions(assigned))

    logged = [
        Generation(1, 100, "consumer", "range", "m1", (member("m1", "a-0 a-1"),)),
        Generation(2, 900, "consumer", "range", "m1", (member("m1", "a-0"), member("m2", "a-1"))),
    ]
    found = replay(log_history("g", logged), "sticky")
    assert [(each.moved, each.unowned_ms) for each in found.rebalances] == [(0, None), (1, None)]


def test_rebalance_with_unknown_subscriptions_is_left_out() -> None:
    worker = RecordedMember("m1", None, "c", "/host", None, (), ())
    history = log_history("g", [Generation(1, 100, "connect", "compatible", "m1", (worker,))])
    found = replay(history, "range")
    assert (found.rebalances, found.left_out) == ([], 1)
    assert found.problem is not None


def test_assignors_use_rooms(history: GroupHistory) -> None:
    parts = partitions("a-0 a-1 a-2 a-3 a-4 a-5")
    rooms = Rooms(
        {each: "east" if each.partition < 3 else "west" for each in parts},
        {"client-one": "east", "client-two": "west", "three": "west"},
    )
    near = replay(history, "nearby", rooms)
    assert near.problem is None
    # One is alone at first. Then two gets the partitions in the west.
    assert [each.moved for each in near.rebalances][:2] == [0, 3]
    assert replay(history, "by-machine-room", rooms).problem is None
    configured = Rooms(dict.fromkeys(parts, "two"), {})
    assert [each.moved for each in replay(history, "by-config", configured).rebalances] == [0] * 4
    assert "needs rooms" in (replay(history, "nearby").problem or "")
    nowhere = replay(history, "nearby", Rooms({TopicPartition("a", 0): "east"}, {}))
    assert "the machine room of" in (nowhere.problem or "")


@pytest.mark.parametrize("assignor", [name for name in NAMES if "-room" not in name])
def test_every_assignor_can_be_replayed(history: GroupHistory, assignor: str) -> None:
    rooms = Rooms(dict.fromkeys(partitions("a-0 a-1"), "east"), {"/127.0.0.1": "east"})
    if assignor == "nearby":
        rooms = Rooms(dict.fromkeys(partitions("a-0 a-1 a-2 a-3 a-4 a-5"), "east"), rooms.members)
    found = replay(history, assignor, rooms)
    assert len(found.rebalances) == 4
    assert found.problem is None


def test_rooms_are_read_from_a_file(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from coterie.pipeline.jobs.replay import BadRooms, read_rooms

    path = tmp_path / "rooms.csv"
    path.write_text("orders-0,east\nreader,west\n\n")
    rooms = read_rooms(str(path))
    assert rooms.partitions == {TopicPartition("orders", 0): "east"}
    assert rooms.members["reader"] == "west"
    path.write_text("orders-0\n")
    with pytest.raises(BadRooms, match="line 1"):
        read_rooms(str(path))
