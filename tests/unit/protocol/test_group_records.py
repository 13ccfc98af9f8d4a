"""Records of the newer group types, against bytes and readings of Kafka's own (spec 14.1)."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartitions,
)
from coterie.protocol.messages.consumer_protocol import decode_assignment, decode_subscription
from coterie.protocol.messages.group_record_types import (
    GROUP_RECORD_TYPES,
    DecodedKey,
    decode_group_key,
    decode_group_value,
    encode_group_key,
    encode_group_value,
)
from coterie.protocol.messages.log_records import UnknownKey, UnknownValueVersion, decode_key
from coterie.protocol.records import Record, decode_records, iterate_batches
from coterie.protocol.schema import fields_of
from coterie.protocol.wire import Message, Struct

GOLDEN = Path(__file__).parents[2] / "golden" / "group_records"
_TOPIC_ID = (1).to_bytes(8, "big") + (2).to_bytes(8, "big")
_TIME = 1700000000000

# (type, key as hexadecimal, key, value as hexadecimal, value), from the spec's golden bytes.
_MEMBER = {"group_id": "grp", "member_id": "m1"}
GIVEN: dict[str, tuple[int, str, Message, str, Message]] = {
    "epoch": (
        3,
        "00030003677270",
        ConsumerGroupMetadataKey(group_id="grp"),
        "0000000000030100081122334455667788",
        ConsumerGroupMetadataValue(epoch=3, metadata_hash=0x1122334455667788),
    ),
    "epoch without hash": (
        3,
        "00030003677270",
        ConsumerGroupMetadataKey(group_id="grp"),
        "00000000000300",
        ConsumerGroupMetadataValue(epoch=3),
    ),
    "target metadata": (
        6,
        "00060003677270",
        ConsumerGroupTargetAssignmentMetadataKey(group_id="grp"),
        "000000000003" + "0100080000018bcfe56800",
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=3, assignment_timestamp=_TIME),
    ),
    "target member": (
        7,
        "0007000367727000026d31",
        ConsumerGroupTargetAssignmentMemberKey(**_MEMBER),
        "000002000000000000000100000000000000020300000000000000010000",
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[TargetTopicPartitions(topic_id=_TOPIC_ID, partitions=[0, 1])]
        ),
    ),
    "current member": (
        8,
        "0008000367727000026d31",
        ConsumerGroupCurrentMemberAssignmentKey(**_MEMBER),
        (
            "0000000000030000000200020000000000000001000000000000000203000000000000000101000903"
            "00000003000000030100"
        ),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=3,
            previous_member_epoch=2,
            state=0,
            assigned_partitions=[
                CurrentTopicPartitions(
                    topic_id=_TOPIC_ID, partitions=[0, 1], assignment_epochs=[3, 3]
                )
            ],
            partitions_pending_revocation=[],
        ),
    ),
    "regular expression": (
        16,
        "001000036772700003662e2a",
        ConsumerGroupRegularExpressionKey(group_id="grp", regular_expression="f.*"),
        "00000204666f6f000000000000000a0000018bcfe5680000",
        ConsumerGroupRegularExpressionValue(topics=["foo"], version=10, timestamp=_TIME),
    ),
}
_SUBSCRIPTION = ConsumerGroupMemberMetadataValue(
    instance_id=None,
    rack_id=None,
    client_id="c",
    client_host="/127.0.0.1",
    subscribed_topic_names=["bar", "foo"],
    subscribed_topic_regex="",
    rebalance_timeout_ms=300000,
    server_assignor=None,
)
# The spec's bytes of a member end without the tagged field; Kafka's coordinator never wrote those.
_MEMBER_KEY = ConsumerGroupMemberMetadataKey(**_MEMBER)
_MEMBER_BARE = "0000000002630b2f3132372e302e302e31030462617204666f6f01000493e00000"
_MEMBER_HEX = _MEMBER_BARE[:-2] + "01000100"


@pytest.mark.parametrize("name", GIVEN)
def test_keys_and_values_have_kafkas_bytes(name: str) -> None:
    number, key_hex, key, value_hex, value = GIVEN[name]
    record_type = GROUP_RECORD_TYPES[number]
    assert decode_group_key(bytes.fromhex(key_hex)) == DecodedKey(record_type, key)
    assert encode_group_key(number, key).hex() == key_hex
    assert decode_group_value(record_type, bytes.fromhex(value_hex)) == (0, value)
    assert encode_group_value(value).hex() == value_hex


def test_a_member_that_is_not_classic_says_so() -> None:
    assert encode_group_key(5, _MEMBER_KEY).hex() == "0005000367727000026d31"
    record_type = GROUP_RECORD_TYPES[5]
    assert decode_group_value(record_type, bytes.fromhex(_MEMBER_HEX)) == (0, _SUBSCRIPTION)
    assert decode_group_value(record_type, bytes.fromhex(_MEMBER_BARE)) == (0, _SUBSCRIPTION)
    assert encode_group_value(_SUBSCRIPTION).hex() == _MEMBER_HEX


def test_a_classic_member_keeps_its_protocols() -> None:
    classic = ClassicMemberMetadata(
        session_timeout_ms=45000, supported_protocols=[ClassicProtocol(name="r", metadata=b"\x01")]
    )
    value = ConsumerGroupMemberMetadataValue(
        instance_id="i",
        rack_id="r",
        client_id="c",
        client_host="h",
        subscribed_topic_names=[],
        subscribed_topic_regex=None,
        server_assignor="range",
        classic_member_metadata=classic,
    )
    assert decode_group_value(GROUP_RECORD_TYPES[5], encode_group_value(value)).value == value


def test_every_type_has_kafkas_name_and_tells_its_group() -> None:
    assert set(GROUP_RECORD_TYPES) == set(range(24)) - {9, 18}
    for number, record_type in GROUP_RECORD_TYPES.items():
        assert record_type.number == number
        values = dict.fromkeys(record_type.key.fields_, "x")
        if "partition" in values:
            values["partition"] = 0
        key = record_type.key(**values)
        assert decode_group_key(encode_group_key(number, key)) == DecodedKey(record_type, key)
        assert DecodedKey(record_type, key).group_id == "x"
    names = {record_type.name for record_type in GROUP_RECORD_TYPES.values()}
    assert len(names) == len(GROUP_RECORD_TYPES)
    assert {"OffsetCommit", "GroupMetadata", "ShareGroupStatePartitionMetadata"} < names


@pytest.mark.parametrize("number", [9, 18, 24, -1])
def test_types_that_nobody_knows_are_kept_as_they_came(number: int) -> None:
    key = number.to_bytes(2, "big", signed=True) + b"\x00\x01g"
    assert decode_group_key(key) == UnknownKey(number, b"\x00\x01g")


@pytest.mark.parametrize("version", ["0001", "7fff", "ffff"])
def test_a_value_of_a_newer_version_says_so(version: str) -> None:
    with pytest.raises(UnknownValueVersion, match="has versions 0 to 0, not"):
        decode_group_value(GROUP_RECORD_TYPES[8], bytes.fromhex(version + "00000000"))


def test_damaged_keys_and_values_are_malformed() -> None:
    for number, key_hex, _, value_hex, _ in GIVEN.values():
        key, value = bytes.fromhex(key_hex), bytes.fromhex(value_hex)
        for size in range(len(key)):
            with pytest.raises(MalformedFrame):
                decode_group_key(key[:size])
        for size in range(len(value)):
            with pytest.raises(MalformedFrame):
                decode_group_value(GROUP_RECORD_TYPES[number], value[:size])
        with pytest.raises(MalformedFrame):
            decode_group_value(GROUP_RECORD_TYPES[number], value + b"\x00")


def test_the_coordinator_still_skips_what_it_does_not_serve() -> None:
    for number in set(GROUP_RECORD_TYPES) - {0, 1, 2}:
        key = number.to_bytes(2, "big") + b"\x00\x01g\x00\x01m"
        assert decode_key(key) == UnknownKey(number, key[2:])


# --- against what a real Kafka wrote, and what its own tool reads there ---------------------------


def golden_records() -> Iterator[tuple[int, Record]]:
    """(partition, record) of every record that is no marker."""
    for partition in range(3):
        data = (GOLDEN / f"{partition}.log").read_bytes()
        for position, header in iterate_batches(data):
            if not header.is_control:
                for record in decode_records(data, header, position):
                    yield partition, record


def kafkas_reading(partition: int) -> dict[int, tuple[Any, Any]]:
    """Offset to key and value, as DumpLogSegments printed them."""
    lines = (GOLDEN / f"{partition}.txt").read_text(encoding="utf-8").splitlines()
    found = {}
    for line in lines:
        match = re.match(r"\| offset: (\d+) .*? key: (\{.*\}) payload: (.*)$", line)
        if match:
            value = None if match[3] == "<DELETE>" else json.loads(match[3])
            found[int(match[1])] = (json.loads(match[2]), value)
    return found


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def as_kafka_prints(value: Any, version: int, kind: str = "") -> Any:
    """A decoded message the way Kafka's tool prints it."""
    if isinstance(value, Struct):
        printed = {}
        for field in fields_of(type(value)):
            held = getattr(value, field.name)
            tagged_default = field.declared.tag is not None and held == field.default
            if not field.present(version) or (tagged_default and held is not None):
                continue
            wire = field.type.wire
            name = camel_case(field.name)
            printed[name] = as_kafka_prints(held, version, wire.kind if wire else "")
        return printed
    if isinstance(value, list):
        return [as_kafka_prints(item, version) for item in value]
    if isinstance(value, bytes):
        if kind == "uuid":
            return base64.urlsafe_b64encode(value).decode().rstrip("=")
        return base64.b64encode(value).decode()
    return value


