"""What the checks of a group are made of: its description, offsets, topics and recent history."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.consumer_groups import with_matched_topics
from coterie.client.group_description import (
    CONSUMER_GROUP,
    SHARE_GROUP,
    STREAMS_GROUP,
    DescribedMember,
    GroupDescription,
)
from coterie.client.groups import CONSUMER_PROTOCOL_TYPE, describe_groups
from coterie.client.history import NoJournal
from coterie.client.journal_reader import read_histories
from coterie.client.names import short_member
from coterie.client.offsets import EARLIEST, partition_offsets
from coterie.client.progress import Sample, partitions_of_members, take_sample
from coterie.client.topics import Topic, describe_topics
from coterie.protocol.messages.journal_records import Fact

# The states in which assignments are about to change.
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


# The state of a streams group whose topology is not valid, so that there are no tasks.
NOT_READY = "NotReady"

# The types of groups that can be checked.
CHECKED_TYPES = ("classic", CONSUMER_GROUP, STREAMS_GROUP, SHARE_GROUP)


class Look(NamedTuple):
    """Some groups at one time.

    Attributes:
        groups: the groups that exist, by id.
        sample: their offsets and the ends of their partitions.
        starts: the starts of these partitions.
        topics: every topic that a group subscribes to, owns or has committed.
    """

    groups: dict[str, GroupDescription]
    sample: Sample
    starts: dict[TopicPartition, int]
    topics: dict[str, Topic]


class Judged(Protocol):
    """A finding of a rule about the history of a group."""

    @property
    def rule(self) -> str: ...  # noqa: D102
    @property
    def subject(self) -> str | None: ...  # noqa: D102
    @property
    def evidence(self) -> str: ...  # noqa: D102


Judge = Callable[[Mapping[str, Sequence[Fact]], int], Mapping[str, Sequence[Judged]]]
"""Judges the facts of groups at a time: the rules of the pipeline, which this package must not
import, are passed in."""


class Past(NamedTuple):
    """What happened to all groups recently.

    Attributes:
        facts: the facts of the journal by group; None if the broker keeps none.
        since_ms, now_ms: from when to when, in epoch milliseconds.
        judged: by group what the rules of the pipeline say of the facts.
    """

    facts: Mapping[str, Sequence[Fact]] | None
    since_ms: int
    now_ms: int
    judged: Mapping[str, Sequence[Judged]]


class Observation(NamedTuple):
    """One group, as the checks see it.

    Attributes:
        group: its description at the last look.
        earlier: its description at the look before; None if there was none.
        before: the offsets at that look.
        look: the last look.
        facts: the recent facts of the journal; None if the broker keeps none.
        now_ms: the time of the last look, in epoch milliseconds.
        since_ms: the time from which on the facts are.
        judged: what the rules of the pipeline say of the facts.
    """

    group: GroupDescription
    earlier: GroupDescription | None
    before: Sample | None
    look: Look
    facts: Sequence[Fact] | None
    now_ms: int
    since_ms: int
    judged: Sequence[Judged] = ()

    @property
    def group_id(self) -> str:
        """The id of the group."""
        return self.group.group_id

    @property
    def sample(self) -> Sample:
        """The offsets at the last look."""
        return self.look.sample

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """The committed offsets at the last look."""
        return {each: at.offset for each, at in self.sample.committed[self.group_id].items()}

    @property
    def is_rebalancing(self) -> bool:
        """Whether the assignments of the members are about to change."""
        return self.group.state in REBALANCING

    @property
    def is_consumer_group(self) -> bool:
        """Whether it is of type "consumer" (KIP-848)."""
        return self.group.type == CONSUMER_GROUP

    @property
    def is_share_group(self) -> bool:
        """Whether its members share partitions (KIP-932)."""
        return self.group.type == SHARE_GROUP

    @property
    def has_tasks(self) -> bool:
        """Whether it is a streams group (KIP-1071); its members own what their tasks read."""
        return self.group.type == STREAMS_GROUP

    @property
    def has_epochs(self) -> bool:
        """Whether its members follow epochs on their own, and nobody waits for all of them."""
        return self.is_consumer_group or self.has_tasks

    @property
    def consumers(self) -> list[DescribedMember]:
        """The members with a known subscription; none while the group rebalances."""
        known = self.has_tasks or self.group.protocol_type == CONSUMER_PROTOCOL_TYPE
        if self.is_rebalancing or self.group.state == NOT_READY or not known:
            return []
        return [member for member in self.group.members if member.topics is not None]

    @property
    def owners(self) -> dict[TopicPartition, list[str]]:
        """The members that each partition is assigned to, by their short names."""
        names = {member.member_id: short_name(member) for member in self.group.members}
        owners = {} if self.is_rebalancing else partitions_of_members(self.group)
        return {each: [names[member_id] for member_id in ids] for each, ids in owners.items()}

    @property
    def seconds(self) -> float:
        """The time between the two looks."""
        return 0.0 if self.before is None else self.sample.at_s - self.before.at_s

    def exists(self, partition: TopicPartition) -> bool:
        """Return whether a partition exists."""
        topic = self.look.topics.get(partition[0])
        return topic is not None and any(
            each.partition_index == partition[1] for each in topic.partitions
        )


def short_name(member: DescribedMember) -> str:
    """Return a member's short name."""
    key = member.group_instance_id or member.member_id
    return short_member(key, member.member_id, member.client_id)


