"""What raises the epoch of a group [consumer-groups/epoch-bumps]."""

from enum import Enum
from typing import NamedTuple

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.member import ConsumerMember
from coterie.coordinator.groups.consumer.metadata_hash import metadata_hash
from coterie.coordinator.groups.consumer.step import Step
from coterie.protocol.messages.consumer_group_facts import GroupEpochRaised
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
)

# The largest epoch that a record and a response can have. A log of other software may begin there
# [consumer-groups/largest-epoch].
MAX_EPOCH = (1 << 31) - 1


class Bump(Enum):
    """Why the epoch of a group rose [journal/consumer-groups]."""

    JOIN = "join"
    SUBSCRIPTION = "subscription"
    REGEX_RESOLVED = "regular expression resolved"
    TOPICS = "topics changed"
    LEAVE = "leave"
    ADMIN_REMOVAL = "admin removal"
    SESSION_EXPIRY = "session expiry"
    REVOCATION_TIMEOUT = "revocation timeout"
    JOIN_TIMEOUT = "rebalance timeout"
    SYNC_TIMEOUT = "sync timeout"


class Instigator(NamedTuple):
    """The member that caused it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str


def instigator_of(member: ConsumerMember) -> Instigator:
    """Return a member as the one that caused something."""
    assert member.subscription is not None, f"{member} has no subscription"
    return Instigator(member.member_id, member.instance_id, member.client_id, member.client_host)


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


def may_have_other_topics(group: ConsumerGroup) -> bool:
    """Return whether a topic of the group may have changed since the hash was last compared."""
    checked = group.checked_version
    if checked is None:
        return True
    topics = group.topics
    return checked != topics.version and topics.may_have_changed(group.subscribed_topics(), checked)


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
    group.checked_version = group.topics.version
    group.bumped_ms = step.now_ms
    raised = GroupEpochRaised(
        at_ms=step.now_ms, epoch=epoch, cause=cause.value, member_count=len(group.members)
    )
    if instigator is not None:
        raised.member_id, raised.group_instance_id, raised.client_id, raised.client_host = (
            instigator
        )
    step.facts.append(raised)
