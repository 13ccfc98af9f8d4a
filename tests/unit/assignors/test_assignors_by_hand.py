"""Assignments worked out by hand, one rule a test."""

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


def test_range_gives_the_first_members_one_more_of_each_topic() -> None:
    members = [member("c2", "a b"), member("c1", "a b")]
    assert table(ASSIGNORS["range"](TWO_TOPICS, members)) == {
        "c1": "a-0 a-1 b-0 b-1",
        "c2": "a-2 b-2",
    }


def test_round_robin_goes_on_where_the_last_topic_ended() -> None:
    members = [member("c1", "a b"), member("c2", "a b")]
    assert table(ASSIGNORS["roundrobin"](TWO_TOPICS, members)) == {
        "c1": "a-0 a-2 b-1",
        "c2": "a-1 b-0 b-2",
    }


def test_round_robin_passes_over_who_does_not_subscribe() -> None:
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


def test_sticky_moves_only_what_a_new_member_needs() -> None:
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


def test_sticky_gives_a_leavers_partitions_to_those_who_lack_some() -> None:
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


def test_cooperative_sticky_holds_back_what_is_still_owned() -> None:
    """The seed's story: two comes to a group of one with three partitions."""
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
    # Topics with few subscribers are looked at first, and by name: a-1 leaves the fullest member.
    assert table(given) == {"c1": "a-0 a-1", "c2": "b-1", "c3": "b-0"}


def test_uniform_keeps_what_fits_and_fills_the_rest() -> None:
    members = [member("c1", "a", "a-0 a-1 a-2 a-3"), member("c2", "a")]
    assert table(ASSIGNORS["uniform"]({"a": 4}, members)) == {"c1": "a-0 a-1", "c2": "a-2 a-3"}


def test_averagely_shares_the_seeds_eight_queues_among_three() -> None:
    """q0 to q2, q3 to q5, q6 and q7: the example of the seed documents."""
    members = [member(name, "q") for name in ("c1", "c2", "c3")]
    assert table(ASSIGNORS["allocate-averagely"]({"q": 8}, members)) == {
        "c1": "q-0 q-1 q-2",
        "c2": "q-3 q-4 q-5",
        "c3": "q-6 q-7",
    }


def test_averagely_by_circle_goes_round() -> None:
    members = [member(name, "q") for name in ("c1", "c2", "c3")]
    assert table(ASSIGNORS["averagely-by-circle"]({"q": 5}, members)) == {
        "c1": "q-0 q-3",
        "c2": "q-1 q-4",
        "c3": "q-2",
    }


def test_with_fewer_queues_than_clients_the_last_ones_get_none() -> None:
    members = [member(name, "q") for name in ("c1", "c2", "c3")]
    given = table(ASSIGNORS["allocate-averagely"]({"q": 2}, members))
    assert given == {"c1": "q-0", "c2": "q-1", "c3": ""}


def test_consistent_hash_moves_only_to_the_newcomer() -> None:
    members = [member(name, "q") for name in ("c1", "c2", "c3")]
    before = ASSIGNORS["consistent-hash"]({"q": 40}, members)
    after = ASSIGNORS["consistent-hash"]({"q": 40}, [*members, member("c4", "q")])
    assert after["c4"]
    for name in ("c1", "c2", "c3"):
        assert set(after[name]) <= set(before[name])


def test_by_config_gives_what_is_configured() -> None:
    members = [member("c1", "q"), member("c2", "q")]
    given = assign_by_config(members, {"c1": partitions("q-0 q-7")})
    assert table(given) == {"c1": "q-0 q-7", "c2": ""}


def test_by_machine_room_leaves_other_rooms_out() -> None:
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


def test_nearby_wants_to_know_every_room() -> None:
    with pytest.raises(ValueError, match="no machine room is known of c1"):
        assign_nearby({"q": 1}, [member("c1", "q")], rooms={}, member_rooms={})


@pytest.mark.parametrize("name", list(ASSIGNORS))
def test_nobody_and_nothing_are_assigned(name: str) -> None:
    assert ASSIGNORS[name]({"a": 3}, []) == {}
    assert table(ASSIGNORS[name]({}, [member("c1", "gone")])) == {"c1": ""}
