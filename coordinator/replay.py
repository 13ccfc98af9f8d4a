"""Durable state, and the only code that changes it: applying one log record.

Durable state is what the log of a partition says: the last logged generation of each group and its
committed offsets. Which members have rejoined, and which requests are delayed, is not logged, by
Kafka neither; it is part of `Group`, which `group_record.restore` builds from a logged generation.

A record is applied by the same code when it is written and when it is loaded. So replaying the log
of a partition from its start gives the state of the shard that wrote it [group-log/replay].
"""

from coterie.coordinator.effects import LogRecord
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    other_group,
)

Partitions = dict[int, OffsetCommitValue]


class LoggedState:
    """What the records of one partition add up to.

    Attributes:
        groups: group id to its last logged generation.
        offsets: group id to topic to partition to committed offset; no mapping in it is empty.
        other_groups: id to record type of the groups that are not classic groups
            [group-log/other-group-types].
    """

    __slots__ = ("groups", "offsets", "other_groups")

    def __init__(self) -> None:
        """Start with nothing logged."""
        self.groups: dict[str, GroupMetadataValue] = {}
        self.offsets: dict[str, dict[str, Partitions]] = {}
        self.other_groups: dict[str, int] = {}


def replay(state: LoggedState, record: LogRecord) -> None:
    """Apply one record: a value replaces the earlier one of its key, null removes it.

    Args:
        state: the state to change.
        record: the decoded key and value. A tombstone for an absent key is legal, because
            compaction leaves such records [group-log/tombstones].
    """
    key, value = record
    if type(key) is OffsetCommitKey:
        if value is None:
            _remove_offset(state, key)
            return
        assert type(value) is OffsetCommitValue, value
        # Written out here and not in a function, because every commit does it.
        topics = state.offsets.get(key.group)
        if topics is None:
            topics = state.offsets[key.group] = {}
        partitions = topics.get(key.topic)
        if partitions is None:
            partitions = topics[key.topic] = {}
        partitions[key.partition] = value
        return
    assert type(key) is GroupMetadataKey, key
    if value is None:
        state.groups.pop(key.group, None)
    else:
        assert type(value) is GroupMetadataValue, value
        state.groups[key.group] = value


def replay_other_group(state: LoggedState, key: UnknownKey, *, exists: bool) -> bool:
    """Apply the record of a consumer, share or streams group [group-log/other-group-types].

    Args:
        state: the state to change.
        key: the key of a record that is neither of an offset nor of a classic group.
        exists: whether the record has a value.

    Returns:
        Whether it is the record of a group; records of members and assignments change nothing.

    Raises:
        MalformedFrame: the key is not one of its record type.
    """
    group_id = other_group(key)
    if group_id is None:
        return False
    if exists:
        state.other_groups[group_id] = key.record_type
    else:
        state.other_groups.pop(group_id, None)
    return True


def _remove_offset(state: LoggedState, key: OffsetCommitKey) -> None:
    """Remove an offset, and with the last one of a topic or group the mapping that held it."""
    topics = state.offsets.get(key.group, {})
    partitions = topics.get(key.topic, {})
    removed = partitions.pop(key.partition, None)
    if removed is None:
        assert not topics or partitions or key.topic not in topics, f"an empty mapping for {key}"
    elif not partitions:
        del topics[key.topic]
        if not topics:
            del state.offsets[key.group]
