"""Records of offsets and classic groups, compared with bytes of Kafka's own serializer."""

from typing import Any

import pytest

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from coterie.protocol.messages.record_types import UnknownKey, UnknownValueVersion

_TIME = 1700000000000
_TOPIC_ID = (1).to_bytes(8, "big") + (2).to_bytes(8, "big")

_OFFSET_KEY = OffsetCommitKey(group="grp", topic="foo", partition=2)
_OFFSET_KEY_HEX = "000100036772700003666f6f00000002"
_GROUP_KEY = GroupMetadataKey(group="grp")
_GROUP_KEY_HEX = "00020003677270"

_OFFSET_VALUES = {
    "v0": (
        "0000000000000000006400016d0000018bcfe56800",
        OffsetCommitValue(offset=100, metadata="m", commit_timestamp=_TIME),
    ),
    "v1": (
        "0001000000000000006400016d0000018bcfe568000000018bcfe56be8",
        OffsetCommitValue(
            offset=100, metadata="m", commit_timestamp=_TIME, expire_timestamp=_TIME + 1000
        ),
    ),
    "v2": (
        "0002000000000000006400016d0000018bcfe56800",
        OffsetCommitValue(offset=100, metadata="m", commit_timestamp=_TIME),
    ),
    "v3": (
        "000300000000000000640000000700016d0000018bcfe56800",
        OffsetCommitValue(offset=100, leader_epoch=7, metadata="m", commit_timestamp=_TIME),
    ),
    "v4": (
        "0004000000000000006400000007026d0000018bcfe5680001001000000000000000010000000000000002",
        OffsetCommitValue(
            offset=100,
            leader_epoch=7,
            metadata="m",
            commit_timestamp=_TIME,
            topic_id=_TOPIC_ID,
        ),
    ),
    "v4 without topic id": (
        "00040000000000000064ffffffff010000018bcfe5680000",
        OffsetCommitValue(offset=100, metadata="", commit_timestamp=_TIME),
    ),
}

_MEMBER: dict[str, Any] = {
    "member_id": "m1",
    "client_id": "c",
    "client_host": "/127.0.0.1",
    "session_timeout": 45000,
    "subscription": b"\x00\x01\x02",
    "assignment": b"\x03",
}
_GROUP: dict[str, Any] = {
    "protocol_type": "consumer",
    "generation": 5,
    "protocol": "range",
    "leader": "m1",
}
# The bytes that versions 0 to 3 have in common.
_HEAD_HEX = "0008636f6e73756d657200000005000572616e676500026d31"
_CLIENT_HEX = "000163000a2f3132372e302e302e31"
_TAIL_HEX = "0000afc8000000030001020000000103"

_GROUP_VALUES = {
    "v0": (
        "0000" + _HEAD_HEX + "00000001" + "00026d31" + _CLIENT_HEX + _TAIL_HEX,
        GroupMetadataValue(**_GROUP, members=[GroupMetadataMember(**_MEMBER)]),
    ),
    "v1": (
        "0001" + _HEAD_HEX + "00000001" + "00026d31" + _CLIENT_HEX + "000493e0" + _TAIL_HEX,
        GroupMetadataValue(
            **_GROUP, members=[GroupMetadataMember(**_MEMBER, rebalance_timeout=300000)]
        ),
    ),
    "v2": (
        "0002"
        + _HEAD_HEX
        + "0000018bcfe56800"
        + "00000001"
        + "00026d31"
        + _CLIENT_HEX
        + "000493e0"
        + _TAIL_HEX,
        GroupMetadataValue(
            **_GROUP,
            current_state_timestamp=_TIME,
            members=[GroupMetadataMember(**_MEMBER, rebalance_timeout=300000)],
        ),
    ),
    "v3": (
        (
            "00030008636f6e73756d657200000005000572616e676500026d310000018bcfe568000000000100026d31"
            "00026931000163000a2f3132372e302e302e31000493e00000afc8000000030001020000000103"
        ),
        GroupMetadataValue(
            **_GROUP,
            current_state_timestamp=_TIME,
            members=[
                GroupMetadataMember(**_MEMBER, rebalance_timeout=300000, group_instance_id="i1")
            ],
        ),
    ),
    "v4": (
        (
            "000409636f6e73756d6572000000050672616e6765036d310000018bcfe5680002036d3103693102630b"
            "2f3132372e302e302e31000493e00000afc80400010202030000"
        ),
        GroupMetadataValue(
            **_GROUP,
            current_state_timestamp=_TIME,
            members=[
                GroupMetadataMember(**_MEMBER, rebalance_timeout=300000, group_instance_id="i1")
            ],
        ),
    ),
    "v3 of a new empty group": (
        "0003000000000000ffffffff0000018bcfe5680000000000",
        GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=_TIME,
            members=[],
        ),
    ),
}


