"""What is forgotten: offsets past their retention, groups with nothing left, offsets of deleted
topics (spec 14.5).
"""

from coterie.coordinator.effects import ABSENT, Effects, TimerKind
from coterie.coordinator.group import CONSUMER_PROTOCOL_TYPE, Group, GroupState
from coterie.coordinator.partition_state import PartitionState
from coterie.protocol.messages.journal_records import (
    ExpiredOffset,
    ExpiredTopic,
    GroupExpired,
    OffsetsExpired,
)
from coterie.protocol.messages.log_records import (
    NO_EXPIRY,
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.protocol.wire import ZERO_UUID


def expire_group(partition: PartitionState, group: Group, now_ms: int) -> Effects:
    """Tombstones for the offsets of a group that have expired, and for the group if nothing is left
    of it.
    """
    effects = Effects()
    group_id = group.group_id
    remaining = 0
    topics = []
    for topic, partitions in partition.logged.offsets.get(group_id, {}).items():
        expired = []
        for index, value in partitions.items():
            if _has_expired(group, topic, value, now_ms, partition.config.offsets_retention_ms):
                key = OffsetCommitKey(group=group_id, topic=topic, partition=index)
                effects.records.append((key, None))
                expired.append(ExpiredOffset(partition=index, committed_offset=value.offset))
            else:
                remaining += 1
        if expired:
            topics.append(ExpiredTopic(topic=topic, partitions=expired))
    if topics:
        count = len(effects.records)
        fact = OffsetsExpired(at_ms=now_ms, offset_count=count, topics=topics)
        effects.note_when_stored(group_id, fact)
    if not remaining and group.state is GroupState.EMPTY:
        remove_group(partition, group, effects)
        effects.note_when_stored(
            group_id, GroupExpired(at_ms=now_ms, generation_id=group.generation_id)
        )
    return effects


def _has_expired(
    group: Group, topic: str, value: OffsetCommitValue, now_ms: int, retention_ms: int
) -> bool:
    """The base time by state and type (spec 14.5); in any other state nothing expires.

    Offsets with an expiry of their own (retention_time_ms of old clients) obey that instead.
    """
    base_ms: int | None = None
    if group.protocol_type is None:
        base_ms = value.commit_timestamp
    elif group.state is GroupState.EMPTY:
        stamp_ms = group.state_timestamp_ms
        base_ms = value.commit_timestamp if stamp_ms is None else stamp_ms
    elif (
        group.state is GroupState.STABLE
        and group.protocol_type == CONSUMER_PROTOCOL_TYPE
        and not group.is_subscribed(topic)
    ):
        base_ms = value.commit_timestamp
    if base_ms is None:
        return False
    if value.expire_timestamp != NO_EXPIRY:
        return now_ms >= value.expire_timestamp
    return now_ms - base_ms >= retention_ms


def remove_group(partition: PartitionState, group: Group, effects: Effects) -> None:
    """Take a group out and write its tombstone; taken back if the append fails.

    Ids handed out to joiners go with it, as in Kafka, and stay away where the group comes back:
    their timers are gone, and an id without one would keep every join phase from its end.
    """
    for member_id in sorted(group.pending_joins):
        effects.cancel(TimerKind.PENDING, group.group_id, member_id)
    group.pending_joins.clear()
    effects.undo.append(
        (partition.groups, group.group_id, partition.groups.get(group.group_id, ABSENT))
    )
    del partition.groups[group.group_id]
    effects.records.append((GroupMetadataKey(group=group.group_id), None))


def forget_topic(partition: PartitionState, group_id: str, topic: str, topic_id: bytes) -> Effects:
    """Tombstones for a group's offsets of a deleted topic, unless they are of another topic of that
    name (S118).
    """
    effects = Effects()
    for index, value in partition.logged.offsets.get(group_id, {}).get(topic, {}).items():
        if ZERO_UUID in (topic_id, value.topic_id) or value.topic_id == topic_id:
            effects.records.append(
                (OffsetCommitKey(group=group_id, topic=topic, partition=index), None)
            )
    return effects
