"""Assignments worked out beforehand, one rule for each test."""

import pytest

from coterie.assignors import (
    ASSIGNORS,
    assign_by_config,
    assign_by_machine_room,
    assign_cooperative_sticky,
    assign_nearby,
    assign_sticky,
)
from tests.unit.assignors.members import member, partitions, table

TWO_TOPICS = {"a": 3, "b": 3}


def test_range_gives_the_first_members_one_more_partition_of_each_topic() -> None:
    members = [member("c2", "a b"), member("c1", "a b")]
    assert table(ASSIGNORS["range"](TWO_TOPICS, members)) == {
        "c1": "a-0 a-1 b-0 b-1",
        "c2": "a-2 b-2",
    }


def test_round_robin_continues_where_the_previous_topic_ended() -> None:
    members = [member("c1", "a b"), member("c2", "a b")]
    assert table(ASSIGNORS["roundrobin"](TWO_TOPICS, members)) == {
        "c1": "a-0 a-2 b-1",
        "c2": "a-1 b-0 b-2",
    }


def test_round_robin_skips_members_that_do_not_subscribe() -> None:
    members = [member("c1", "a"), member("c2", "a b"), member("c3", "b")]
    assert table(ASSIGNORS["roundrobin"](TWO_TOPICS, members)) == {
        "c1": "a-0 a-2",
        "c2": "a-1 b-0 b-2",
        "c3": "b-1",
    }


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_static_members_come_first_by_instance_id(name: str) -> None:
    members = [
        member("c1", "a"),
        member("c9", "a", instance="i2"),
        member("c8", "a", instance="i3"),
    ]
    given = table(ASSIGNORS[name]({"a": 3}, members))
    assert given == {"c9": "a-0", "c8": "a-1", "c1": "a-2"}


def test_sticky_moves_only_the_share_of_a_new_member() -> None:
    members = [
        member("c1", "a", "a-0 a-1 a-2", generation=4),
        member("c2", "a", "a-3 a-4 a-5", generation=4),
        member("c3", "a"),
    ]
    assert table(assign_sticky({"a": 6}, members)) == {
        "c1": "a-0 a-1",
        "c2": "a-3 a-4",
        "c3": "a-2 a-5",
    }


def test_sticky_gives_the_partitions_of_a_former_member_to_the_smallest_shares() -> None:
    members = [
        member("c1", "a", "a-0 a-1", generation=4),
        member("c2", "a", "a-2 a-3", generation=4),
    ]
    given = table(assign_sticky({"a": 6}, members))
    assert given == {"c1": "a-0 a-1 a-4", "c2": "a-2 a-3 a-5"}


def test_of_two_claims_the_newer_generation_wins() -> None:
    members = [
        member("c1", "a", "a-0", generation=3),
        member("c2", "a", "a-0", generation=5),
    ]
    assert table(assign_sticky({"a": 2}, members)) == {"c1": "a-1", "c2": "a-0"}


def test_cooperative_sticky_does_not_assign_partitions_that_are_still_owned() -> None:
    """Member two joins a group of one member with three partitions."""
    first = [member("one", "community", "community-0 community-1 community-2", generation=9)]
    assert table(assign_cooperative_sticky({"community": 3}, first))["one"] == (
        "community-0 community-1 community-2"
    )
    both = [*first, member("two", "community")]
    given = assign_cooperative_sticky({"community": 3}, both)
    assert table(given) == {"one": "community-0 community-1", "two": ""}
    again = [
        member("one", "community", "community-0 community-1", generation=10),
        member("two", "community", generation=10),
    ]
    assert table(assign_cooperative_sticky({"community": 3}, again)) == {
        "one": "community-0 community-1",
        "two": "community-2",
    }


