"""What a member subscribes to, as its requests change it [consumer-groups/heartbeat-order]."""

from typing import NamedTuple

from coterie.assignors.model import utf16
from coterie.coordinator.groups.consumer.epochs import bump_epoch, bump_if_topics_changed
from coterie.coordinator.groups.consumer.step import Step
from coterie.coordinator.groups.epochs import Bump, instigator_of, may_have_other_topics
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.patterns import InvalidPattern, Pattern
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupRegularExpressionKey,
)


class SubscriptionUpdate(NamedTuple):
    """What a request says of a member; None keeps what it had.

    Attributes:
        rebalance_timeout_ms: None keeps what it had, too.
        classic: its protocols if the request is a JoinGroup.
    """

    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    names: list[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    classic: ClassicMemberMetadata | None = None


# What most requests say of their member: it is as it was.
NO_UPDATE = SubscriptionUpdate()


class SubscriptionChange(NamedTuple):
    """What a request has changed.

    Attributes:
        names: whether the set of topics is another one.
        regex: whether the regular expression is another one.
        new_regex: whether no member had the regular expression before.
        topics: whether a topic to which the group subscribed before may have changed.
    """

    names: bool
    regex: bool
    new_regex: bool
    topics: bool

    @property
    def any(self) -> bool:
        """Whether the member may own other topics now."""
        return self.names or self.regex


# What most requests change, before and after a change of the topics is noticed.
_UNCHANGED = SubscriptionChange(names=False, regex=False, new_regex=False, topics=False)
_OTHER_TOPICS = SubscriptionChange(names=False, regex=False, new_regex=False, topics=True)


def check_regex(step: Step, member_id: str, regex: str) -> None:
    """Check a regular expression that nobody in the group has yet.

    Raises:
        Refusal: it is none.
    """
    group = step.group
    member = group.members.get(member_id)
    if regex in group.by_regex or (member is not None and member.regex == regex):
        return
    try:
        Pattern(regex)
    except InvalidPattern as error:
        raise Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error.reason}.",
        ) from error


def update_subscription(
    step: Step, member_id: str, update: SubscriptionUpdate
) -> SubscriptionChange:
    """Write the subscription of a member, new or not, if it changes."""
    group = step.group
    topics = may_have_other_topics(group)
    member = group.members.get(member_id)
    before = None if member is None else member.subscription
    if before is not None and _says_nothing(step, before, update):
        return _OTHER_TOPICS if topics else _UNCHANGED
    old_names = frozenset[str]() if member is None else member.names
    old_regex = "" if member is None else member.regex
    value = _updated(step, before, update)
    known = value.subscribed_topic_regex in group.by_regex
    if value != before:
        key = ConsumerGroupMemberMetadataKey(group_id=group.group_id, member_id=member_id)
        step.set(key, value)
    assert group.members[member_id].subscription == value, f"{member_id} has what was written"
    regex = value.subscribed_topic_regex or ""
    if old_regex != regex and old_regex:
        drop_regexes(step, [old_regex])
    return SubscriptionChange(
        names=old_names != frozenset(value.subscribed_topic_names),
        regex=old_regex != regex,
        new_regex=bool(regex) and not known,
        topics=topics,
    )


def _says_nothing(
    step: Step, before: ConsumerGroupMemberMetadataValue, update: SubscriptionUpdate
) -> bool:
    """Return whether a request tells what is known; most do, and need no new value then."""
    client = step.context.client
    return (
        (update is NO_UPDATE or update == NO_UPDATE._replace(instance_id=before.instance_id))
        and before.classic_member_metadata is None
        and (before.client_id, before.client_host) == (client.client_id, client.client_host)
    )


def _updated(
    step: Step, before: ConsumerGroupMemberMetadataValue | None, update: SubscriptionUpdate
) -> ConsumerGroupMemberMetadataValue:
    if before is None:
        before = ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id=None,
            client_id="",
            client_host="",
            subscribed_topic_names=[],
            subscribed_topic_regex="",
            rebalance_timeout_ms=-1,
            server_assignor=None,
            classic_member_metadata=None,
        )
    names, timeout_ms = update.names, update.rebalance_timeout_ms
    return ConsumerGroupMemberMetadataValue(
        instance_id=_kept(update.instance_id, before.instance_id),
        rack_id=_kept(update.rack_id, before.rack_id),
        client_id=step.context.client.client_id,
        client_host=step.context.client.client_host,
        subscribed_topic_names=(
            before.subscribed_topic_names if names is None else sorted(set(names), key=utf16)
        ),
        subscribed_topic_regex=_kept(update.regex, before.subscribed_topic_regex),
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms is None else timeout_ms,
        server_assignor=_kept(update.assignor, before.server_assignor),
        classic_member_metadata=update.classic,
    )


def _kept(now: str | None, before: str | None) -> str | None:
    return before if now is None else now


def drop_regexes(step: Step, regexes: list[str]) -> None:
    """Remove what was resolved of regular expressions to which nobody subscribes any more."""
    group = step.group
    for regex in dict.fromkeys(regexes):
        if regex not in group.by_regex:
            key = ConsumerGroupRegularExpressionKey(
                group_id=group.group_id, regular_expression=regex
            )
            step.set(key, None)
            assert regex not in group.regexes, f"{regex} is dropped and resolved"


def bump_for(step: Step, member_id: str, change: SubscriptionChange, *, joins: bool) -> bool:
    """Raise the epoch if a member subscribes to other topics, or if topics have changed.

    A regular expression that is not resolved yet has no topics, so the epoch rises when it is
    [consumer-groups/epoch-bumps].
    """
    group = step.group
    member = group.members[member_id]
    regex = member.regex
    if change.names or (change.regex and (not regex or regex in group.regexes)):
        cause = Bump.JOIN if joins else Bump.SUBSCRIPTION
        bump_epoch(step, cause, instigator_of(member))
        return True
    group.checked_version = group.topics.version
    return change.topics and bump_if_topics_changed(step)
