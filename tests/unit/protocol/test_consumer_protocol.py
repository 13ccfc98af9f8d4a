"""The metadata and assignments of consumers in JoinGroup and SyncGroup."""

import pytest

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscribed_topics,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

_V3 = bytes.fromhex("0003 00000001 0003666f6f ffffffff 00000000 ffffffff ffff".replace(" ", ""))


def test_a_subscription_has_kafkas_bytes() -> None:
    subscription = ConsumerProtocolSubscription(topics=["foo"])
    assert decode_subscription(_V3) == subscription
    assert encode_subscription(subscription) == _V3
    assert encode_subscription(subscription, version=0) == b"\x00\x00" + _V3[2:15]


def test_a_cooperative_subscription_carries_owned_partitions() -> None:
    subscription = ConsumerProtocolSubscription(
        topics=["a", "b"],
        user_data=b"x",
        owned_partitions=[TopicPartition(topic="a", partitions=[0, 2])],
        generation_id=7,
        rack_id="r",
    )
    assert decode_subscription(encode_subscription(subscription)) == subscription
    older = decode_subscription(encode_subscription(subscription, version=1))
    assert older.owned_partitions == subscription.owned_partitions
    assert (older.generation_id, older.rack_id) == (-1, None)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_assignments_are_equal_in_all_versions(version: int) -> None:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic="a", partitions=[1])]
    )
    data = encode_assignment(assignment, version)
    assert data[2:].hex() == "000000010001610000000100000001ffffffff"
    assert decode_assignment(data) == assignment


def test_a_newer_version_is_read_as_the_newest_known_one() -> None:
    newer = b"\x00\x09" + _V3[2:] + b"something new"
    assert decode_subscription(newer) == ConsumerProtocolSubscription(topics=["foo"])


def test_topics_are_decoded_even_if_later_fields_are_damaged() -> None:
    truncated = b"\x00\x01" + _V3[2:15]  # version 1 without owned partitions, as some clients send
    assert decode_subscribed_topics(truncated) == ["foo"]
    with pytest.raises(MalformedFrame):
        decode_subscription(truncated)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff" + _V3[2:], _V3[:9], b"\x00\x00range"])
def test_other_bytes_are_malformed(data: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_subscription(data)
    with pytest.raises(MalformedFrame):
        decode_subscribed_topics(data)
    with pytest.raises(MalformedFrame):
        decode_assignment(data)
