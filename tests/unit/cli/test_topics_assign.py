"""`coterie topics assign`, with and without a scripted broker."""

from typing import Any

import pytest

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from tests.unit.cli.command import cells_of, rows_of, run
from tests.unit.client.fake_broker import FakeBroker, partition


def assign(broker: FakeBroker | None, *options: str) -> Any:
    return run(broker, "topics", "assign", *options)


def owned(result: Any) -> dict[str, dict[str, list[int]]]:
    assert result.exit_code == 0, result.output
    return {row["member"]: row["assignment"] for row in rows_of(result)}


def test_topics_of_the_cluster_are_assigned_to_names() -> None:
    with FakeBroker(topics={"orders": 10}) as broker:
        options = ("orders", "--members", "c1,c2,c3", "--assignor", "allocate-averagely")
        result = assign(broker, *options, "--json")
    assert rows_of(result)[0] == {
        "member": "c1",
        "room": None,
        "partition_count": 4,
        "assignment": {"orders": [0, 1, 2, 3]},
    }
    assert owned(result)["c3"] == {"orders": [7, 8, 9]}


def test_assumed_counts_need_no_broker() -> None:
    """Two topics with two queues each give the first two of four RocketMQ clients everything."""
    options = ("--partitions", "X=2", "--partitions", "Y=2", "--members", "1,2,3,4")
    result = assign(None, "X", "Y", *options, "--assignor", "allocate-averagely")
    assert cells_of(result) == [
        ["MEMBER", "#PARTITIONS", "ASSIGNMENT"],
        ["1", "2", "X:0;Y:0"],
        ["2", "2", "X:1;Y:1"],
        ["3", "0", "-"],
        ["4", "0", "-"],
    ]
    assert (
        "Each of 4 members would have 0 to 2 of 4 partitions. 2 would have none." in result.stderr
    )
    result = assign(None, "X", "Y", *options, "--assignor", "roundrobin")
    assert "Each of 4 members would have 1 of 4 partitions." in result.stderr
    one = assign(None, "X", "--partitions", "X=1", "--members", "1", "--assignor", "roundrobin")
    assert "Each of 1 member would have 1 of 1 partition." in one.stderr


def test_assumed_count_replaces_that_of_the_cluster() -> None:
    with FakeBroker(topics={"t": 2}) as broker:
        options = ("--partitions", "t=4", "--members", "a,b", "--assignor", "range", "--json")
        given = owned(assign(broker, "t", *options))
    assert given == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}


# Two brokers in racks; each leads every other partition of `t`.
IN_RACKS = MetadataResponse(
    brokers=[
        MetadataResponseBroker(node_id=1, host="localhost", port=1, rack="east"),
        MetadataResponseBroker(node_id=2, host="localhost", port=2, rack="west"),
    ],
    topics=[
        MetadataResponseTopic(
            error_code=0,
            name="t",
            partitions=[partition(index, leader=1 + index % 2) for index in range(4)],
        )
    ],
)
ROOMS = ("--members", "a,b", "--rooms", "a=east,b=west", "--json")


def test_partitions_stay_in_the_room_of_their_leader() -> None:
    with FakeBroker({ApiKey.METADATA: IN_RACKS}) as broker:
        near = owned(assign(broker, "t", *ROOMS, "--assignor", "nearby"))
        moved = owned(
            assign(broker, "t", *ROOMS, "--assignor", "nearby", "--broker-rooms", "2=east")
        )
        rooms = owned(assign(broker, "t", *ROOMS, "--assignor", "by-machine-room"))
    assert near == {"a": {"t": [0, 2]}, "b": {"t": [1, 3]}}
    assert moved == {"a": {"t": [0, 1, 2, 3]}, "b": {}}
    assert rooms == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}


def test_unknown_room_of_a_partition_is_an_error() -> None:
    with FakeBroker(topics={"t": 1}) as broker:
        result = assign(broker, "t", *ROOMS, "--assignor", "nearby")
    assert result.exit_code == 1
    assert "The room of partition t-0 is not known" in result.stderr
    assert "--broker-rooms" in result.stderr


def test_missing_topic_is_an_error() -> None:
    with FakeBroker(topics={"t": 1}) as broker:
        result = assign(broker, "t", "u", "--members", "a", "--assignor", "range")
    assert result.exit_code == 1
    assert "Topic 'u' does not exist." in result.stderr


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--members", ","], "there is no name"),
        (["--members", "a,b,a"], "'a' is there twice"),
        (["--members", "a", "--partitions", "t=x"], "is not TOPIC=COUNT"),
        (["--members", "a", "--partitions", "u=1"], "a topic that is not assigned"),
        (["--members", "a", "--rooms", "a=east"], "range does not use rooms"),
        (["--members", "a", "--assignor", "nearby"], "needs the room of 'a'"),
        (["--members", "a", "--assignor", "nearby", "--rooms", "a"], "is not NAME=ROOM"),
        (["--members", "a", "--assignor", "nearby", "--rooms", "a=1,b=2"], "'b' is not a member"),
        (["--members", "a", "--assignor", "best"], "'best' is not one of"),
    ],
)
def test_wrong_options_are_refused(options: list[str], error: str) -> None:
    result = assign(None, "t", "--assignor", "range", *options)
    assert result.exit_code == 2
    assert error in result.stderr
