"""Durable state, and the only code that changes it: applying one log record.

Durable state is what the log of a partition says: the last logged generation of each group and its
committed offsets. Which members have rejoined, and which requests are delayed, is not logged, by
Kafka neither; it is part of `Group`, which `group_record.restore` builds from a logged generation.

A record is applied by the same code when it is written and when it is loaded. So replaying the log
of a partition from its start gives the state of the shard that wrote it [group-log/replay].
"""

from coterie.coordinator.effects import ABSENT, LogRecord, Undo
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

Partitions = dict[int, OffsetCommitValue]


class LoggedState:
    """What the records of one partition add up to.

    Attributes:
        groups: group id to its last logged generation.
        offsets: group id to topic to partition to committed offset; no mapping in it is empty.
    """

    __slots__ = ("groups", "offsets")

    def __init__(self) -> None:
        """Start with nothing logged."""
        self.groups: dict[str, GroupMetadataValue] = {}
        self.offsets: dict[str, dict[str, Partitions]] = {}


def replay(state: LoggedState, record: LogRecord, undo: list[Undo] | None = None) -> None:
    """Apply one record: a value replaces the earlier one of its key, null removes it.

    Args:
        state: the state to change.
        record: the decoded key and value. A tombstone for an absent key is legal, because
            compaction leaves such records [group-log/tombstones].
        undo: receives what `take_back` needs to restore the state, the newest change last.
    """
    key, value = record
    if type(key) is OffsetCommitKey:
        if value is None:
            _remove_offset(state, key, undo)
        else:
            assert type(value) is OffsetCommitValue, value
            _store_offset(state, key, value, undo)
        return
    assert type(key) is GroupMetadataKey, key
    before = state.groups.get(key.group, ABSENT)
    if value is not None:
        assert type(value) is GroupMetadataValue, value
        state.groups[key.group] = value
    elif before is ABSENT:
        return
    else:
        del state.groups[key.group]
    if undo is not None:
        undo.append((state.groups, key.group, before))


def _store_offset(
    state: LoggedState, key: OffsetCommitKey, value: OffsetCommitValue, undo: list[Undo] | None
) -> None:
    topics = state.offsets.get(key.group)
    if topics is None:
        topics = state.offsets[key.group] = {}
        if undo is not None:
            undo.append((state.offsets, key.group, ABSENT))
    partitions = topics.get(key.topic)
    if partitions is None:
        partitions = topics[key.topic] = {}
        if undo is not None:
            undo.append((topics, key.topic, ABSENT))
    if undo is not None:
        undo.append((partitions, key.partition, partitions.get(key.partition, ABSENT)))
    partitions[key.partition] = value


def _remove_offset(state: LoggedState, key: OffsetCommitKey, undo: list[Undo] | None) -> None:
    """Remove an offset, and with the last one of a topic or group the mapping that held it."""
    topics = state.offsets.get(key.group, {})
    partitions = topics.get(key.topic, {})
    before = partitions.pop(key.partition, None)
    if before is None:
        assert not topics or partitions or key.topic not in topics, f"an empty mapping for {key}"
        return
    changes: list[Undo] = [(partitions, key.partition, before)]
    if not partitions:
        changes.append((topics, key.topic, partitions))
        del topics[key.topic]
        if not topics:
            changes.append((state.offsets, key.group, topics))
            del state.offsets[key.group]
    if undo is not None:
        undo += changes


def take_back(undo: list[Undo]) -> None:
    """Restore the values before the changes in `undo`, the newest change first."""
    for mapping, key, before in reversed(undo):
        if before is ABSENT:
            assert key in mapping, f"{key} was removed twice"
            del mapping[key]
        else:
            mapping[key] = before
