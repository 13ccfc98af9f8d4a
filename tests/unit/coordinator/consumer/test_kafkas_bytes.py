"""Records, frames, hashes and orders as a Kafka 4.3.1 has them, byte by byte.

Kafka's group is "grp", its client "c" at 127.0.0.1; the topic gt has two partitions.
"""

from typing import Any

import pytest

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.records import current_value, target_value
from coterie.coordinator.groups.consumer.states import MemberState
from coterie.coordinator.groups.metadata_hash import metadata_hash
from coterie.coordinator.topic_image import TopicImage, TopicsImage
from coterie.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from coterie.protocol.messages.log_records import (
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from coterie.protocol.messages.record_types import UnknownKey
from coterie.protocol.wire import Message
from tests.unit.coordinator.consumer.harness import ConsumerHarness
from tests.unit.coordinator.harness import START_MS

GT = bytes.fromhex("d8cc84e330e0447caaa71a43d53e6a3c")
FOO = bytes.fromhex("7854ad4323db4fc3a9841f4d4e5a8121")
BAR = bytes.fromhex("4ce4d7e92e384b50ae23a25155fb8cb4")

KEYS = {
    3: "00030003677270",
    4: "00040003677270",
    5: "0005000367727000026d31",
    6: "00060003677270",
    7: "0007000367727000026d31",
    8: "0008000367727000026d31",
    16: "001000036772700003672e2a",
}
# The type of a record and its value.
VALUES = {
    "member": (5, "0000000002630b2f3132372e302e302e310203677401000493e00001000100"),
    "static member": (
        5,
        "0000036932027202630b2f3132372e302e302e310203677401000493e00672616e676501000100",
    ),
    "regex": (5, "0000036932027202630b2f3132372e302e302e310104672e2a000493e00672616e676501000100"),
    "classic": (
        5,
        (
            "0000000002630b2f3132372e302e302e310204666f6f01000493e000010022010000afc8020672616e67"
            "65140001000000010003666f6fffffffff000000000000"
        ),
    ),
    "epoch": (3, "00000000000201000883f44fc03d1cc5ec"),
    "epoch without topics": (3, "00000000000700"),
    "target": (7, "000002d8cc84e330e0447caaa71a43d53e6a3c0300000000000000010000"),
    "empty target": (7, "00000100"),
    "target epoch": (6, "000000000002010008000001a201cb8fc0"),
    "first target epoch": (6, "00000000000100"),
    "stable": (
        8,
        (
            "000000000002000000000002d8cc84e330e0447caaa71a43d53e6a3c0300000000000000010100090300"
            "000002000000020100"
        ),
    ),
    "unreleased": (8, "0000000000030000000002010100"),
    "unrevoked": (
        8,
        (
            "000000000002000000020102d8cc84e330e0447caaa71a43d53e6a3c0200000001010005020000000202"
            "d8cc84e330e0447caaa71a43d53e6a3c0200000000010005020000000200"
        ),
    ),
    "away": (8, "0000fffffffe0000000302010100"),
    "resolved": (16, "00000203677400000000000011e9000001a201cb92be00"),
}
FRAMES: dict[str, tuple[type[Message], str]] = {
    "joins": (
        ConsumerGroupHeartbeatRequest,
        "04677270036d31000000000000000493e00203677400000100",
    ),
    "plain": (ConsumerGroupHeartbeatRequest, "04677270036d31000000020000ffffffff0000000000"),
    "leaves for a while": (
        ConsumerGroupHeartbeatRequest,
        "04677270036d32fffffffe03693200ffffffff0000000000",
    ),
    "assigned": (
        ConsumerGroupHeartbeatResponse,
        (
            "00000000000000036d3100000002000013880102d8cc84e330e0447caaa71a43d53e6a3c030000000000"
            "000001000000"
        ),
    ),
    "unchanged": (ConsumerGroupHeartbeatResponse, "00000000000000036d310000000200001388ff00"),
    "nothing": (ConsumerGroupHeartbeatResponse, "00000000000000036d32000000030000138801010000"),
    "left": (ConsumerGroupHeartbeatResponse, "00000000000000036d31ffffffff00000000ff00"),
    "described": (
        ConsumerGroupDescribeResponse,
        (
            "0000000002000000046772700c5265636f6e63696c696e6700000003000000030672616e676503036d31"
            "00000000000202630b2f3132372e302e302e31020367740102d8cc84e330e0447caaa71a43d53e6a3c03"
            "6774030000000100000000000002d8cc84e330e0447caaa71a43d53e6a3c036774020000000100000100"
            "036d3303693202720000000302630b2f3132372e302e302e310203677401010002d8cc84e330e0447caa"
            "a71a43d53e6a3c036774020000000000000100800000000000"
        ),
    ),
}


def value_of(name: str) -> Any:
    """Return one of Kafka's values."""
    number, value = VALUES[name]
    key = decode_key(bytes.fromhex(KEYS[number]))
    assert not isinstance(key, UnknownKey)
    return decode_value(key, bytes.fromhex(value))


@pytest.mark.parametrize("number", KEYS)
def test_keys(number: int) -> None:
    key = decode_key(bytes.fromhex(KEYS[number]))
    assert not isinstance(key, UnknownKey)
    assert encode_key(key).hex() == KEYS[number]


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    assert encode_value(value_of(name)).hex() == VALUES[name][1]


@pytest.mark.parametrize("name", FRAMES)
def test_frames(name: str) -> None:
    kind, frame = FRAMES[name]
    assert kind.decode(bytes.fromhex(frame), 1).encode(1).hex() == frame


def test_values_that_are_made_of_partitions() -> None:
    stable, unrevoked = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS
    unreleased = MemberState.UNRELEASED_PARTITIONS
    made = {
        "target": target_value({GT: (0, 1)}),
        "empty target": target_value({}),
        "stable": current_value(2, 0, stable, {GT: {1: 2, 0: 2}}, {}),
        "unreleased": current_value(3, 0, unreleased, {}, {}),
        "unrevoked": current_value(2, 2, unrevoked, {GT: {1: 2}}, {GT: {0: 2}}),
        "away": current_value(-2, 3, unreleased, {}, {}),
    }
    assert {name: encode_value(value).hex() for name, value in made.items()} == {
        name: VALUES[name][1] for name in made
    }


def test_first_join_writes_what_kafka_writes() -> None:
    harness = ConsumerHarness()
    harness.topics.put("gt", GT, 2)
    joins = ConsumerGroupHeartbeatRequest.decode(bytes.fromhex(FRAMES["joins"][1]), 1)
    answer = harness.send(joins, 1, "c")
    assert answer.encode(1).hex() == FRAMES["assigned"][1]
    (batch,) = harness.written
    time = f"{START_MS:016x}"
    expected = {
        KEYS[5]: VALUES["member"][1],
        KEYS[3]: VALUES["epoch"][1],
        KEYS[7]: VALUES["target"][1],
        KEYS[6]: VALUES["target epoch"][1].replace("000001a201cb8fc0", time),
        KEYS[8]: VALUES["stable"][1],
    }
    found = {encode_key(key).hex(): encode_value(value).hex() for key, value in batch if value}
    assert list(found.items()) == list(expected.items())
    plain = ConsumerGroupHeartbeatRequest.decode(bytes.fromhex(FRAMES["plain"][1]), 1)
    assert harness.send(plain, 1, "c").encode(1).hex() == FRAMES["unchanged"][1]


# -- the metadata hash -----------------------------------------------------------------------------


def hash_of(*topics: TopicImage, names: tuple[str, ...] = ()) -> int:
    """Return the hash of some topics."""
    by_name = {topic.name: topic for topic in topics}
    return metadata_hash(names or by_name, TopicsImage(by_name, {}))


def test_hashes() -> None:
    foo, bar = TopicImage("foo", FOO, 6), TopicImage("bar", BAR, 3)
    assert hash_of(foo) == -1972195134953262752
    assert hash_of(foo, bar) == hash_of(bar, foo) == 3019497990417822858
    assert hash_of(TopicImage("gt", GT, 2)) == -8938431673345980948
    assert hash_of(foo, bar, names=("foo", "absent")) == hash_of(foo)
    assert hash_of(foo, names=("absent",)) == 0


def test_hash_depends_on_everything() -> None:
    racks = (frozenset("ab"), frozenset("b"))
    topics = [
        TopicImage("foo", FOO, 2),
        TopicImage("foo", BAR, 2),
        TopicImage("fop", FOO, 2),
        TopicImage("foo", FOO, 3),
        TopicImage("foo", FOO, 2, racks),
        TopicImage("foo", FOO, 2, racks[::-1]),
    ]
    assert len({hash_of(each) for each in topics}) == len(topics)
    again = (frozenset("ba"), frozenset("b"))
    assert hash_of(topics[4]) == hash_of(TopicImage("foo", FOO, 2, again))


# -- the order of members --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("added", "listed"),
    [
        (["member-1", "member-2"], ["member-2", "member-1"]),
        ([f"{'A' * 21}{each}" for each in (1, 2, 3)], [f"{'A' * 21}{each}" for each in (2, 1, 3)]),
    ],
)
def test_order_of_members(added: list[str], listed: list[str]) -> None:
    harness = ConsumerHarness({"foo": 3})
    for member_id in added:
        harness.enter(member_id, "foo")
    group = harness.consumer_group()
    assert isinstance(group, ConsumerGroup)
    assert group.ordered_ids() == listed
