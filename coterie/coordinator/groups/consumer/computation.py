"""The computation of one target assignment: what it begins with, its parts, and its result.

It sees the group as it was when it began. What happens to the group meanwhile does not change it;
`target.py` says what becomes of its result.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from coterie.assignors.range import share_ranges
from coterie.assignors.shares import STEP_WORK, Run, Shares, Subscriber, Work
from coterie.assignors.uniform import share_uniform
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.group_state import Partitions, partitions_of
from coterie.coordinator.groups.consumer.member import ConsumerMember
from coterie.coordinator.groups.consumer.records import target_value
from coterie.coordinator.groups.recorded.target import Computation
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupTargetAssignmentMemberValue,
)
from coterie.protocol.messages.log_records import encode_value


class _Topics:
    """The topics of a group that exist, as an assignor needs them."""

    def __init__(self, group: ConsumerGroup) -> None:
        by_name = group.topics.by_name
        found = [by_name[name] for name in group.subscribed_topics() if name in by_name]
        self.counts = {topic.name: topic.partitions for topic in found}
        self.ids = {topic.name: topic.topic_id for topic in found}
        self.counts_by_id = {topic.topic_id: topic.partitions for topic in found}


Share = Callable[[_Topics, Sequence[Subscriber[bytes]], Shares[bytes], bool], Work]

# The assignors of the coordinator by Kafka's names of them.
ASSIGNORS: Mapping[str, Share] = {
    "uniform": lambda topics, members, shares, homogeneous: share_uniform(
        topics.counts, topics.ids, members, shares, homogeneous=homogeneous
    ),
    "range": lambda topics, members, shares, _: share_ranges(topics.counts_by_id, members, shares),
}


class _Seen:
    """A member as it was when the computation began."""

    __slots__ = ("instance_id", "member_id", "names", "target_value")

    def __init__(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        self.member_id = member.member_id
        self.instance_id = member.instance_id
        self.names = group.topics_of(member)
        self.target_value = group.target_values.get(member.member_id)


class Change(NamedTuple):
    """What a target changes for a member.

    Attributes:
        value: its partitions as they are logged.
        encoded: the value as bytes.
        moved: how many partitions it loses.
    """

    value: ConsumerGroupTargetAssignmentMemberValue
    encoded: bytes
    moved: int


class Later(NamedTuple):
    """The computation of a target that begins in the next turn.

    Attributes:
        assignor: the name of the assignor.
    """

    assignor: str


class TargetComputation(Computation):
    """The target of a consumer group.

    Attributes:
        assignor: the name of the assignor.
    """

    __slots__ = ("_changes", "assignor")

    def __init__(self, group: ConsumerGroup, assignor: str) -> None:
        """Begin to compute the target of a group."""
        assert assignor in ASSIGNORS, f"{assignor} is no assignor of the coordinator"
        super().__init__(group.epoch)
        self.assignor = assignor
        topics = _Topics(group)
        seen = [_Seen(group, member) for member in group.assigned_members()]
        self.size = sum(topics.counts.values()) + len(seen) * len(topics.counts)
        # By member id, and by instance id: another member may have the place of a static one.
        self._changes: dict[str, Change] = {}
        self._work = self._steps(topics, seen, group.is_homogeneous())

    def change(self, member: ConsumerMember) -> Change | None:
        """Return what changes for a member; None if nothing does, or if it was not in the group."""
        found = self._changes.get(member.member_id)
        if found is None and member.instance_id is not None:
            found = self._changes.get(_place(member.instance_id))
        return found

    def _steps(self, topics: _Topics, seen: list[_Seen], homogeneous: bool) -> Work:  # noqa: FBT001
        shares: Shares[bytes] = {}
        subscribers: list[Subscriber[bytes]] = []
        befores: list[Partitions] = []
        # Most members subscribe to the same.
        ids_of: dict[frozenset[str], frozenset[bytes]] = {}
        done = 0
        for each in seen:
            subscribed = ids_of.get(each.names)
            if subscribed is None:
                ids = topics.ids
                subscribed = frozenset(ids[name] for name in each.names if name in ids)
                ids_of[each.names] = subscribed
            before = partitions_of(each.target_value)
            befores.append(before)
            owned = _existing(before, topics.counts_by_id)
            shares[each.member_id] = []
            subscribers.append(Subscriber(each.member_id, subscribed, owned, each.instance_id))
            done += 1 + sum(map(len, before.values()))
            if done >= STEP_WORK:
                yield done
                done = 0
        yield from ASSIGNORS[self.assignor](topics, subscribers, shares, homogeneous)
        for each, before, member in zip(seen, befores, subscribers, strict=True):
            target = _partitions(shares.pop(each.member_id), member.owned)
            done += 1
            # A member that had no target gets one, even if it is empty.
            if target != before or each.target_value is None:
                value = target_value(target)
                change = Change(value, encode_value(value), _lost(before, target))
                self._changes[each.member_id] = change
                if each.instance_id is not None:
                    self._changes[_place(each.instance_id)] = change
                done += 10 * len(target) + sum(map(len, target.values()))
            if done >= STEP_WORK:
                yield done
                done = 0
        assert not shares, f"a member that is not in the group is assigned something: {shares}"


def _place(instance_id: str) -> str:
    """Return the key of a static member's place among member ids, of which none has a NUL."""
    return f"\0{instance_id}"


def _existing(target: Partitions, counts: Mapping[bytes, int]) -> Partitions:
    """Return the partitions of a target that exist; the target itself if all do, as usual."""
    for topic_id, indexes in target.items():
        if topic_id not in counts or (indexes and indexes[-1] >= counts[topic_id]):
            break
    else:
        return target
    return {
        topic_id: indexes
        if not indexes or indexes[-1] < counts[topic_id]
        else tuple(index for index in indexes if index < counts[topic_id])
        for topic_id, indexes in target.items()
        if topic_id in counts
    }


def _partitions(runs: list[Run[bytes]], owned: Mapping[bytes, Sequence[int]]) -> Partitions:
    """Return what a member is given, by topic.

    What it keeps of a topic without a change stays the same object.
    """
    target: Partitions = {}
    for topic_id, indexes in runs:
        if not indexes:
            continue
        before = target.get(topic_id)
        if before is not None:
            target[topic_id] = tuple(sorted((*before, *indexes)))
        elif isinstance(indexes, tuple) and indexes is owned.get(topic_id):
            target[topic_id] = indexes
        else:
            target[topic_id] = tuple(sorted(indexes))
    return target


def _lost(before: Partitions, now: Partitions) -> int:
    """Return how many partitions a target has lost."""
    return sum(
        len(indexes) - len(frozenset(indexes).intersection(now.get(topic_id, ())))
        for topic_id, indexes in before.items()
        if indexes is not now.get(topic_id)
    )
