"""What raises the epoch of a group [consumer-groups/epoch-bumps]."""

from coterie.coordinator.groups.consumer.step import Step
from coterie.coordinator.groups.epochs import Bump, Instigator
from coterie.coordinator.groups.recorded.epochs import topics_hash, write_epoch
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
)


def bump_epoch(step: Step, cause: Bump, instigator: Instigator | None = None) -> None:
    """Raise the epoch, with the hash of the topics to which members subscribe now.

    Args:
        step: the step.
        cause: why it rises.
        instigator: the member that caused it, if any.
    """
    _write(step, topics_hash(step.group), cause, instigator)


def bump_if_topics_changed(step: Step) -> bool:
    """Raise the epoch if the topics of the group are others than at the latest bump.

    Returns:
        Whether it was raised.
    """
    group = step.group
    found = topics_hash(group)
    if found != group.metadata_hash:
        _write(step, found, Bump.TOPICS, None)
        return True
    return False


def _write(step: Step, found: int, cause: Bump, instigator: Instigator | None) -> None:
    write_epoch(step, ConsumerGroupMetadataValue, found, cause, instigator)
    if step.group.has_old_metadata is not None:
        step.set(ConsumerGroupPartitionMetadataKey(group_id=step.group.group_id), None)
