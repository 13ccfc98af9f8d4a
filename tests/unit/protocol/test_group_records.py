"""Records of the newer group types, compared with Kafka's bytes and the output of its tools.

Rules: [group-log/record-types].
"""

import base64
import json
import re
import subprocess
import sys
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
from coterie.protocol.messages.log_records import (
    GROUP_RECORDS,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    group_of,
)
from coterie.protocol.messages.record_types import UnknownKey, UnknownValueVersion
from coterie.protocol.records import Record, decode_records, iterate_batches
from coterie.protocol.schema import fields_of
from coterie.protocol.wire import Message, Struct

GOLDEN = Path(__file__).parents[2] / "golden" / "group_records"
_TOPIC_ID = (1).to_bytes(8, "big") + (2).to_bytes(8, "big")
_TIME = 1700000000000

# (record type, key in hexadecimal, key, value in hexadecimal, value); bytes of Kafka's serializer.
_MEMBER: dict[str, Any] = {"group_id": "grp", "member_id": "m1"}
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
    classic_member_metadata=None,
)
_MEMBER_KEY = ConsumerGroupMemberMetadataKey(**_MEMBER)
_MEMBER_BARE = "0000000002630b2f3132372e302e302e31030462617204666f6f01000493e00000"
_MEMBER_HEX = _MEMBER_BARE[:-2] + "01000100"


def in_version(value: Message, version: int) -> bytes:
    """Encode the value of a record in another version than the one that is written."""
    return version.to_bytes(2, "big") + value.encode(version)


@pytest.mark.parametrize("name", GIVEN)
def test_keys_and_values_have_kafkas_bytes(name: str) -> None:
    number, key_hex, key, value_hex, value = GIVEN[name]
    assert decode_key(bytes.fromhex(key_hex)) == key
    assert GROUP_RECORDS.type_of(key).number == number
    assert encode_key(key).hex() == key_hex
    assert decode_value(key, bytes.fromhex(value_hex)) == value
    assert encode_value(value).hex() == value_hex


def test_a_null_classic_member_is_marked_as_by_kafka() -> None:
    """[framing/null-structs]"""
    assert encode_key(_MEMBER_KEY).hex() == "0005000367727000026d31"
    assert decode_value(_MEMBER_KEY, bytes.fromhex(_MEMBER_HEX)) == _SUBSCRIPTION
    assert encode_value(_SUBSCRIPTION).hex() == _MEMBER_HEX


def test_a_member_without_the_mark_is_a_classic_member() -> None:
    """[framing/null-structs]"""
    member = decode_value(_MEMBER_KEY, bytes.fromhex(_MEMBER_BARE))
    assert isinstance(member, ConsumerGroupMemberMetadataValue)
    without = ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=[])
    assert member.classic_member_metadata == without
    assert encode_value(member).hex() == _MEMBER_BARE


def test_a_classic_member_has_its_protocols() -> None:
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
    assert decode_value(_MEMBER_KEY, encode_value(value)) == value


def test_every_type_has_kafkas_name_and_a_group_id() -> None:
    assert set(GROUP_RECORDS.by_number) == set(range(24)) - {9, 18}
    for number, record_type in GROUP_RECORDS.by_number.items():
        assert record_type.number == number
        values: dict[str, Any] = dict.fromkeys(record_type.key.fields_, "x")
        if "partition" in values:
            values["partition"] = 0
        key = record_type.key(**values)
        written = encode_key(key)
        assert int.from_bytes(written[:2], "big") == (number or 1)
        assert decode_key(number.to_bytes(2, "big") + written[2:]) == key
        assert group_of(key) == "x"
        assert record_type.value.versions.includes(0)
    names = {record_type.name for record_type in GROUP_RECORDS.by_number.values()}
    assert len(names) == len(GROUP_RECORDS.by_number)
    assert {"OffsetCommit", "GroupMetadata", "ShareGroupStatePartitionMetadata"} < names