def test_keys_have_kafkas_bytes() -> None:
    assert encode_key(_OFFSET_KEY).hex() == _OFFSET_KEY_HEX
    assert encode_key(_GROUP_KEY).hex() == _GROUP_KEY_HEX
    assert decode_key(bytes.fromhex(_OFFSET_KEY_HEX)) == _OFFSET_KEY
    assert decode_key(bytes.fromhex(_GROUP_KEY_HEX)) == _GROUP_KEY


def test_an_offset_key_of_the_legacy_type_is_decoded() -> None:
    assert decode_key(bytes.fromhex("0000" + _OFFSET_KEY_HEX[4:])) == _OFFSET_KEY


@pytest.mark.parametrize("name", _OFFSET_VALUES)
def test_offset_values_of_every_version(name: str) -> None:
    text, value = _OFFSET_VALUES[name]
    data = bytes.fromhex(text)
    version = data[1]
    assert decode_value(_OFFSET_KEY, data) == value
    assert value.encode(version) == data[2:]


@pytest.mark.parametrize("name", _GROUP_VALUES)
def test_group_values_of_every_version(name: str) -> None:
    text, value = _GROUP_VALUES[name]
    data = bytes.fromhex(text)
    version = data[1]
    assert decode_value(_GROUP_KEY, data) == value
    assert value.encode(version) == data[2:]


@pytest.mark.parametrize("name", ["v1", "v4", "v4 without topic id"])
def test_offsets_are_encoded_as_by_kafka(name: str) -> None:
    text, value = _OFFSET_VALUES[name]
    assert encode_value(value).hex() == text


@pytest.mark.parametrize("name", ["v3", "v3 of a new empty group"])
def test_groups_are_encoded_as_by_kafka(name: str) -> None:
    text, value = _GROUP_VALUES[name]
    assert encode_value(value).hex() == text


def test_a_null_value_is_a_tombstone() -> None:
    assert decode_value(_OFFSET_KEY, None) is None
    assert decode_value(_GROUP_KEY, None) is None


@pytest.mark.parametrize(
    "text",
    [
        "00090003677270",
        "00120003677270",
        "7fff",
        "ffff00",
    ],
)
def test_keys_of_other_types_are_kept_undecoded(text: str) -> None:
    data = bytes.fromhex(text)
    key = decode_key(data)
    assert key == UnknownKey(int.from_bytes(data[:2], "big", signed=True), data[2:])


@pytest.mark.parametrize("version", ["0005", "7fff", "ffff"])
@pytest.mark.parametrize("key", [_OFFSET_KEY, _GROUP_KEY])
def test_a_value_of_an_unknown_version_is_an_error(
    key: OffsetCommitKey | GroupMetadataKey, version: str
) -> None:
    with pytest.raises(UnknownValueVersion, match=r"has versions 0 to 4, not -?\d+"):
        decode_value(key, bytes.fromhex(version + "00000000"))


@pytest.mark.parametrize("data", [b"", b"\x00"])
def test_bytes_too_short_for_a_type_are_malformed(data: bytes) -> None:
    with pytest.raises(MalformedFrame, match="the type of a record key is missing"):
        decode_key(data)
    with pytest.raises(MalformedFrame, match="the version of a record value is missing"):
        decode_value(_OFFSET_KEY, data)


def test_damaged_values_are_malformed() -> None:
    for text, _ in [*_OFFSET_VALUES.values(), *_GROUP_VALUES.values()]:
        data = bytes.fromhex(text)
        key = _OFFSET_KEY if (text, _) in _OFFSET_VALUES.values() else _GROUP_KEY
        for size in range(len(data)):
            with pytest.raises(MalformedFrame):
                decode_value(key, data[:size])
        with pytest.raises(MalformedFrame, match="left over"):
            decode_value(key, data + b"\x00")
    with pytest.raises(MalformedFrame):
        decode_key(bytes.fromhex(_OFFSET_KEY_HEX)[:-1])


def test_a_group_may_have_more_members_than_the_element_limit_of_requests() -> None:
    members = [GroupMetadataMember(**_MEMBER) for _ in range(25_000)]
    value = GroupMetadataValue(**_GROUP, members=members)
    again = decode_value(_GROUP_KEY, encode_value(value))
    assert again is not None
    assert len(again.members) == 25_000
