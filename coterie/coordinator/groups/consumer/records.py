"""The records of consumer groups: what they add up to, and how their values are made.

[consumer-groups/records]
"""

from collections.abc import Iterator, Mapping
from typing import Any

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.group_state import Partitions
from coterie.coordinator.groups.consumer.member import ConsumerMember, Owned, logged_partitions
from coterie.coordinator.groups.consumer.states import MemberState
from coterie.coordinator.groups.replay import GroupRecords
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    TargetTopicPartitions,
)
from coterie.protocol.wire import Message

KEYS = (
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupRegularExpressionKey,
)


class ConsumerRecords(GroupRecords):
    """The consumer groups of one partition.

    Attributes:
        groups: by id, those of which the log says anything. They are the live groups.
        conversions: by group id, those of classic groups that are under way.
    """

    def __init__(self) -> None:
        """Start without records."""
        super().__init__(KEYS)
        self.groups: dict[str, ConsumerGroup] = {}
        self.conversions: dict[str, Any] = {}

    def apply(self, key: Message, value: Message | None) -> None:
        """See `GroupRecords`; a record that its verb has applied is not applied again.

        Otherwise a static member that returns under its id would be removed, with its session.
        """
        group_id: str = key.group_id  # type: ignore[attr-defined]  # the first field of each key
        group = self.groups.get(group_id)
        if group is None:
            if value is None:
                return
            group = self.groups[group_id] = ConsumerGroup(group_id)
        assert group.group_id == group_id, f"{group} is listed as {group_id}"
        if group.unlogged:
            group.unlogged -= 1
        else:
            group.apply(key, value)
        if not group.members and group.is_blank and not group.unlogged:
            assert group.counts_nothing, f"{group} has no members and counts some"
            del self.groups[group_id]

    def values(self) -> Mapping[str, Message]:
        """See `GroupRecords`."""
        return dict(self._named_values())

    def _named_values(self) -> Iterator[tuple[str, Message]]:
        for group_id, group in self.groups.items():
            for name, value in (
                ("epoch", group.metadata),
                ("old topics", group.has_old_metadata),
                ("target epoch", group.target_metadata),
            ):
                if value is not None:
                    yield f"{group_id} {name}", value
            for member_id, member in group.members.items():
                if member.subscription is not None:
                    yield f"{group_id} subscription {member_id}", member.subscription
                if member.current is not None:
                    yield f"{group_id} assignment {member_id}", member.current
            for member_id, target in group.target_values.items():
                yield f"{group_id} target {member_id}", target
            for regex, resolved in group.regexes.items():
                yield f"{group_id} regex {regex}", resolved.value


def target_value(target: Partitions) -> ConsumerGroupTargetAssignmentMemberValue:
    """Return the part of a member in the target assignment as it is logged."""
    return ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetTopicPartitions.of(topic_id, list(partitions))
            for topic_id, partitions in sorted(target.items())
            if partitions
        ]
    )


def current_value(
    epoch: int,
    previous_epoch: int,
    state: MemberState,
    assigned: Owned,
    pending: Owned,
    member: ConsumerMember | None = None,
) -> ConsumerGroupCurrentMemberAssignmentValue:
    """Return the current assignment of a member as it is logged.

    Args:
        epoch, previous_epoch, state, assigned, pending: of the member.
        member: the member before it. If it keeps its partitions, the lists of its record are used
            again, since the values of records do not change.
    """
    kept = None if member is None else member.logged_assigned(assigned)
    return ConsumerGroupCurrentMemberAssignmentValue.of(
        epoch,
        previous_epoch,
        state,
        logged_partitions(assigned) if kept is None else kept,
        logged_partitions(pending) if pending else [],
    )