def test_modules_of_types_that_a_log_does_not_contain_are_not_loaded() -> None:
    code = (
        "import sys; from coterie.protocol.messages.log_records import *\n"
        "value = OffsetCommitValue(offset=1, metadata='', commit_timestamp=2)\n"
        "key = OffsetCommitKey(group='g', topic='t', partition=0)\n"
        "decode_value(decode_key(encode_key(key)), encode_value(value))\n"
        "print([name for name in sys.modules if name.endswith('group_records')])"
    )
    assert subprocess.check_output([sys.executable, "-c", code]).strip() == b"[]"


@pytest.mark.parametrize("number", [9, 18, 24, -1])
def test_keys_of_unknown_types_are_kept_undecoded(number: int) -> None:
    key = number.to_bytes(2, "big", signed=True) + b"\x00\x01g"
    assert decode_key(key) == UnknownKey(number, b"\x00\x01g")


@pytest.mark.parametrize("version", ["0001", "7fff", "ffff"])
def test_a_value_of_an_unknown_version_is_an_error(version: str) -> None:
    with pytest.raises(UnknownValueVersion, match="has versions 0 to 0, not"):
        GROUP_RECORDS.by_number[8].decode_value(bytes.fromhex(version + "00000000"))


def test_damaged_keys_and_values_are_malformed() -> None:
    for _, key_hex, given, value_hex, _ in GIVEN.values():
        key, value = bytes.fromhex(key_hex), bytes.fromhex(value_hex)
        for size in range(len(key)):
            with pytest.raises(MalformedFrame):
                decode_key(key[:size])
        for size in range(len(value)):
            with pytest.raises(MalformedFrame):
                decode_value(given, value[:size])
        with pytest.raises(MalformedFrame):
            decode_value(given, value + b"\x00")


# --- records of a real Kafka, and the output of its DumpLogSegments -------------------------------


def golden_records() -> Iterator[tuple[int, Record]]:
    """Yield the partition and the record of every record that is not a control record."""
    for partition in range(3):
        data = (GOLDEN / f"{partition}.log").read_bytes()
        for position, header in iterate_batches(data):
            if not header.is_control:
                for record in decode_records(data, header, position):
                    yield partition, record


def kafkas_reading(partition: int) -> dict[int, tuple[Any, Any]]:
    """Return key and value by offset, as DumpLogSegments printed them."""
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
    """Return a decoded message as Kafka's tool prints it."""
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


def decode_payloads(value: Message, printed: dict[str, Any]) -> None:
    """Decode the bytes of consumers in classic groups, which Kafka's tool prints decoded."""
    for member, shown in zip(value.members, printed["members"], strict=True):  # type: ignore[attr-defined]
        subscription = as_kafka_prints(decode_subscription(member.subscription), 3)
        # Kafka's tool prints a null as an empty string.
        shown["subscription"] = {name: "" if v is None else v for name, v in subscription.items()}
        shown["assignment"] = as_kafka_prints(decode_assignment(member.assignment), 3)


def test_every_record_is_decoded_as_by_kafkas_own_tool() -> None:
    readings = [kafkas_reading(partition) for partition in range(3)]
    types = set()
    for partition, record in golden_records():
        assert record.key is not None
        decoded = decode_key(record.key)
        assert not isinstance(decoded, UnknownKey)
        number = int.from_bytes(record.key[:2], "big")
        key = {"type": str(number), "data": as_kafka_prints(decoded, 0)}
        value: Any = None
        if record.value is not None:
            types.add(number)
            message = GROUP_RECORDS.by_number[number].decode_value(record.value)
            version = int.from_bytes(record.value[:2], "big")
            printed = as_kafka_prints(message, version)
            if printed.get("protocolType") == "consumer":
                decode_payloads(message, printed)
            value = {"version": str(version), "data": printed}
        assert (key, value) == readings[partition].pop(record.offset), (partition, record.offset)
    assert readings == [{}, {}, {}]
    assert types == {*range(1, 24)} - {4, 9, 18}


def test_every_record_is_encoded_as_by_kafka() -> None:
    count = 0
    for _, record in golden_records():
        assert record.key is not None
        decoded = decode_key(record.key)
        assert not isinstance(decoded, UnknownKey)
        assert encode_key(decoded) == record.key
        if record.value is not None:
            message = decode_value(decoded, record.value)
            assert message is not None
            assert in_version(message, int.from_bytes(record.value[:2], "big")) == record.value
            count += 1
    assert count > 70
