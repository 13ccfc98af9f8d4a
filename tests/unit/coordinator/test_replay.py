"""From records to state: every order a compacted log can have, every version a Kafka wrote, and
back again when an append fails.
"""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.coordinator.effects import LogRecord, Undo
from coterie.coordinator.group import GroupState
from coterie.coordinator.group_record import restore
from coterie.coordinator.replay import LoggedState, replay, take_back
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownValueVersion,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from tests.unit.coordinator.desk import SALES, START_MS, Desk


def offset(group: str, topic: str, partition: int, value: int | None) -> LogRecord:
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    if value is None:
        return key, None
    return key, OffsetCommitValue(offset=value, metadata="", commit_timestamp=START_MS)


def generation(group: str, number: int | None, *members: str) -> LogRecord:
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


def state_of(*records: LogRecord) -> LoggedState:
    state = LoggedState()
    for record in records:
        replay(state, record)
    return state


def look(state: LoggedState) -> tuple[object, object]:
    return copy.deepcopy((state.groups, state.offsets))


def load(*records: LogRecord) -> Desk:
    desk = Desk()
    desk.logs[0].durable = [
        (encode_key(key), None if value is None else encode_value(value)) for key, value in records
    ]
    desk.restart()
    return desk


# -- orders ----------------------------------------------------------------------------------------


def test_tombstones_of_what_is_not_there() -> None:
    state = state_of(offset("g", "t", 0, None), generation("g", None))
    assert look(state) == ({}, {})


def test_no_empty_mapping_is_left() -> None:
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


def test_offsets_written_after_the_tombstone_of_their_group_stay() -> None:
    """S135: the group is made again by whoever commits next."""
    desk = load(
        offset("g", "sales", 0, 1),
        generation("g", 3, "a"),
        offset("g", "sales", 0, None),
        generation("g", None),
        offset("g", "sales", 1, 7),
    )
    assert desk.fetch("reads") == {("sales", 1): 7}
    assert (desk.group().state, desk.group().generation_id) == (GroupState.EMPTY, 0)
    assert desk.group().protocol_type is None


def test_a_group_tombstone_leaves_its_offsets_to_their_own_records() -> None:
    desk = load(offset("g", "sales", 0, 1), generation("g", 3), generation("g", None))
    assert desk.fetch("reads") == {("sales", 0): 1}


def test_what_compaction_leaves_loads_in_any_order_of_keys() -> None:
    """The survivor of a key may stand before or behind those of others."""
    for records in (
        (generation("g", 5, "a", "b"), offset("g", "sales", 0, 9)),
        (offset("g", "sales", 0, 9), generation("g", 5, "a", "b")),
    ):
        desk = load(*records)
        assert desk.fetch("reads") == {("sales", 0): 9}
        group = desk.group()
        assert (group.state, group.generation_id, group.leader) == (GroupState.STABLE, 5, "a")
        assert [m.assignment for m in group.members.values()] == [b"a", b"b"]


def test_a_loaded_member_has_the_one_protocol_of_its_generation() -> None:
    group = load(generation("g", 5, "a")).group()
    assert group.members["a"].protocols == (("range", SALES),)
    assert group.supported_protocols == {"range": 1}


def test_a_leader_who_is_no_member_is_replaced_by_the_first() -> None:
    key, value = generation("g", 5, "a", "b")
    assert isinstance(value, GroupMetadataValue)
    value.leader = "gone"
    assert load((key, value)).group().leader == "a"


def test_records_of_unknown_types_are_skipped_and_counted() -> None:
    desk = Desk()
    desk.logs[0].durable = [(b"\0\x03\0\x01g", b"\0\0"), (b"\0\x63", None)]
    desk.restart()
    assert desk.coordinator.shards[0].skipped_records == 2
    assert desk.coordinator.group("g") is None


# -- versions (S132 to S134) -----------------------------------------------------------------------

