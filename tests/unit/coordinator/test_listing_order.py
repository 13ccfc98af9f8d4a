"""Groups are listed in the order of Kafka's hash table."""

import pytest

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.listing_order import ListingOrder
from tests.unit.coordinator.harness import UnitHarness


def listed(ids: list[str], size: int = 100) -> list[str]:
    order = ListingOrder()
    order.grow(len(ids))
    groups = [Group(each, 0) for each in ids]
    parts = list(order.parts(groups, size))
    assert all(len(part) <= size for part in parts)
    return [group.group_id for part in parts for group in part]


# Orders of a Kafka 4.3.1.
@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["member-1", "member-2"], ["member-2", "member-1"]),
        ([f"grp-{n}" for n in range(1, 7)], [f"grp-{n}" for n in (2, 4, 1, 6, 3, 5)]),
        (["A" * 21 + each for each in "123"], ["A" * 21 + each for each in "213"]),
        ([], []),
    ],
)
def test_order_is_that_of_kafka(ids: list[str], expected: list[str]) -> None:
    """[administration/list-order]"""
    assert listed(ids) == expected
    assert listed(ids, size=2) == expected


def test_latest_group_of_a_slot_is_first() -> None:
    # Both have the hash of "Aa".
    assert listed(["Aa", "BB"]) == ["BB", "Aa"]
    assert listed(["BB", "Aa"]) == ["Aa", "BB"]


def test_table_does_not_shrink() -> None:
    """[administration/list-order]"""
    harness = UnitHarness()
    partition = harness.coordinator.shards[0]
    for number in range(1, 7):
        partition.add_group(partition.new_group(f"grp-{number}", 0))
    groups = list(partition.groups.values())
    slots = [partition.listing_order.slot(group) for group in groups]
    for number in range(3, 7):
        del partition.groups[f"grp-{number}"]
    partition.add_group(partition.new_group("grp-7", 0))
    assert [partition.listing_order.slot(group) for group in groups] == slots