def look_at(cluster: Cluster, group_ids: Iterable[str]) -> Look:
    """Read groups, their offsets and their topics."""
    described = describe_groups(cluster, group_ids)
    groups = {name: group for name, group in described.items() if group.exists}
    return whole_look(cluster, groups, take_sample(cluster, groups.values()))


def whole_look(cluster: Cluster, groups: dict[str, GroupDescription], sample: Sample) -> Look:
    """Return a look at groups that were described and sampled, with what the checks need besides.

    Args:
        cluster: the cluster.
        groups: the groups.
        sample: their offsets.
    """
    groups = with_matched_topics(cluster, groups)
    owned = {name: partitions_of_members(group) for name, group in groups.items()}
    names = {topic for offsets in sample.committed.values() for topic, _ in offsets}
    names |= {topic for partitions in owned.values() for topic, _ in partitions}
    names |= {
        topic
        for group in groups.values()
        for member in group.members
        for topic in member.topics or ()
    }
    topics = {each.name: each for each in describe_topics(cluster, sorted(names))} if names else {}
    starts = partition_offsets(cluster, dict.fromkeys(sample.ends, EARLIEST), missing={})
    return Look(groups, sample, starts, topics)


def look_back(cluster: Cluster, period_ms: int, judge: Judge) -> Past:
    """Return the recent past of all groups: what touched many is found only in all of them.

    Args:
        cluster: the cluster, for the journal.
        period_ms: how far back.
        judge: the rules.
    """
    now_ms = int(time.time() * 1000)
    try:
        facts = read_histories(cluster, now_ms - period_ms)
    except NoJournal:
        return Past(None, now_ms - period_ms, now_ms, {})
    return Past(facts, now_ms - period_ms, now_ms, judge(facts, now_ms))


def observe(group_id: str, before: Look | None, look: Look, past: Past) -> Observation:
    """Return the observation of a group at the last look, with its history.

    Args:
        group_id: a group of the last look.
        before: the look before; None if there was none.
        look: the last look.
        past: what happened before.
    """
    return Observation(
        group=look.groups[group_id],
        earlier=before.groups.get(group_id) if before else None,
        before=before.sample if before and group_id in before.groups else None,
        look=look,
        facts=None if past.facts is None else past.facts.get(group_id, ()),
        now_ms=past.now_ms,
        since_ms=past.since_ms,
        judged=past.judged.get(group_id, ()),
    )
