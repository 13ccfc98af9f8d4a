"""The epochs of groups whose members send heartbeats: why they rise, and when topics are looked at.

Consumer groups, share groups and streams groups have this in common. Each type writes its epoch
into a record of its own.
"""

from collections.abc import Collection
from enum import Enum
from typing import Any, NamedTuple, Protocol

from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.messages.consumer_group_facts import GroupEpochRaised

# The largest epoch that a record and a response can have. A log of other software may begin there
# [consumer-groups/epoch-bumps].
MAX_EPOCH = (1 << 31) - 1
# The first epoch of a group and of its target assignment.
FIRST_EPOCH = 1
# The epoch of a member that asks to join, and of one that leaves.
JOIN_EPOCH = 0
LEAVE_EPOCH = -1


class Bump(Enum):
    """Why the epoch of a group rose [journal/consumer-groups]."""

    JOIN = "join"
    SUBSCRIPTION = "subscription"
    REGEX_RESOLVED = "regular expression resolved"
    TOPICS = "topics changed"
    INITIALIZED = "partitions initialized"
    VALIDATED = "topology validated"
    SETTINGS = "settings of the assignment changed"
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


def instigator_of(member: Any) -> Instigator:
    """Return a member of a group of any type as the one that caused something."""
    return Instigator(member.member_id, member.instance_id, member.client_id, member.client_host)


class SubscribedGroup(Protocol):
    """A group that subscribes to topics.

    Attributes:
        epoch: the group epoch.
        topics: the topics of the cluster.
        checked_version: the version of the topics for which the metadata hash was compared; None
            after creation and after a load.
        bumped_ms: when the epoch rose last, for people.
    """

    epoch: int
    topics: TopicsImage
    checked_version: int | None
    bumped_ms: int

    @property
    def member_count(self) -> int:
        """The number of its members."""

    @property
    def group_type(self) -> str:
        """The name of its type."""

    def subscribed_topics(self) -> Collection[str]:
        """Return the topics to which members subscribe, whether they exist or not."""


def may_have_other_topics(group: SubscribedGroup) -> bool:
    """Return whether a topic of the group may have changed since the hash was last compared."""
    checked = group.checked_version
    if checked is None:
        return True
    topics = group.topics
    return checked != topics.version and topics.may_have_changed(group.subscribed_topics(), checked)


def epoch_raised(
    group: SubscribedGroup, now_ms: int, cause: Bump, instigator: Instigator | None
) -> GroupEpochRaised:
    """Note on a group that its epoch has risen, and return the fact.

    Args:
        group: the group at its new epoch.
        now_ms: the time.
        cause: why it rose.
        instigator: the member that caused it, if any.
    """
    group.checked_version = group.topics.version
    group.bumped_ms = now_ms
    raised = GroupEpochRaised(
        at_ms=now_ms,
        epoch=group.epoch,
        cause=cause.value,
        member_count=group.member_count,
        group_type=group.group_type,
    )
    if instigator is not None:
        raised.member_id, raised.group_instance_id, raised.client_id, raised.client_host = (
            instigator
        )
    return raised


def is_target_due(
    epoch: int, target_epoch: int, target_ms: int, interval_ms: int, now_ms: int
) -> bool:
    """Return whether a new target is to be computed now [consumer-groups/target].

    Args:
        epoch: the epoch of the group.
        target_epoch: that of its target.
        target_ms: when the target was computed; 0 if that is not known.
        interval_ms: the least time between two targets.
        now_ms: the time.
    """
    if target_epoch >= epoch:
        return False
    return not (target_ms and interval_ms and now_ms < target_ms + interval_ms)
