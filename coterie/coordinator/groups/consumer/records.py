"""The records of consumer groups: what they add up to, and how their values are made.

[consumer-groups/records]
"""

from typing import Any

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.group_state import Partitions
from coterie.coordinator.groups.consumer.member import ConsumerMember, Owned, logged_partitions
from coterie.coordinator.groups.consumer.states import MemberState
from coterie.coordinator.groups.recorded.records import RecordedGroups
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupTargetAssignmentMemberValue,
    TargetTopicPartitions,
)


class ConsumerRecords(RecordedGroups[ConsumerGroup]):
    """The consumer groups of one partition.

    Attributes:
        conversions: by group id, those of classic groups that are under way.
    """

    def __init__(self) -> None:
        """Start without records."""
        super().__init__(ConsumerGroup)
        self.conversions: dict[str, Any] = {}


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
