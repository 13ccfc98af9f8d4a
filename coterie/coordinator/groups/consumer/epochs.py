"""What raises the epoch of a group [consumer-groups/epoch-bumps]."""

from coterie.coordinator.groups.consumer.step import Step
from coterie.coordinator.groups.epochs import MAX_EPOCH, Bump, Instigator, epoch_raised
from coterie.coordinator.groups.metadata_hash import metadata_hash
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupMetadataKey,
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
    group = step.group
    found = metadata_hash(group.subscribed_topics(), group.topics)
    _write_epoch(step, found, cause, instigator)


def bump_if_topics_changed(step: Step) -> bool:
    """Raise the epoch if the topics of the group are others than at the latest bump.

    Returns:
        Whether it was raised.
    """
    group = step.group
    found = metadata_hash(group.subscribed_topics(), group.topics)
    if found != group.metadata_hash:
        _write_epoch(step, found, Bump.TOPICS, None)
        return True
    return False


def _write_epoch(step: Step, topics_hash: int, cause: Bump, instigator: Instigator | None) -> None:
    group = step.group
    group_id, epoch = group.group_id, min(group.epoch + 1, MAX_EPOCH)
    step.set(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=topics_hash),
    )
    assert group.epoch == epoch, f"{group} is at another epoch than {epoch}"
    assert group.metadata_hash == topics_hash, f"{group} has another hash than {topics_hash}"
    if group.has_old_metadata is not None:
        step.set(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)
    step.facts.append(epoch_raised(group, step.now_ms, cause, instigator))
