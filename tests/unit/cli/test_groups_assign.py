"""`coterie groups assign`, against a scripted broker."""

from collections.abc import Iterator

import pytest

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from coterie.protocol.messages.describe_groups import DescribeGroupsResponseMember
from tests.unit.cli.command import described, group, member, rows_of, run
from tests.unit.client.fake_broker import FakeBroker


def reader(
    name: str, instance: str | None = None, **topics: list[int]
) -> DescribeGroupsResponseMember:
    """Return a member with an assignment that subscribes to `orders`."""
    found = member(name, instance, **topics)
    found.member_metadata = encode_subscription(ConsumerProtocolSubscription(topics=["orders"]))
    return found


@pytest.fixture
def two_readers() -> Iterator[FakeBroker]:
    with FakeBroker() as broker:
        broker.topics["orders"] = 4
        broker.responses[ApiKey.DESCRIBE_GROUPS] = described(
            group(
                "billing", "Stable", reader("a", orders=[0, 1, 2]), reader("b", "i1", orders=[3])
            ),
            group("empty", "Empty"),
            group("busy", "PreparingRebalance", member("a")),
        )
        yield broker


def assignments(broker: FakeBroker, *options: str) -> dict[str, dict[str, list[int]]]:
    result = run(broker, "groups", "assign", "billing", "--json", *options)
    assert result.exit_code == 0, result.output
    return {row["consumer_id"]: row["then"] for row in rows_of(result)}


def test_assignors_make_their_assignments(two_readers: FakeBroker) -> None:
    assert assignments(two_readers, "--assignor", "range") == {
        "a-id": {"orders": [2, 3]},
        "b-id": {"orders": [0, 1]},
    }
    assert assignments(two_readers, "--assignor", "sticky") == {
        "a-id": {"orders": [0, 1]},
        "b-id": {"orders": [2, 3]},
    }


def test_cooperative_assignment_is_the_one_after_both_rebalances(two_readers: FakeBroker) -> None:
    given = assignments(two_readers, "--assignor", "cooperative-sticky")
    assert given == {"a-id": {"orders": [0, 1]}, "b-id": {"orders": [2, 3]}}


def test_members_can_be_added_and_removed(two_readers: FakeBroker) -> None:
    given = assignments(two_readers, "--assignor", "sticky", "--add", "2", "--without", "i1")
    assert given.keys() == {"a-id", "(new 1)", "(new 2)"}
    indexes = [index for share in given.values() for index in share.get("orders", [])]
    assert sorted(indexes) == [0, 1, 2, 3]


def test_members_of_an_empty_group_are_assumed_with_their_topics(two_readers: FakeBroker) -> None:
    refused = run(two_readers, "groups", "assign", "empty", "--assignor", "range", "--add", "2")
    assert "--add COUNT --topics TOPIC" in refused.stderr
    result = run(
        two_readers, "groups", "assign", "empty", "--assignor", "range", "--json",
        "--add", "2", "--topics", "orders",
    )  # fmt: skip
    assert {row["consumer_id"]: row["then"] for row in rows_of(result)} == {
        "(new 1)": {"orders": [0, 1]},
        "(new 2)": {"orders": [2, 3]},
    }


def test_partition_count_can_be_changed(two_readers: FakeBroker) -> None:
    given = assignments(two_readers, "--assignor", "range", "--partitions", "orders=6")
    assert given == {"a-id": {"orders": [3, 4, 5]}, "b-id": {"orders": [0, 1, 2]}}


def test_table_shows_what_would_move(two_readers: FakeBroker) -> None:
    result = run(two_readers, "groups", "assign", "billing", "--assignor", "sticky")
    assert "orders:0,1,2" in result.stdout
    assert "1 of 4 partitions would change owner." in result.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("none", "--assignor", "range"), "Group 'none' does not exist."),
        (("empty", "--assignor", "range"), "Group 'empty' has no members"),
        (("busy", "--assignor", "range"), "The subscriptions of group 'busy' are not known"),
        (("billing", "--assignor", "range", "--without", "x"), "The group has no member 'x'."),
        (("billing", "--assignor", "range", "--partitions", "orders"), "is not TOPIC=COUNT"),
        (("billing", "--assignor", "best"), "Invalid value for '--assignor'"),
        (("empty", "--assignor", "range", "--topics", "orders"), "--topics needs --add"),
    ],
)
def test_errors_name_the_cause(
    two_readers: FakeBroker, arguments: tuple[str, ...], error: str
) -> None:
    result = run(two_readers, "groups", "assign", *arguments)
    assert result.exit_code != 0
    assert error in result.stderr