def opened_by_kafka(value: Message, printed: dict[str, Any]) -> None:
    """Kafka's tool looks into the bytes of consumers in classic groups."""
    for member, shown in zip(value.members, printed["members"], strict=True):  # type: ignore[attr-defined]
        subscription = as_kafka_prints(decode_subscription(member.subscription), 3)
        # Where we keep a null, it prints nothing.
        shown["subscription"] = {name: "" if v is None else v for name, v in subscription.items()}
        shown["assignment"] = as_kafka_prints(decode_assignment(member.assignment), 3)


def test_every_record_reads_as_in_kafkas_own_tool() -> None:
    readings = [kafkas_reading(partition) for partition in range(3)]
    types = set()
    for partition, record in golden_records():
        assert record.key is not None
        decoded = decode_group_key(record.key)
        assert isinstance(decoded, DecodedKey)
        number = decoded.record_type.number
        key = {"type": str(number), "data": as_kafka_prints(decoded.key, 0)}
        value: Any = None
        if record.value is not None:
            types.add(number)
            version, message = decode_group_value(decoded.record_type, record.value)
            printed = as_kafka_prints(message, version)
            if printed.get("protocolType") == "consumer":
                opened_by_kafka(message, printed)
            value = {"version": str(version), "data": printed}
        assert (key, value) == readings[partition].pop(record.offset), (partition, record.offset)
    assert readings == [{}, {}, {}]
    assert types == {*range(1, 24)} - {4, 9, 18}


def test_every_record_is_written_as_kafka_wrote_it() -> None:
    count = 0
    for _, record in golden_records():
        assert record.key is not None
        decoded = decode_group_key(record.key)
        assert isinstance(decoded, DecodedKey)
        assert encode_group_key(decoded.record_type.number, decoded.key) == record.key
        if record.value is not None:
            version, message = decode_group_value(decoded.record_type, record.value)
            assert encode_group_value(message, version) == record.value
            count += 1
    assert count > 70
