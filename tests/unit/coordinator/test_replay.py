"""Replay: every order of a compacted log, every version that a Kafka wrote, and taking back.

Rules: [group-log/unknown-types], [group-log/replay], [group-log/restored-member].
"""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.coordinator.groups.classic.group_record import restore
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.replay import LoggedState, replay
from coterie.coordinator.groups.served_types import SERVED_TYPES
from coterie.coordinator.kernel.append import Record
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
from coterie.protocol.messages.record_types import UnknownValueVersion
from tests.unit.coordinator.harness import SALES, START_MS, UnitHarness, logged_generations


def offset(group: str, topic: str, partition: int, value: int | None) -> Record:
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    if value is None:
        return key, None
    return key, OffsetCommitValue(offset=value, metadata="", commit_timestamp=START_MS)


def generation(group: str, number: int | None, *members: str) -> Record:
    key = GroupMetadataKey(group=group)
    if number is None:
        return key, None
    return key, GroupMetadataValue(
        protocol_type="consumer",
        generation=number,
        protocol="range" if members else None,
        leader=members[0] if members else None,
        current_state_timestamp=START_MS,
        members=[
            GroupMetadataMember(
                member_id=each,
                client_id="c",
                client_host="/127.0.0.1",
                rebalance_timeout=60_000,
                session_timeout=10_000,
                subscription=SALES,
                assignment=each.encode(),
            )
            for each in members
        ],
    )


def state_of(*records: Record) -> LoggedState:
    state = SERVED_TYPES.logged_state()
    for record in records:
        replay(state, record)
    return state


def copy_of(state: LoggedState) -> tuple[object, object]:
    return copy.deepcopy((logged_generations(state), state.offsets))


def load(*records: Record) -> UnitHarness:
    harness = UnitHarness()
    harness.logs[0].durable = [
        (encode_key(key), None if value is None else encode_value(value)) for key, value in records
    ]
    harness.restart()
    return harness


# -- orders ----------------------------------------------------------------------------------------


def test_tombstones_of_absent_keys_are_legal() -> None:
    state = state_of(offset("g", "t", 0, None), generation("g", None))
    assert copy_of(state) == ({}, {})


def test_no_empty_mapping_remains() -> None:
    state = state_of(
        offset("g", "t", 0, 1),
        offset("g", "t", 1, 1),
        offset("g", "u", 0, 1),
        offset("g", "t", 0, None),
        offset("g", "t", 1, None),
    )
    assert list(state.offsets["g"]) == ["u"]
    replay(state, offset("g", "u", 0, None))
    assert state.offsets == {}


def test_group_tombstone_does_not_remove_offsets() -> None:
    harness = load(offset("g", "sales", 0, 1), generation("g", 3), generation("g", None))
    assert harness.fetch("reads") == {("sales", 0): 1}


def test_compacted_log_loads_in_any_order_of_keys() -> None:
    for records in (
        (generation("g", 5, "a", "b"), offset("g", "sales", 0, 9)),
        (offset("g", "sales", 0, 9), generation("g", 5, "a", "b")),
    ):
        harness = load(*records)
        assert harness.fetch("reads") == {("sales", 0): 9}
        group = harness.group()
        assert (group.state, group.generation_id, group.leader) == (GroupState.STABLE, 5, "a")
        assert [m.assignment for m in group.members.values()] == [b"a", b"b"]


def test_loaded_member_has_the_protocol_of_its_generation() -> None:
    group = load(generation("g", 5, "a")).group()
    assert group.members["a"].protocols == (("range", SALES),)
    assert group.supported_protocols == {"range": 1}


def test_leader_that_is_no_member_is_replaced_by_the_first() -> None:
    key, value = generation("g", 5, "a", "b")
    assert isinstance(value, GroupMetadataValue)
    value.leader = "unknown"
    assert load((key, value)).group().leader == "a"


def test_of_a_member_that_is_logged_twice_the_last_one_counts() -> None:
    """Kafka loads such a record, which only other software can have written."""
    key, value = generation("g", 5, "a", "b", "a")
    assert isinstance(value, GroupMetadataValue)
    value.members[2].assignment = b"second"
    group = load((key, value)).group()
    assert {each.member_id: each.assignment for each in group.members.values()} == {
        "a": b"second",
        "b": b"b",
    }
    assert (group.leader, group.supported_protocols) == ("a", {"range": 2})


def test_records_of_unknown_types_are_skipped_and_counted() -> None:
    harness = UnitHarness()
    harness.logs[0].durable = [(b"\0\x09\0\x01g\0\x01m", b"\0\0"), (b"\0\x63", None)]
    harness.restart()
    assert harness.coordinator.shards[0].skipped_records == 2
    assert harness.coordinator.group("g") is None


# -- versions --------------------------------------------------------------------------------------