def test_sticky_with_different_subscriptions_balances_by_moves() -> None:
    members = [
        member("c1", "a", "a-0", generation=1),
        member("c2", "a b", "a-1 b-0 b-1", generation=1),
        member("c3", "b"),
    ]
    given = assign_sticky({"a": 2, "b": 2}, members)
    # Topics with few subscribers come first, then in order of their names: c2, which has the most
    # partitions, loses a-1.
    assert table(given) == {"c1": "a-0 a-1", "c2": "b-1", "c3": "b-0"}


def test_uniform_keeps_partitions_up_to_the_quota() -> None:
    members = [member("c1", "a", "a-0 a-1 a-2 a-3"), member("c2", "a")]
    assert table(ASSIGNORS["uniform"]({"a": 4}, members)) == {"c1": "a-0 a-1", "c2": "a-2 a-3"}


def test_averagely_gives_consecutive_queues() -> None:
    members = [member(name, "q") for name in ("c1", "c2", "c3")]
    assert table(ASSIGNORS["allocate-averagely"]({"q": 8}, members)) == {
        "c1": "q-0 q-1 q-2",
        "c2": "q-3 q-4 q-5",
        "c3": "q-6 q-7",
    }


def test_averagely_by_circle_gives_queues_in_turn() -> None:
    members = [member(name, "q") for name in ("c1", "c2", "c3")]
    assert table(ASSIGNORS["averagely-by-circle"]({"q": 5}, members)) == {
        "c1": "q-0 q-3",
        "c2": "q-1 q-4",
        "c3": "q-2",
    }


def test_averagely_gives_the_last_clients_nothing_if_there_are_few_queues() -> None:
    members = [member(name, "q") for name in ("c1", "c2", "c3")]
    given = table(ASSIGNORS["allocate-averagely"]({"q": 2}, members))
    assert given == {"c1": "q-0", "c2": "q-1", "c3": ""}


def test_consistent_hash_moves_queues_only_to_the_new_client() -> None:
    members = [member(name, "q") for name in ("c1", "c2", "c3")]
    before = ASSIGNORS["consistent-hash"]({"q": 40}, members)
    after = ASSIGNORS["consistent-hash"]({"q": 40}, [*members, member("c4", "q")])
    assert after["c4"]
    for name in ("c1", "c2", "c3"):
        assert set(after[name]) <= set(before[name])


def test_by_config_gives_the_configured_queues() -> None:
    members = [member("c1", "q"), member("c2", "q")]
    given = assign_by_config(members, {"c1": partitions("q-0 q-7")})
    assert table(given) == {"c1": "q-0 q-7", "c2": ""}


def test_by_machine_room_ignores_other_rooms() -> None:
    members = [member("c1", "q"), member("c2", "q")]
    rooms = dict(
        zip(partitions("q-0 q-1 q-2 q-3"), ("north", "south", "north", "north"), strict=True)
    )
    given = assign_by_machine_room({"q": 4}, members, rooms=rooms, consumer_rooms=["north"])
    assert table(given) == {"c1": "q-0 q-3", "c2": "q-2"}


def test_nearby_shares_rooms_without_clients_among_all() -> None:
    members = [member("c1", "q"), member("c2", "q")]
    rooms = dict(
        zip(partitions("q-0 q-1 q-2 q-3"), ("north", "south", "east", "east"), strict=True)
    )
    given = assign_nearby(
        {"q": 4}, members, rooms=rooms, member_rooms={"c1": "north", "c2": "south"}
    )
    assert table(given) == {"c1": "q-0 q-2", "c2": "q-1 q-3"}


def test_nearby_requires_the_room_of_every_member() -> None:
    with pytest.raises(ValueError, match="the machine room of c1 is not known"):
        assign_nearby({"q": 1}, [member("c1", "q")], rooms={}, member_rooms={})


@pytest.mark.parametrize("name", list(ASSIGNORS))
def test_no_members_or_no_topics_give_empty_assignments(name: str) -> None:
    assert ASSIGNORS[name]({"a": 3}, []) == {}
    assert table(ASSIGNORS[name]({}, [member("c1", "gone")])) == {"c1": ""}
