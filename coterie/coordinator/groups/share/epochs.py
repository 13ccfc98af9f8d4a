"""What raises the epoch of a share group [share-groups/epoch-bumps]."""

from coterie.coordinator.groups.epochs import Bump, Instigator, instigator_of
from coterie.coordinator.groups.recorded.epochs import topics_hash, write_epoch
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.groups.share.member import ShareMember
from coterie.coordinator.groups.share.step import Step
from coterie.protocol.messages.share_group_records import ShareGroupMetadataValue


def bump_epoch(step: Step, cause: Bump, instigator: Instigator | None = None) -> None:
    """Raise the epoch, with the hash of the topics to which members subscribe now.

    Args:
        step: the step.
        cause: why it rises.
        instigator: the member that caused it, if any.
    """
    found = topics_hash(step.group)
    write_epoch(step, ShareGroupMetadataValue, found, cause, instigator)


def bump_if_needed(step: Step, member: ShareMember, cause: Bump | None, *, changed: bool) -> None:
    """Raise the epoch for a changed subscription, changed topics or newly initialized partitions.

    Args:
        step: the step.
        member: the member that sends the heartbeat.
        cause: why a changed subscription raises it; None if it has not changed.
        changed: whether a topic to which the group subscribed before may have changed.
    """
    group = step.group
    if cause is not None:
        bump_epoch(step, cause, instigator_of(member))
        return
    found = None
    if changed:
        found = topics_hash(group)
    group.checked_version = group.topics.version
    if found is not None and found != group.metadata_hash:
        bump_epoch(step, Bump.TOPICS)
    elif group.target_epoch >= group.epoch and not group.is_at_rest and _has_unassigned(group):
        bump_epoch(step, Bump.INITIALIZED)


def _has_unassigned(group: ShareGroup) -> bool:
    """Return whether initialized partitions of a subscribed topic are not those of the target."""
    by_name = group.topics.by_name
    wanted = {
        by_name[name].topic_id: group.state_partitions.initialized[by_name[name].topic_id]
        for name in group.by_name
        if name in by_name and by_name[name].topic_id in group.state_partitions.initialized
    }
    if not wanted:
        return False
    assigned: dict[bytes, set[int]] = {}
    for value in group.target_values.values():
        for topic in value.topic_partitions:
            if topic.topic_id in wanted:
                assigned.setdefault(topic.topic_id, set()).update(topic.partitions)
    return any(
        assigned.get(topic_id, set()) != topic.partitions for topic_id, topic in wanted.items()
    )
