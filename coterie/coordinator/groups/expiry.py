"""Expiry: offsets past their retention, groups with nothing left, offsets of deleted topics."""

from collections.abc import Iterator

from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.kernel.operation import Operation
from coterie.protocol.messages.journal_records import (
    GroupExpired,
)
from coterie.protocol.messages.log_records import (
    NO_EXPIRY,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.protocol.messages.offset_facts import ExpiredOffset, ExpiredTopic, OffsetsExpired
from coterie.protocol.wire import ZERO_UUID

# The most tombstones of one operation of a sweep: half a millisecond. They fit into a batch unless
# the names are very long.
_RECORDS_TOGETHER = 128
# The most offsets of a group that expire in one operation: two milliseconds. So many are rare.
EXPIRED_TOGETHER = 500


def expire_group(partition: PartitionState, group: GroupLike, now_ms: int) -> Operation | None:
    """Return tombstones for a group's expired offsets, and for the group if nothing is left.

    If `EXPIRED_TOGETHER` offsets have expired, there may be more.

    [offsets/sweep]
    """
    group_id = group.group_id
    operation = Operation(group_id, [])
    records = operation.records
    pending = partition.logged.pending
    # An open transaction keeps its group [offsets/expiry].
    remaining = len(pending.by_group.get(group_id, ()))
    expired_topics = []
    for topic, partitions in partition.logged.offsets.get(group_id, {}).items():
        expired = []
        for index, value in partitions.items():
            has_expired = len(records) < EXPIRED_TOGETHER and _has_expired(
                group, topic, value, now_ms, partition.config.offsets_retention_ms
            )
            if has_expired and not pending.is_pending(group_id, topic, index):
                key = OffsetCommitKey(group=group_id, topic=topic, partition=index)
                records.append((key, None))
                expired.append(ExpiredOffset(partition=index, committed_offset=value.offset))
            else:
                remaining += 1
        if expired:
            expired_topics.append(ExpiredTopic(topic=topic, partitions=expired))
    assert len(records) <= EXPIRED_TOGETHER, "an operation of a sweep is limited"
    if expired_topics:
        operation.note(
            OffsetsExpired(at_ms=now_ms, offset_count=len(records), topics=expired_topics)
        )
    if not remaining and group.is_empty and group.expires:
        assert group_id not in pending.by_group, f"{group} expires in a transaction"
        records += group.tombstones()
        assert records, f"{group} is removed without a tombstone"
        operation.removes = group
        operation.note(GroupExpired(at_ms=now_ms, generation_id=group.logged_generation()))
    return operation if records else None


def _has_expired(
    group: GroupLike, topic: str, value: OffsetCommitValue, now_ms: int, retention_ms: int
) -> bool:
    """Return whether an offset has expired [offsets/expiry] [offsets/own-retention]."""
    base_ms = group.expiry_base_ms(topic, value)
    if base_ms is None:
        return False
    if value.expire_timestamp != NO_EXPIRY:
        return now_ms >= value.expire_timestamp
    return now_ms - base_ms >= retention_ms


def delete_topic_offsets(
    partition: PartitionState, group_id: str, topic: str, topic_id: bytes
) -> Iterator[Operation]:
    """Yield operations with tombstones for a group's offsets of a deleted topic.

    Offsets of another topic of that name stay. Pending offsets name no id [offsets/topic-deletion].
    """
    of_topic = dict.fromkeys(partition.logged.offsets.get(group_id, {}).get(topic, {}))
    if group_id in partition.logged.pending.by_topic.get(topic, ()):
        for name, index in partition.logged.pending.partitions(group_id):
            if name == topic:
                of_topic[index] = None
    indexes = list(of_topic)
    for first in range(0, len(indexes), _RECORDS_TOGETHER):
        operation = Operation(group_id, [])
        for index in indexes[first : first + _RECORDS_TOGETHER]:
            if _is_of_topic(partition, group_id, topic, index, topic_id):
                key = OffsetCommitKey(group=group_id, topic=topic, partition=index)
                operation.records.append((key, None))
        yield operation


def _is_of_topic(
    partition: PartitionState, group_id: str, topic: str, index: int, topic_id: bytes
) -> bool:
    """Return whether a group has an offset of a partition of this topic, and not of another one.

    It is asked before each operation, because offsets may be deleted between two of them.
    """
    value = partition.logged.offsets.get(group_id, {}).get(topic, {}).get(index)
    if value is None:
        return partition.logged.pending.is_pending(group_id, topic, index)
    return ZERO_UUID in (topic_id, value.topic_id) or value.topic_id == topic_id
