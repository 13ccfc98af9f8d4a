"""From a log record to durable state: the only code that changes it, live and on load alike.

Durable state is what the log says: per group its last logged generation, and its committed offsets.
What Kafka does not log either (who has rejoined, what is parked) belongs to `Group`, which
`restore` makes from the logged generation after a load.

Invariant, proved by tests: replaying a partition's log from its start gives the state of the shard
that wrote it.
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
        offsets: group id to topic to partition to the committed offset; no mapping in it is empty.
    """

    __slots__ = ("groups", "offsets")

    def __init__(self) -> None:
        self.groups: dict[str, GroupMetadataValue] = {}
        self.offsets: dict[str, dict[str, Partitions]] = {}


def replay(state: LoggedState, record: LogRecord, undo: list[Undo] | None = None) -> None:
    """Apply one record: the newest value of a key stands, a null value removes it.

    Args:
        state: what to change.
        record: decoded key and value. A tombstone for what is not there is legal (compaction leaves
            such).
        undo: gathers what stood before, newest last, for `take_back`.
    """
    key, value = record
    if type(key) is OffsetCommitKey:
        if value is None:
            _forget_offset(state, key, undo)
        else:
            assert type(value) is OffsetCommitValue
            _store_offset(state, key, value, undo)
        return
    assert type(key) is GroupMetadataKey
    if undo is not None:
        undo.append((state.groups, key.group, state.groups.get(key.group, ABSENT)))
    if value is None:
        state.groups.pop(key.group, None)
    else:
        assert type(value) is GroupMetadataValue
        state.groups[key.group] = value


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


def _forget_offset(state: LoggedState, key: OffsetCommitKey, undo: list[Undo] | None) -> None:
    """Remove an offset, and with the last one of a topic or group the mapping that held it."""
    topics = state.offsets.get(key.group, {})
    partitions = topics.get(key.topic, {})
    before = partitions.pop(key.partition, None)
    if before is None:
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
    """Restore what stood before, newest change first."""
    for mapping, key, before in reversed(undo):
        if before is ABSENT:
            mapping.pop(key, None)
        else:
            mapping[key] = before
