"""Operations that do not fit a batch fail alone; sweeps are split into batches.

Rules: [coordinator/durable-responses], [coordinator/operation-size],
[static-membership/failed-replacement], [syncing/failed-assignment].
"""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.coordinator.groups.batch_size import (
    always_fitting_offsets,
    fits_batch,
    generation_fits_batch,
    split_into_batches,
)
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.kernel.append import MAX_BATCH_BYTES, Record
from coterie.coordinator.kernel.operation import Operation
from coterie.coordinator.topic_image import deletion
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
from tests.unit.coordinator.harness import START_MS, UnitHarness, logged_generations

# More offsets with the longest metadata than fit into a batch.
TOO_MANY = 300
METADATA = "m" * 4096
# More tombstones than fit into a batch: a record of this topic takes 270 bytes.
MANY_PARTITIONS = 8_000
LONG_TOPIC = "t" * 240


def commit_long(harness: UnitHarness, to: str, count: int = TOO_MANY, group_id: str = "g") -> None:
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
    harness.send(request, 8, to)


def commit_code(harness: UnitHarness, to: str) -> int:
    return int(harness.responses[to].topics[0].partitions[0].error_code)


def batch_bytes(records: Sequence[Record]) -> int:
    pairs = [
        (encode_key(key), None if value is None else encode_value(value)) for key, value in records
    ]
    return len(encode_batch(pairs, 0, START_MS))


# -- one operation ---------------------------------------------------------------------------------


def test_large_commit_fails_alone_among_others_of_its_group() -> None:
    harness = UnitHarness()
    harness.commit("before", 1)
    commit_long(harness, "too large")
    harness.commit("behind", 2, partitions=(1,))
    harness.fetch("reads")
    assert commit_code(harness, "too large") == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not {"before", "behind", "reads"} & set(harness.responses)
    harness.store()
    assert (commit_code(harness, "before"), commit_code(harness, "behind")) == (0, 0)
    assert harness.fetch("reads again") == {("sales", 0): 1, ("sales", 1): 2}
    harness.restart()
    assert harness.fetch("reads after") == {("sales", 0): 1, ("sales", 1): 2}


def test_large_commit_creates_no_group() -> None:
    harness = UnitHarness()
    commit_long(harness, "too large")
    assert harness.coordinator.group("g") is None
    harness.commit("again", 1)
    harness.store()
    assert harness.fetch("reads") == {("sales", 0): 1}


def test_commit_that_just_fits_is_written() -> None:
    harness = UnitHarness()
    # A record has 4,096 bytes of metadata, 40 of key and value and 24 of overhead; 251 of them
    # nearly fill a batch.
    commit_long(harness, "large", 251)
    (append,) = harness.pending_appends()
    assert MAX_BATCH_BYTES - 2 * 4_200 < batch_bytes(append.records) <= MAX_BATCH_BYTES
    harness.store()
    assert commit_code(harness, "large") == 0


def test_large_assignment_starts_a_rebalance_and_affects_nothing_else() -> None:
    harness = UnitHarness()
    harness.commit("another group", 5, group_id="h")
    for name in ("c1", "c2"):
        harness.join(name)
    harness.store()
    harness.wait(0)
    c1, c2 = harness.id_of("c1"), harness.id_of("c2")
    harness.sync("c2 syncs", c2, 1)
    harness.commit("behind", 6, group_id="h")
    harness.sync("c1 syncs", c1, 1, {c1: bytes(MAX_BATCH_BYTES), c2: b""})
    for name in ("c1 syncs", "c2 syncs"):
        assert harness.responses[name].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert harness.group().state is GroupState.PREPARING_REBALANCE
    assert "behind" not in harness.responses
    harness.store()
    assert commit_code(harness, "behind") == 0
    # Both rejoin, and an assignment that fits is stored.
    harness.join("c1 again", c1)
    harness.join("c2 again", c2)
    harness.sync("c1 syncs again", c1, 2, {c1: b"mine", c2: b"yours"})
    harness.store()
    assert harness.responses["c1 syncs again"].assignment == b"mine"


def test_large_deletion_of_one_group_is_refused_alone() -> None:
    harness = UnitHarness()
    commit_many(harness, "large")
    harness.commit("small", 1, group_id="small")
    harness.store()
    harness.send(DeleteGroupsRequest(groups_names=["large", "small"]), 2, "admin")
    harness.store()
    codes = [each.error_code for each in harness.responses["admin"].results]
    assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
    assert harness.coordinator.group("small") is None
    assert len(harness.fetch("reads", "large") or ()) == MANY_PARTITIONS


def test_replacement_that_fits_no_batch_starts_a_rebalance() -> None:
    harness = UnitHarness()
    harness.stable("c1", "c2", instances={"c2": "i2"})
    harness.join("c2 again", instance="i2", protocols=(("range", bytes(MAX_BATCH_BYTES)),))
    assert harness.group().state is GroupState.PREPARING_REBALANCE
    assert not harness.pending_appends()


