"""Durable state, and the only code that changes it: applying one log record.

Durable state is what the log of a partition says: what the records of each type of groups add up
to, committed offsets, and those of open transactions. Live groups may have more than that and
change without records, as Kafka's classic groups do [coordinator/live-groups]; their type restores
one from its records.

A record is applied by the same code when it is written and when it is loaded. So replaying the log
of a partition from its start gives the state of the shard that wrote it [group-log/replay].
"""

from collections.abc import Mapping

from coterie.coordinator.groups.pending_offsets import PendingOffsets, Place
from coterie.coordinator.kernel.append import Record
from coterie.protocol.messages.log_records import (
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
)
from coterie.protocol.messages.record_types import UnknownKey
from coterie.protocol.wire import Message

Partitions = dict[int, OffsetCommitValue]


class GroupRecords:
    """What the records of the groups of one type add up to. Each type derives its own.

    Attributes:
        keys: the classes of the keys of its records.
    """

    def __init__(self, keys: tuple[type[Message], ...]) -> None:
        """Start without records of these keys."""
        self.keys = keys

    def apply(self, key: Message, value: Message | None) -> None:
        """Apply one record; null removes what a value of that key has said.

        A tombstone for an absent key is legal [group-log/record-types].
        """
        raise NotImplementedError

    def values(self) -> Mapping[str, Message]:
        """Return the values that count, under names of their own, so that two logs compare."""
        raise NotImplementedError


class LoggedState:
    """What the records of one partition add up to.

    Attributes:
        of_types: what the records of each served type of groups add up to, by its name.
        offsets: group id to topic to partition to committed offset; no mapping in it is empty.
        by_key: by the kind of a record, what the records of its type add up to.
        groups_by_topic: topic to the groups with a committed offset of it; no mapping in it is
            empty. The values mean nothing: a dictionary keeps the order of the log.
        pending: the offsets of open transactions.
    """

    __slots__ = (
        "by_key", "groups_by_topic", "of_types", "offsets", "pending",
    )  # fmt: skip

    def __init__(self, of_types: Mapping[str, GroupRecords]) -> None:
        """Start with nothing logged.

        Args:
            of_types: by the names of the served types, what their records add up to.
        """
        self.of_types = of_types
        self.by_key = {key: each for each in of_types.values() for key in each.keys}
        keys = sum(len(each.keys) for each in of_types.values())
        assert len(self.by_key) == keys, "a kind of record belongs to one type"
        self.offsets: dict[str, dict[str, Partitions]] = {}
        self.groups_by_topic: dict[str, dict[str, None]] = {}
        self.pending = PendingOffsets()

    def records_of(self, key: Message) -> GroupRecords | None:
        """Return the records of the type to which a key belongs; None if it is not served."""
        return self.by_key.get(type(key))

    def add_topic(self, group_id: str, topic: str) -> Partitions:
        """Return the new, empty mapping for a group's offsets of a topic."""
        topics = self.offsets.setdefault(group_id, {})
        groups = self.groups_by_topic.setdefault(topic, {})
        assert topic not in topics, f"{group_id} has offsets of {topic}"
        assert group_id not in groups, f"{topic} lists {group_id}, which has no offsets of it"
        partitions: Partitions = {}
        topics[topic] = partitions
        groups[group_id] = None
        return partitions

    def remove_topic(self, group_id: str, topic: str) -> None:
        """Remove the mapping for a group's offsets of a topic, which is empty."""
        topics = self.offsets[group_id]
        groups = self.groups_by_topic[topic]
        assert not topics[topic], f"{group_id} has offsets of {topic}"
        assert group_id in groups, f"{topic} does not list {group_id}, which has offsets of it"
        del topics[topic]
        if not topics:
            del self.offsets[group_id]
        del groups[group_id]
        if not groups:
            del self.groups_by_topic[topic]


def replay(state: LoggedState, record: Record) -> None:
    """Apply one record: a value replaces the earlier one of its key, null removes it.

    Args:
        state: the state to change.
        record: the decoded key and value. A tombstone for an absent key is legal, because
            compaction leaves such records [group-log/record-types].
    """
    key, value = record
    if type(key) is OffsetCommitKey:
        if value is None:
            _remove_offset(state, key)
            return
        assert type(value) is OffsetCommitValue, value
        # Written out here and not in a function, because every commit does it.
        topics = state.offsets.get(key.group)
        partitions = None if topics is None else topics.get(key.topic)
        if partitions is None:
            partitions = state.add_topic(key.group, key.topic)
        partitions[key.partition] = value
        if state.pending.by_group:
            state.pending.overtake((key.group, key.topic, key.partition))
        return
    # As in `records_of`, without the call.
    records = state.by_key.get(type(key))
    assert records is not None, f"{key} is of a type that is not served"
    records.apply(key, value)


def replay_marker(state: LoggedState, producer_id: int, *, commit: bool) -> None:
    """Apply the marker of a transaction: commit its pending offsets or drop them.

    A marker of a producer without an open transaction changes nothing. An offset that a newer
    record has overtaken changes nothing either [offsets/marker].
    """
    pending = state.pending
    for place, offset in pending.end(producer_id).items():
        if commit and not offset.overtaken:
            group_id, topic, index = place
            partitions = state.offsets.get(group_id, {}).get(topic)
            if partitions is None:
                partitions = state.add_topic(group_id, topic)
            partitions[index] = offset.value
            pending.overtake(place, offset.position)


def replay_pending(
    state: LoggedState,
    producer_id: int,
    producer_epoch: int,
    record: Record,
    *,
    overtaken: bool = False,
) -> bool:
    """Apply a record of an open transaction.

    Args:
        state: the state to change.
        producer_id, producer_epoch: of its batch.
        record: the decoded key and value.
        overtaken: whether a newer record of its key has been committed.

    Returns:
        Whether it was applied. Kafka writes only commits of offsets in transactions.
    """
    key, value = record
    if type(key) is not OffsetCommitKey or type(value) is not OffsetCommitValue:
        return False
    state.pending.add(producer_id, producer_epoch, key, value, overtaken=overtaken)
    return True


def replay_encoded(state: LoggedState, key_bytes: bytes, value_bytes: bytes | None) -> bool:
    """Decode and apply one record of a log.

    Returns:
        Whether the record is of a known type that is served [group-log/unknown-types].

    Raises:
        MalformedFrame: the record is not what its type says, or has an unknown value version.
    """
    key = decode_key(key_bytes)
    if isinstance(key, UnknownKey):
        return False
    if type(key) is OffsetCommitKey or state.records_of(key) is not None:
        replay(state, (key, decode_value(key, value_bytes)))
        return True
    return False


def _remove_offset(state: LoggedState, key: OffsetCommitKey) -> None:
    """Remove an offset, and with the last one of a topic or group the mapping that held it.

    Pending offsets of the partition are dropped, too [offsets/delete-pending].
    """
    if state.pending.by_group:
        place: Place = (key.group, key.topic, key.partition)
        state.pending.drop(place)
    topics = state.offsets.get(key.group, {})
    partitions = topics.get(key.topic, {})
    removed = partitions.pop(key.partition, None)
    if removed is None:
        assert not topics or partitions or key.topic not in topics, f"an empty mapping for {key}"
    elif not partitions:
        state.remove_topic(key.group, key.topic)
