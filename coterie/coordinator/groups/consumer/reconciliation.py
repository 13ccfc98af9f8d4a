"""Reconciliation: how one member comes from the partitions that it owns to its target.

`states.py` describes the states. The table [consumer-groups/reconciliation]:

| state                | what the member says                        | what happens                |
|----------------------|---------------------------------------------|-----------------------------|
| STABLE               | the target is newer                         | `_next`                     |
|                      | its subscription has changed                | `_without_unsubscribed`     |
| UNREVOKED_PARTITIONS | it owns nothing of what it has to give up   | `_next`                     |
|                      | its subscription has changed                | `_without_unsubscribed`     |
|                      | anything else                               | it is waited for            |
| UNRELEASED_PARTITIONS| anything                                    | `_next`                     |
| UNKNOWN              | it owns nothing                             | `_next`                     |
|                      | anything else                               | it is fenced                |

These functions read the group and change nothing.
"""

from collections.abc import Mapping
from typing import NamedTuple

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.member import ConsumerMember, Owned
from coterie.coordinator.groups.consumer.states import MemberState

# The partitions that a member says it owns, by topic id.
OwnedNow = Mapping[bytes, frozenset[int]]

_STABLE = MemberState.STABLE
_UNREVOKED = MemberState.UNREVOKED_PARTITIONS
_UNRELEASED = MemberState.UNRELEASED_PARTITIONS


class Reconciled(NamedTuple):
    """Where a member is after a step."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Owned
    pending: Owned


class UnknownState(Exception):  # noqa: N818 - it describes the member
    """The member is in a state of other software, and has to begin without partitions."""


def reconcile(
    group: ConsumerGroup, member: ConsumerMember, owned: OwnedNow | None, *, changed: bool
) -> Reconciled | None:
    """Return where a member is after its heartbeat or JoinGroup; None if it stays where it is.

    Args:
        group: the group; its target is the one to which the member goes.
        member: the member.
        owned: what it says that it owns; None if it does not say.
        changed: whether its subscription has changed with this request.

    Raises:
        UnknownState: it has to abandon its partitions first.
    """
    assert group.members.get(member.member_id) is member, f"{member} is not in {group}"
    epoch, state = group.target_epoch, member.state
    following: Reconciled | None = None
    if state is _STABLE:
        if member.epoch != epoch:
            following = _next(group, member, member.epoch, owned)
        elif changed:
            following = _without_unsubscribed(group, member, owned)
    elif state is _UNREVOKED:
        if owned is not None and not _has_some(owned, member.pending):
            following = _next(group, member, member.epoch, owned)
        elif changed:
            following = _without_unsubscribed(group, member, owned)
    elif state is _UNRELEASED:
        following = _next(group, member, member.epoch, owned)
    elif owned is not None and not any(owned.values()):
        following = _next(group, member, epoch, owned)
    else:
        raise UnknownState
    if following is None:
        return None
    assert following.epoch in (member.epoch, epoch), f"{member} goes to another epoch"
    now = member.epoch, member.previous_epoch, state, member.assigned, member.pending
    return None if following == now else following


def _next(
    group: ConsumerGroup, member: ConsumerMember, epoch: int, owned: OwnedNow | None
) -> Reconciled:
    """Go on to the target: first give up what is not in it, then take what is free."""
    if is_at_target(group, member):
        return Reconciled(group.target_epoch, member.epoch, _STABLE, member.assigned, {})
    target = group.target(member.member_id)
    subscribed = subscribed_ids(group, member)
    keep: Owned = {}
    revoke: Owned = {}
    add: dict[bytes, list[int]] = {}
    waits = False
    for topic_id in {**target, **member.assigned}:
        wanted = frozenset(target.get(topic_id, ())) if topic_id in subscribed else frozenset()
        has = member.assigned.get(topic_id, {})
        kept = {index: at for index, at in has.items() if index in wanted}
        if kept:
            keep[topic_id] = kept
        if len(kept) < len(has):
            revoke[topic_id] = {index: at for index, at in has.items() if index not in wanted}
        if len(kept) < len(wanted):
            owners = group.owners.get(topic_id, {})
            for index in wanted:
                if index not in kept:
                    if owners.get(index, member.member_id) == member.member_id:
                        add.setdefault(topic_id, []).append(index)
                    else:
                        waits = True
    if revoke and (owned is None or _has_some(owned, revoke)):
        return Reconciled(epoch, member.epoch, _UNREVOKED, keep, revoke)
    epoch = group.target_epoch
    for topic_id, indexes in add.items():
        keep.setdefault(topic_id, {}).update(dict.fromkeys(indexes, epoch))
    assert keep.keys() <= {**target, **member.assigned}.keys(), f"{member} has what it never had"
    return Reconciled(epoch, member.epoch, _UNRELEASED if waits else _STABLE, keep, {})


def is_at_target(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether a member has all of its target and nothing else, both in order.

    Most members that come to a new epoch do: the others are those that move.
    """
    value = group.target_values.get(member.member_id)
    topics = () if value is None else value.topic_partitions
    assigned = member.assigned
    if len(topics) != len(assigned):
        return False
    names, by_id = group.topics_of(member), group.topics.by_id
    for topic in topics:
        has, found = assigned.get(topic.topic_id), by_id.get(topic.topic_id)
        if not has or found is None or found.name not in names:
            return False
        # In another order, as in the log of other software, they are compared by `_next`.
        if list(has) != topic.partitions:
            return False
    return True


def _without_unsubscribed(
    group: ConsumerGroup, member: ConsumerMember, owned: OwnedNow | None
) -> Reconciled | None:
    """Take away the topics to which a member does not subscribe any more, before a new target."""
    subscribed = subscribed_ids(group, member)
    removed = {each: have for each, have in member.assigned.items() if each not in subscribed}
    # As in Kafka: without any name of a topic the record is written although nothing is removed,
    # and only the previous epoch moves.
    if not removed and (member.pending or group.topics_of(member)):
        return None
    keep = {each: have for each, have in member.assigned.items() if each in subscribed}
    pending = {each: dict(have) for each, have in member.pending.items()}
    for topic_id, have in removed.items():
        pending.setdefault(topic_id, {}).update(have)
    if pending and (owned is None or _has_some(owned, pending)):
        return Reconciled(member.epoch, member.epoch, _UNREVOKED, keep, pending)
    return Reconciled(member.epoch, member.epoch, member.state, keep, member.pending)


def subscribed_ids(group: ConsumerGroup, member: ConsumerMember) -> set[bytes]:
    """Return the ids of the topics to which a member subscribes and that exist."""
    by_name = group.topics.by_name
    return {by_name[name].topic_id for name in group.topics_of(member) if name in by_name}


def _has_some(owned: OwnedNow, partitions: Owned) -> bool:
    """Return whether a member says that it owns any of some partitions."""
    return any(
        index in owned.get(topic_id, ())
        for topic_id, indexes in partitions.items()
        for index in indexes
    )
