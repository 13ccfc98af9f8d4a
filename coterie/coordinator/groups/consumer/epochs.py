"""What raises the epoch of a group [consumer-groups/epoch-bumps]."""

from enum import Enum

from coterie.coordinator.groups.consumer.metadata_hash import metadata_hash
from coterie.coordinator.groups.consumer.step import Step
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
)

# The largest epoch that a record and a response can have. A log of other software may begin there
# [consumer-groups/largest-epoch].
MAX_EPOCH = (1 << 31) - 1


class Bump(Enum):
    """Why the epoch of a group rose."""

    JOIN = "join"
    SUBSCRIPTION = "subscription"
    REGEX = "regular expression"
    RESOLUTION = "regular expression resolved"
    TOPICS = "topics"
    LEAVE = "leave"


def bump_epoch(step: Step) -> None:
    """Raise the epoch, with the hash of the topics to which members subscribe now."""
    group = step.group
    names = group.subscribed_topics()
    _write_epoch(step, group.epoch + 1, metadata_hash(names, group.topics))


def bump_if_topics_changed(step: Step) -> bool:
    """Raise the epoch if the topics of the group are others than at the latest bump.

    Returns:
        Whether it was raised.
    """
    group = step.group
    version = group.topics.version
    if group.checked_version == version:
        return False
    found = metadata_hash(group.subscribed_topics(), group.topics)
    if found != group.metadata_hash:
        _write_epoch(step, group.epoch + 1, found)
        return True
    group.checked_version = version
    return False


def _write_epoch(step: Step, epoch: int, topics_hash: int) -> None:
    group = step.group
    group_id = group.group_id
    step.set(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=min(epoch, MAX_EPOCH), metadata_hash=topics_hash),
    )
    if group.has_old_metadata is not None:
        step.set(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)
    group.checked_version = group.topics.version
    group.bumped_ms = step.now_ms
