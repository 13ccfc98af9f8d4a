"""Operations that fit no batch fail alone; sweeps are cut into batches (spec section 14.2)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.coordinator.batch_size import (
    MAX_BATCH_BYTES,
    always_fitting_offsets,
    fits_batch,
    split_into_batches,
)
from coterie.coordinator.effects import Effects, LogRecord
from coterie.coordinator.group import GroupState
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest
from coterie.protocol.records import encode_batch
from tests.unit.coordinator.desk import START_MS, Desk

# More commits with the longest metadata than a batch has room for.
TOO_MANY = 300
METADATA = "m" * 4096
# More tombstones than a batch has room for: a record of this topic takes 270 bytes.
MANY_PARTITIONS = 8_000
LONG_TOPIC = "t" * 240


def commit_long(desk: Desk, to: str, count: int = TOO_MANY, group_id: str = "g") -> None:
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=1, committed_metadata=METADATA
        )
        for index in range(count)
    ]
    topic = OffsetCommitRequestTopic(name="sales", partitions=partitions)
    request = OffsetCommitRequest(
        group_id=group_id, generation_id_or_member_epoch=-1, member_id="", topics=[topic]
    )
    desk.send(request, 8, to)


def commit_code(desk: Desk, to: str) -> int:
    return int(desk.answers[to].topics[0].partitions[0].error_code)


def batch_bytes(records: list[LogRecord]) -> int:
    pairs = [
        (encode_key(key), None if value is None else encode_value(value)) for key, value in records
    ]
    return len(encode_batch(pairs, 0, START_MS))


# -- one operation ---------------------------------------------------------------------------------


def test_a_commit_too_large_fails_alone_between_others_of_its_group() -> None:
    desk = Desk()
    desk.commit("before", 1)
    commit_long(desk, "too large")
    desk.commit("behind", 2, partitions=(1,))
    desk.fetch("reads")
    assert commit_code(desk, "too large") == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not {"before", "behind", "reads"} & set(desk.answers)
    desk.store()
    assert (commit_code(desk, "before"), commit_code(desk, "behind")) == (0, 0)
    assert desk.fetch("reads again") == {("sales", 0): 1, ("sales", 1): 2}
    desk.restart()
    assert desk.fetch("reads after") == {("sales", 0): 1, ("sales", 1): 2}


def test_a_group_that_only_a_commit_too_large_has_made_is_not_there() -> None:
    desk = Desk()
    commit_long(desk, "too large")
    assert desk.coordinator.group("g") is None
    desk.commit("again", 1)
    desk.store()
    assert desk.fetch("reads") == {("sales", 0): 1}


def test_a_commit_that_just_fits_is_written() -> None:
    desk = Desk()
    # 4,096 of metadata, 40 of key and value, 24 over: 252 of these are less than a batch.
    commit_long(desk, "large", 251)
    (append,) = desk.pending_appends()
    assert MAX_BATCH_BYTES - 2 * 4_200 < batch_bytes(append.records) <= MAX_BATCH_BYTES
    desk.store()
    assert commit_code(desk, "large") == 0


def test_an_assignment_too_large_costs_a_rebalance_and_nothing_else() -> None:
    desk = Desk()
    desk.commit("another group", 5, group_id="h")
    for name in ("c1", "c2"):
        desk.join(name)
    desk.store()
    desk.wait(0)
    c1, c2 = desk.id_of("c1"), desk.id_of("c2")
    desk.sync("c2 syncs", c2, 1)
    desk.commit("behind", 6, group_id="h")
    desk.sync("c1 syncs", c1, 1, {c1: bytes(MAX_BATCH_BYTES), c2: b""})
    for name in ("c1 syncs", "c2 syncs"):
        assert desk.answers[name].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert desk.group().state is GroupState.PREPARING_REBALANCE
    assert "behind" not in desk.answers
    desk.store()
    assert commit_code(desk, "behind") == 0
    # The group goes on: both rejoin, and an assignment that fits is stored.
    desk.join("c1 again", c1)
    desk.join("c2 again", c2)
    desk.sync("c1 syncs again", c1, 2, {c1: b"mine", c2: b"yours"})
    desk.store()
    assert desk.answers["c1 syncs again"].assignment == b"mine"


def test_one_part_of_a_deletion_that_is_too_large_is_refused() -> None:
    desk = Desk()
    fill(desk, "large")
    desk.commit("small", 1, group_id="small")
    desk.store()
    desk.send(DeleteGroupsRequest(groups_names=["large", "small"]), 2, "admin")
    desk.store()
    codes = [each.error_code for each in desk.answers["admin"].results]
    assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
    assert desk.coordinator.group("small") is None
    assert len(desk.fetch("reads", "large") or ()) == MANY_PARTITIONS


def test_what_is_refused_changes_no_state_and_no_timer() -> None:
    desk = Desk()
    desk.stable("c1")
    timers, looks = len(desk.coordinator.purgatory), desk.coordinator.shards[0].logged
    offsets, groups = dict(looks.offsets), dict(looks.groups)
    commit_long(desk, "too large", group_id="h")
    assert len(desk.coordinator.purgatory) == timers
    assert (looks.offsets, looks.groups) == (offsets, groups)
    assert not desk.coordinator.shards[0].unacknowledged


# -- sweeps ----------------------------------------------------------------------------------------


def fill(desk: Desk, group_id: str) -> None:
    """Commit so many offsets that their tombstones take more than one batch."""
    step = 2_000
    for first in range(0, MANY_PARTITIONS, step):
        partitions = tuple(range(first, first + step))
        to = f"fills {group_id} from {first}"
        desk.commit(to, 1, topic=LONG_TOPIC, partitions=partitions, group_id=group_id)
    desk.store()


def test_expiry_of_very_many_offsets_takes_several_batches() -> None:
    desk = Desk(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=2_000)
    fill(desk, "g")
    desk.wait(2_000)
    appends = desk.pending_appends()
    assert len(appends) > 1
    assert all(batch_bytes(append.records) <= MAX_BATCH_BYTES for append in appends)
    assert sum(len(append.records) for append in appends) == MANY_PARTITIONS + 1
    # The group's own tombstone stands behind those of its offsets.
    assert appends[-1].records[-1] == (GroupMetadataKey(group="g"), None)
    desk.store()
    assert desk.coordinator.group("g") is None
    desk.restart()
    assert desk.fetch("reads") == {}


def test_what_of_a_sweep_is_durable_stays_and_the_rest_comes_back() -> None:
    desk = Desk(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=2_000)
    fill(desk, "g")
    desk.wait(2_000)
    gone = len(desk.pending_appends()[0].records)
    desk.store(count=1)
    desk.lose()
    assert len(desk.fetch("reads") or ()) == MANY_PARTITIONS - gone
    desk.wait(2_000)
    desk.store()
    assert desk.coordinator.group("g") is None


def test_the_offsets_of_a_deleted_topic_take_several_batches() -> None:
    desk = Desk()
    fill(desk, "g")
    desk.commit("stays", 4, group_id="g")
    desk.store()
    desk.take(desk.coordinator.topics_deleted([(LONG_TOPIC, bytes(16))], desk.now_ms))
    assert len(desk.pending_appends()) > 1
    assert all(batch_bytes(append.records) <= MAX_BATCH_BYTES for append in desk.pending_appends())
    desk.store()
    assert desk.fetch("reads") == {("sales", 0): 4}


# -- sizes -----------------------------------------------------------------------------------------

texts = st.sampled_from(["", "g", "ö" * 100, "😀" * 60, "x" * 32_767])
offsets = st.builds(
    lambda group, metadata, expires: (
        OffsetCommitKey(group=group, topic="t" * 249, partition=2**31 - 1),
        OffsetCommitValue(
            offset=2**63 - 1,
            leader_epoch=7,
            metadata=metadata,
            commit_timestamp=START_MS,
            expire_timestamp=START_MS if expires else -1,
            topic_id=bytes(range(16)),
        ),
    ),
    texts,
    texts,
    st.booleans(),
)
tombstones = offsets.map(lambda record: (record[0], None))
generations = st.integers(0, 2_000_000).map(
    lambda size: (
        GroupMetadataKey(group="g"),
        GroupMetadataValue(
            protocol_type="consumer",
            generation=1,
            protocol="range",
            leader="m",
            members=[
                GroupMetadataMember(
                    member_id="m",
                    client_id="c",
                    client_host="/127.0.0.1",
                    session_timeout=1,
                    subscription=b"",
                    assignment=bytes(size),
                )
            ],
        ),
    )
)


@settings(max_examples=40)
@given(st.lists(st.one_of(offsets, tombstones, generations), min_size=1, max_size=40))
def test_what_is_said_to_fit_fits(records: list[LogRecord]) -> None:
    size = batch_bytes(records)
    # The estimate may be too large by some bytes a record, and never too small.
    if fits_batch(records):
        assert size <= MAX_BATCH_BYTES
    else:
        assert size > MAX_BATCH_BYTES - 24 * len(records)


@settings(max_examples=20)
@given(st.lists(offsets, max_size=60))
def test_parts_are_all_records_in_order_and_each_fits(records: list[LogRecord]) -> None:
    effects = Effects("the answer")
    effects.records = list(records)
    parts = list(split_into_batches(effects))
    assert [record for part in parts for record in part.records] == records
    assert all(fits_batch(part.records) for part in parts)
    assert parts[-1] is effects
    assert all(part.answer is None for part in parts[:-1])


def test_so_few_offsets_fit_whatever_is_in_them() -> None:
    """Characters of three bytes in every text: the worst there is for a limit in characters."""
    key = OffsetCommitKey(group="x" * 32_767, topic="x" * 32_767, partition=2**31 - 1)
    value = OffsetCommitValue(
        offset=2**63 - 1, metadata="€" * 4096, commit_timestamp=START_MS, topic_id=bytes(range(16))
    )
    assert always_fitting_offsets(4096) > 10
    assert batch_bytes([(key, value)] * always_fitting_offsets(4096)) <= MAX_BATCH_BYTES
    assert always_fitting_offsets(10_000_000) == 0


def test_a_read_is_not_refused_with_a_large_operation_before_it() -> None:
    desk = Desk()
    desk.commit("before", 1)
    commit_long(desk, "too large")
    desk.send(OffsetFetchRequest(group_id="g", topics=None), 5, "reads")
    desk.store()
    assert desk.answers["reads"].error_code == 0
