"""The record of the epoch of a group, which each type writes for its own reasons."""

from typing import Any

from coterie.coordinator.groups.epochs import (
    MAX_EPOCH,
    Bump,
    Instigator,
    SubscribedGroup,
    epoch_raised,
)
from coterie.coordinator.groups.metadata_hash import metadata_hash


def topics_hash(group: SubscribedGroup) -> int:
    """Return the hash of the topics to which members subscribe, as these are now."""
    return metadata_hash(group.subscribed_topics(), group.topics)


def write_epoch(
    step: Any,
    value: type[Any],
    found: int,
    cause: Bump,
    instigator: Instigator | None,
    **others: Any,
) -> None:
    """Raise the epoch of a group.

    Args:
        step: a step of the group.
        value: the class of the value of the record.
        found: the hash of the topics that is logged with it.
        cause: why it rises.
        instigator: the member that caused it, if any.
        others: what else the value has.
    """
    group = step.group
    epoch = min(group.epoch + 1, MAX_EPOCH)
    key = group.KEYS.epoch(group_id=group.group_id)
    step.set(key, value(epoch=epoch, metadata_hash=found, **others))
    assert group.epoch == epoch, f"{group} is at another epoch than {epoch}"
    assert group.metadata_hash == found, f"{group} has another hash than {found}"
    step.facts.append(epoch_raised(group, step.now_ms, cause, instigator))