@given(st.integers(0, 3), st.text(max_size=40), st.integers(-200, 200))
@settings(max_examples=60, deadline=None)
def test_generation_fits_a_batch_exactly_if_its_encoded_record_does(
    members: int, name: str, distance: int
) -> None:
    """The bound that avoids encoding never accepts a record that is too large."""
    size = max(0, MAX_BATCH_BYTES - 1_000 + distance)
    value = GroupMetadataValue(
        protocol_type=name,
        generation=1,
        protocol=name,
        leader=name,
        current_state_timestamp=0,
        members=[
            GroupMetadataMember(
                member_id=name,
                group_instance_id=name,
                client_id=name,
                client_host=name,
                rebalance_timeout=1,
                session_timeout=1,
                subscription=b"s",
                assignment=bytes(size // (members or 1)),
            )
            for _ in range(members)
        ],
    )
    record: Record = (GroupMetadataKey(group=name), value)
    assert generation_fits_batch(record) == fits_batch([record])


def test_refused_operation_changes_no_state_and_no_timer() -> None:
    harness = UnitHarness()
    harness.stable("c1")
    timers, logged = len(harness.coordinator.purgatory), harness.coordinator.shards[0].logged
    offsets, groups = dict(logged.offsets), dict(logged_generations(logged))
    commit_long(harness, "too large", group_id="h")
    assert len(harness.coordinator.purgatory) == timers
    assert (logged.offsets, logged_generations(logged)) == (offsets, groups)
    assert not harness.coordinator.shards[0].unacknowledged


# -- sweeps ----------------------------------------------------------------------------------------


def commit_many(harness: UnitHarness, group_id: str) -> None:
    """Commit so many offsets that their tombstones need more than one batch."""
    step = 2_000
    for first in range(0, MANY_PARTITIONS, step):
        partitions = tuple(range(first, first + step))
        to = f"{group_id} commits from {first}"
        harness.commit(to, 1, topic=LONG_TOPIC, partitions=partitions, group_id=group_id)
    harness.store()


def test_expiry_of_many_offsets_needs_several_batches() -> None:
    harness = UnitHarness(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=2_000)
    commit_many(harness, "g")
    harness.wait(2_000)
    appends = harness.pending_appends()
    assert len(appends) > 1
    assert all(batch_bytes(append.records) <= MAX_BATCH_BYTES for append in appends)
    assert sum(len(append.records) for append in appends) == MANY_PARTITIONS + 1
    # The tombstone of the group comes after those of its offsets.
    assert appends[-1].records[-1] == (GroupMetadataKey(group="g"), None)
    harness.store()
    assert harness.coordinator.group("g") is None
    harness.restart()
    assert harness.fetch("reads") == {}


def test_durable_part_of_a_failed_sweep_stays() -> None:
    harness = UnitHarness(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=2_000)
    commit_many(harness, "g")
    harness.wait(2_000)
    removed = len(harness.pending_appends()[0].records)
    harness.store(count=1)
    harness.lose()
    assert len(harness.fetch("reads") or ()) == MANY_PARTITIONS - removed
    harness.wait(2_000)
    harness.store()
    assert harness.coordinator.group("g") is None


def test_deletion_of_a_topic_needs_several_batches() -> None:
    harness = UnitHarness()
    commit_many(harness, "g")
    harness.commit("stays", 4, group_id="g")
    harness.store()
    change = deletion(LONG_TOPIC, bytes(16))
    harness.take(harness.coordinator.topics_changed([change], harness.now_ms))
    assert len(harness.pending_appends()) > 1
    assert all(
        batch_bytes(append.records) <= MAX_BATCH_BYTES for append in harness.pending_appends()
    )
    harness.store()
    assert harness.fetch("reads") == {("sales", 0): 4}


# -- sizes -----------------------------------------------------------------------------------------

strings = st.sampled_from(["", "g", "ö" * 100, "😀" * 60, "x" * 32_767])
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
    strings,
    strings,
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
def test_records_that_are_said_to_fit_do_fit(records: list[Record]) -> None:
    size = batch_bytes(records)
    # The estimate may be some bytes per record too large, and is never too small.
    if fits_batch(records):
        assert size <= MAX_BATCH_BYTES
    else:
        assert size > MAX_BATCH_BYTES - 24 * len(records)


@settings(max_examples=20)
@given(st.lists(offsets, max_size=60))
def test_split_keeps_all_records_in_order(records: list[Record]) -> None:
    operation = Operation("g", list(records))
    operation.removes = "the group"
    parts = list(split_into_batches(operation))
    assert [record for part in parts for record in part.records] == records
    assert all(fits_batch(part.records) for part in parts)
    assert parts[-1:] == [operation][: len(parts)]
    assert all(part.key == "g" for part in parts)
    assert all(part.removes is None for part in parts[:-1])


def test_few_offsets_fit_whatever_they_contain() -> None:
    """The largest case: every character takes three bytes of UTF-8."""
    key = OffsetCommitKey(group="x" * 32_767, topic="x" * 32_767, partition=2**31 - 1)
    value = OffsetCommitValue(
        offset=2**63 - 1, metadata="€" * 4096, commit_timestamp=START_MS, topic_id=bytes(range(16))
    )
    assert always_fitting_offsets(4096) > 10
    assert batch_bytes([(key, value)] * always_fitting_offsets(4096)) <= MAX_BATCH_BYTES
    assert always_fitting_offsets(10_000_000) == 0


def test_read_is_not_refused_with_a_large_operation_before_it() -> None:
    harness = UnitHarness()
    harness.commit("before", 1)
    commit_long(harness, "too large")
    harness.send(OffsetFetchRequest(group_id="g", topics=None), 5, "reads")
    harness.store()
    assert harness.responses["reads"].error_code == 0