GROUP_KEY = encode_key(GroupMetadataKey(group="grp"))
OFFSET_KEY = encode_key(OffsetCommitKey(group="grp", topic="foo", partition=2))


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_generation_loads(version: int) -> None:
    _, value = generation("grp", 5, "m1", "m2")
    assert value is not None
    desk = Desk()
    desk.logs[0].durable = [(GROUP_KEY, version.to_bytes(2, "big") + value.encode(version))]
    desk.restart()
    group = desk.group("grp")
    assert (group.state, group.generation_id, list(group.members)) == (
        GroupState.STABLE,
        5,
        ["m1", "m2"],
    )
    # Version 0 has no rebalance timeout: the session timeout counts. Version 2 brought the time.
    member = group.members["m1"]
    assert member.rebalance_timeout_ms == (60_000 if version else 10_000)
    assert group.state_timestamp_ms == (START_MS if version >= 2 else None)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("record_type", [0, 1])
def test_every_version_of_an_offset_loads(version: int, record_type: int) -> None:
    value = OffsetCommitValue(
        offset=100,
        leader_epoch=7,
        metadata="m",
        commit_timestamp=START_MS,
        topic_id=bytes(15) + b"9",
    )
    if version == 1:
        value.expire_timestamp = START_MS + 1_000
    desk = Desk()
    key = record_type.to_bytes(2, "big") + OFFSET_KEY[2:]
    desk.logs[0].durable = [(key, version.to_bytes(2, "big") + value.encode(version))]
    desk.restart()
    stored = desk.coordinator.shards[0].logged.offsets["grp"]["foo"][2]
    assert (stored.offset, stored.metadata, stored.commit_timestamp) == (100, "m", START_MS)
    assert stored.leader_epoch == (7 if version >= 3 else -1)
    assert stored.expire_timestamp == (START_MS + 1_000 if version == 1 else -1)
    assert stored.topic_id == (value.topic_id if version == 4 else bytes(16))


def test_unknown_tags_are_skipped() -> None:
    """A newer broker may add tagged fields without a new version."""
    _, value = offset("grp", "foo", 2, 100)
    assert value is not None
    tagged = value.encode(4)[:-1] + b"\x01\x09\x02hi"
    desk = Desk()
    desk.logs[0].durable = [(OFFSET_KEY, b"\0\x04" + tagged)]
    desk.restart()
    assert desk.fetch("reads", "grp") == {("foo", 2): 100}


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
def test_what_cannot_be_read_stops_the_load(
    key: bytes, value: bytes | None, error: type[Exception]
) -> None:
    desk = Desk()
    desk.logs[0].durable = [(key, value)]
    with pytest.raises(error):
        desk.restart()


# -- taking back -----------------------------------------------------------------------------------

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


@given(records, st.lists(st.lists(st.one_of(offsets, generations), max_size=6), max_size=4))
def test_taking_back_restores_what_stood(
    before: list[LogRecord], operations: list[list[LogRecord]]
) -> None:
    """Operation by operation, newest first, to every state there was on the way."""
    state = state_of(*before)
    looks, undos = [], []
    for operation in operations:
        looks.append(look(state))
        undo: list[Undo] = []
        for record in operation:
            replay(state, record, undo)
        undos.append(undo)
    while undos:
        take_back(undos.pop())
        assert look(state) == looks.pop()


@given(records)
def test_replaying_encoded_records_gives_the_same(log: list[LogRecord]) -> None:
    state, again = LoggedState(), LoggedState()
    for key, value in log:
        replay(state, (key, value))
        decoded = decode_key(encode_key(key))
        assert isinstance(decoded, OffsetCommitKey | GroupMetadataKey)
        replay(again, (decoded, decode_value(decoded, value and encode_value(value))))
    assert look(state) == look(again)


@given(records)
def test_the_newest_record_of_a_key_is_all_that_counts(log: list[LogRecord]) -> None:
    newest = {encode_key(key): (key, value) for key, value in log}
    assert look(state_of(*log)) == look(state_of(*newest.values()))


def test_a_group_of_commits_only_is_restored_as_a_simple_one() -> None:
    group = restore("g", None)
    assert (group.state, group.protocol_type, group.state_timestamp_ms) == (
        GroupState.EMPTY,
        None,
        None,
    )