GROUP_KEY = encode_key(GroupMetadataKey(group="grp"))
OFFSET_KEY = encode_key(OffsetCommitKey(group="grp", topic="foo", partition=2))


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_group_value_loads(version: int) -> None:
    _, value = generation("grp", 5, "m1", "m2")
    assert value is not None
    harness = UnitHarness()
    harness.logs[0].durable = [(GROUP_KEY, version.to_bytes(2, "big") + value.encode(version))]
    harness.restart()
    group = harness.group("grp")
    assert (group.state, group.generation_id, list(group.members)) == (
        GroupState.STABLE,
        5,
        ["m1", "m2"],
    )
    # Version 1 added the rebalance timeout, version 2 the timestamp.
    member = group.members["m1"]
    assert member.rebalance_timeout_ms == (60_000 if version else 10_000)
    assert group.state_timestamp_ms == (START_MS if version >= 2 else None)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("record_type", [0, 1])
def test_every_version_of_an_offset_value_loads(version: int, record_type: int) -> None:
    value = OffsetCommitValue(
        offset=100,
        leader_epoch=7,
        metadata="m",
        commit_timestamp=START_MS,
        topic_id=bytes(15) + b"9",
    )
    if version == 1:
        value.expire_timestamp = START_MS + 1_000
    harness = UnitHarness()
    key = record_type.to_bytes(2, "big") + OFFSET_KEY[2:]
    harness.logs[0].durable = [(key, version.to_bytes(2, "big") + value.encode(version))]
    harness.restart()
    stored = harness.coordinator.shards[0].logged.offsets["grp"]["foo"][2]
    assert (stored.offset, stored.metadata, stored.commit_timestamp) == (100, "m", START_MS)
    assert stored.leader_epoch == (7 if version >= 3 else -1)
    assert stored.expire_timestamp == (START_MS + 1_000 if version == 1 else -1)
    assert stored.topic_id == (value.topic_id if version == 4 else bytes(16))


def test_unknown_tags_are_skipped() -> None:
    """A newer broker may add tagged fields without a new version."""
    _, value = offset("grp", "foo", 2, 100)
    assert value is not None
    tagged = value.encode(4)[:-1] + b"\x01\x09\x02hi"
    harness = UnitHarness()
    harness.logs[0].durable = [(OFFSET_KEY, b"\0\x04" + tagged)]
    harness.restart()
    assert harness.fetch("reads", "grp") == {("foo", 2): 100}


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (OFFSET_KEY, b"\0\x05", UnknownValueVersion),
        (GROUP_KEY, b"\0\x05", UnknownValueVersion),
        (GROUP_KEY, b"\xff\xff", UnknownValueVersion),
        (OFFSET_KEY, b"\0", MalformedFrame),
        (OFFSET_KEY, b"\0\x03\0\0", MalformedFrame),
        (OFFSET_KEY[:-1], None, MalformedFrame),
        (b"\0", None, MalformedFrame),
    ],
)
def test_unreadable_record_stops_the_load(
    key: bytes, value: bytes | None, error: type[Exception]
) -> None:
    harness = UnitHarness()
    harness.logs[0].durable = [(key, value)]
    with pytest.raises(error):
        harness.restart()


# -- encoded records -------------------------------------------------------------------------------

names = st.sampled_from(["g", "h"])
offsets = st.builds(
    offset,
    names,
    st.sampled_from(["t", "u"]),
    st.integers(0, 1),
    st.one_of(st.none(), st.integers(0, 9)),
)
generations = st.builds(generation, names, st.one_of(st.none(), st.integers(0, 9)))
records = st.lists(st.one_of(offsets, generations), max_size=20)


def decoded(key_bytes: bytes, value_bytes: bytes | None) -> Record:
    key = decode_key(key_bytes)
    if isinstance(key, OffsetCommitKey):
        return key, decode_value(key, value_bytes)
    assert isinstance(key, GroupMetadataKey)
    return key, decode_value(key, value_bytes)


@given(records)
def test_encoded_records_replay_to_the_same_state(log: list[Record]) -> None:
    state, again = SERVED_TYPES.logged_state(), SERVED_TYPES.logged_state()
    for key, value in log:
        replay(state, (key, value))
        replay(again, decoded(encode_key(key), None if value is None else encode_value(value)))
    assert copy_of(state) == copy_of(again)


@given(records)
def test_only_the_newest_record_of_a_key_counts(log: list[Record]) -> None:
    newest = {encode_key(key): (key, value) for key, value in log}
    assert copy_of(state_of(*log)) == copy_of(state_of(*newest.values()))


def test_group_without_record_is_restored_as_a_simple_group() -> None:
    group = restore("g", None)
    assert (group.state, group.protocol_type, group.state_timestamp_ms) == (
        GroupState.EMPTY,
        None,
        None,
    )
