"""The groups of a log, read without the product's code of groups: what any Kafka would load.

The last value of each key counts, and a tombstone removes it. Of the values only what must fit
together is looked at: who owns what, and at which epoch.
"""

from collections.abc import Iterable
from typing import Any

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.service import GroupCoordinator
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    OffsetCommitKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    group_of,
)
from coterie.protocol.messages.record_types import UnknownKey
from coterie.protocol.record_batch_layout import CONTROL
from coterie.protocol.records import decode_pairs, iterate_batches
from coterie.protocol.wire import Message
from coterie.storage.log import Log
from tests.unit.coordinator.harness import logged_generations

Pairs = frozenset[tuple[bytes, bytes]]

# The state of a member that is where its target is.
_STABLE = 0
_AWAY = -2


def newest_records(log: Log) -> dict[bytes, bytes]:
    """Return the last value of each key about a group; offsets are left out."""
    newest: dict[bytes, bytes] = {}
    for data in log.chunks():
        for position, header in iterate_batches(data):
            if header.attributes & CONTROL:
                continue
            for key, value in decode_pairs(data, header, position):
                assert key is not None, "each record of a group has a key"
                if isinstance(decode_key(key), OffsetCommitKey):
                    continue
                if value is None:
                    newest.pop(key, None)
                else:
                    newest[key] = value
    return newest


def live_records(coordinator: GroupCoordinator) -> Pairs:
    """Return the groups of a coordinator's partition as the records that would produce them."""
    pairs: list[tuple[Message, Message]] = [
        (GroupMetadataKey(group=group), value)
        for group, value in logged_generations(coordinator.shards[0].logged).items()
    ]
    for group in coordinator.shards[0].groups.values():
        if isinstance(group, ConsumerGroup):
            pairs += _records_of(group)
    return frozenset((encode_key(key), encode_value(value)) for key, value in pairs)


def _records_of(group: ConsumerGroup) -> Iterable[tuple[Message, Message]]:
    group_id = group.group_id
    for key, value in (
        (ConsumerGroupMetadataKey(group_id=group_id), group.metadata),
        (ConsumerGroupPartitionMetadataKey(group_id=group_id), group.has_old_metadata),
        (ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), group.target_metadata),
    ):
        if value is not None:
            yield key, value
    for member_id, target in group.target_values.items():
        yield ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), target
    for member_id, member in group.members.items():
        key_fields: Any = {"group_id": group_id, "member_id": member_id}
        if member.subscription is not None:
            yield ConsumerGroupMemberMetadataKey(**key_fields), member.subscription
        if member.current is not None:
            yield ConsumerGroupCurrentMemberAssignmentKey(**key_fields), member.current
    for regex, resolved in group.regexes.items():
        yield (
            ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
            resolved.value,
        )


class LoggedGroup:
    """A group as its records say.

    Attributes:
        group_id: its id.
        by_key: its keys with their values.
    """

    def __init__(self, group_id: str) -> None:
        """Describe a group without records."""
        self.group_id = group_id
        self.by_key: list[tuple[Any, Any]] = []

    def of(self, kind: type) -> dict[str, Any]:
        """Return the values of one kind of keys, by member id; those without one under ""."""
        return {
            getattr(key, "member_id", ""): value for key, value in self.by_key if type(key) is kind
        }

    def errors(self) -> Iterable[str]:
        """Yield what does not fit together."""
        classic = self.of(GroupMetadataKey)
        metadata = self.of(ConsumerGroupMetadataKey)
        if classic:
            if len(self.by_key) > 1:
                yield f"{self.group_id} is of two types: {self.by_key}"
            return
        if not metadata:
            yield f"{self.group_id} has no epoch: {self.by_key}"
            return
        epoch = metadata[""].epoch
        computed = self.of(ConsumerGroupTargetAssignmentMetadataKey)
        target_epoch = computed[""].assignment_epoch if computed else 0
        if target_epoch > epoch:
            yield f"{self.group_id} has a target of epoch {target_epoch} at {epoch}"
        current = self.of(ConsumerGroupCurrentMemberAssignmentKey)
        subscribed = self.of(ConsumerGroupMemberMetadataKey)
        targets = self.of(ConsumerGroupTargetAssignmentMemberKey)
        if current.keys() != subscribed.keys():
            yield f"{self.group_id} has members in part: {set(current)}, {set(subscribed)}"
        if not targets.keys() <= subscribed.keys():
            yield f"{self.group_id} has targets of nobody: {targets.keys() - subscribed.keys()}"
        yield from self._of_two(targets, current)
        for member_id, value in current.items():
            if value.member_epoch != _AWAY and not 0 <= value.member_epoch <= target_epoch:
                yield f"{member_id} is at {value.member_epoch}, the target at {target_epoch}"
            if (value.member_epoch, value.state) == (target_epoch, _STABLE):
                target = targets.get(member_id)
                wanted = [] if target is None else _listed(target.topic_partitions)
                beside = set(_listed(value.assigned_partitions)) - set(wanted)
                if beside:
                    yield f"{member_id} owns {beside} beside its target"

    def _of_two(self, targets: dict[str, Any], current: dict[str, Any]) -> Iterable[str]:
        """Yield the partitions that two members have, or shall have."""
        shall = [
            (member_id, each)
            for member_id, value in targets.items()
            for each in _listed(value.topic_partitions)
        ]
        have = [
            (member_id, each)
            for member_id, value in current.items()
            for part in (value.assigned_partitions, value.partitions_pending_revocation)
            for each in _listed(part)
        ]
        for pairs in (shall, have):
            owners: dict[tuple[bytes, int], str] = {}
            for member_id, partition in pairs:
                other = owners.setdefault(partition, member_id)
                if other != member_id:
                    yield f"{other} and {member_id} of {self.group_id} own {partition}"


def _listed(topics: Iterable[Any]) -> list[tuple[bytes, int]]:
    return [(topic.topic_id, index) for topic in topics for index in topic.partitions]


def logged_groups(newest: dict[bytes, bytes]) -> dict[str, LoggedGroup]:
    """Return the groups that records speak of, by id."""
    found: dict[str, LoggedGroup] = {}
    for raw_key, raw_value in newest.items():
        key = decode_key(raw_key)
        assert not isinstance(key, UnknownKey), f"{raw_key!r} is of no known type"
        group = found.setdefault(group_of(key), LoggedGroup(group_of(key)))
        group.by_key.append((key, decode_value(key, raw_value)))
    return found
