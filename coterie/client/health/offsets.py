"""Checks of offsets and lags. Each takes an observation and returns its findings."""

from collections.abc import Iterator

from coterie.client.cluster import TopicPartition
from coterie.client.health.finding import (
    Finding,
    error,
    names_text,
    partitions_text,
    warning,
)
from coterie.client.health.observation import Observation
from coterie.client.names import counted
from coterie.client.progress import total

# auto.commit.interval.ms of most clients.
_COMMIT_INTERVAL_S = 5.0


def no_members(seen: Observation) -> Iterator[Finding]:
    """A group without members has a lag; it is an error if the lag grows."""
    if seen.group.state != "Empty":
        return
    lag = total(seen.sample.lag(seen.group_id, each) for each in seen.committed)
    if not lag:
        return
    earlier = (
        None
        if seen.before is None
        else total(
            seen.before.lag(seen.group_id, each) for each in seen.before.committed[seen.group_id]
        )
    )
    grows = earlier is not None and lag > earlier
    yield (error if grows else warning)(
        "",
        f"The group has no members and a lag of {counted(int(lag), 'record')}"
        + (
            f", which grew by {lag - (earlier or 0):,.0f} in {seen.seconds:.0f} s."
            if grows
            else "."
        ),
        "Start its consumers. If the group is not used any more, delete it: `coterie groups"
        " delete`.",
    )


def no_leader(seen: Observation) -> Iterator[Finding]:
    """A partition that the group reads has no leader."""
    interesting = seen.owners.keys() | seen.committed.keys()
    dead = [
        (topic.name, part.partition_index)
        for topic in seen.look.topics.values()
        for part in topic.partitions
        if part.leader is None and (topic.name, part.partition_index) in interesting
    ]
    if dead:
        yield error(
            partitions_text(dead),
            f"{counted(len(dead), 'partition', 'has', 'have')} no leader and can't be read.",
            "Start the brokers that have replicas of them: `coterie topics describe`.",
        )


def offset_out_of_range(seen: Observation) -> Iterator[Finding]:
    """A committed offset is outside of its partition."""
    lost: dict[TopicPartition, int] = {}
    beyond: list[TopicPartition] = []
    for partition, offset in seen.committed.items():
        start, end = seen.look.starts.get(partition), seen.sample.ends.get(partition)
        if start is not None and offset < start:
            lost[partition] = start - offset
        elif end is not None and offset > end:
            beyond.append(partition)
    if lost:
        yield error(
            partitions_text(list(lost)),
            f"{counted(sum(lost.values()), 'record', 'was', 'were')} deleted by retention"
            " before the group had read and committed them.",
            "Make the group faster or the retention longer. At its next start the group continues"
            " where auto.offset.reset says; choose the offset yourself with `coterie groups"
            " reset-offsets`.",
        )
    if beyond:
        yield error(
            partitions_text(beyond),
            "Committed offsets are after the end of their partitions: a topic was deleted and"
            " created again, or a broker lost records.",
            "Stop the group and choose new offsets: `coterie groups reset-offsets --to-earliest`.",
        )


def never_committed(seen: Observation) -> Iterator[Finding]:
    """Members own partitions with records, and the group has no offset for them."""
    never = [
        each
        for each in seen.owners
        if each not in seen.committed
        and seen.sample.ends.get(each, 0) > seen.look.starts.get(each, 0)
    ]
    if never:
        yield warning(
            partitions_text(never),
            f"{counted(len(never), 'assigned partition', 'has', 'have')} records but no"
            " committed offset, so a restart begins where auto.offset.reset says: at the end"
            " (records are left out) or at the start (they are read again).",
            "Find out why the members do not commit: processing before the first commit,"
            " enable.auto.commit=false without commits, or offsets kept elsewhere.",
        )


def deleted_topics(seen: Observation) -> Iterator[Finding]:
    """The group has offsets of partitions that do not exist."""
    gone = [each for each in seen.committed if not seen.exists(each)]
    if gone:
        topics = names_text(sorted({topic for topic, _ in gone}))
        yield warning(
            topics,
            f"{counted(len(gone), 'committed offset', 'belongs', 'belong')} to partitions that"
            " do not exist. If the topic is created again, the group begins at an old offset.",
            "Delete them: `coterie groups delete-offsets --topic`.",
        )


def unsubscribed_offsets(seen: Observation) -> Iterator[Finding]:
    """The group has offsets of topics that no member subscribes to."""
    consumers = seen.consumers
    subscribed = {topic for member in consumers for topic in member.topics or ()}
    subscribed |= {topic for topic, _ in seen.owners}
    # A member without names has a pattern, which the broker evaluates (KIP-848).
    if not consumers or any(not member.topics for member in consumers):
        return
    old = [each for each in seen.committed if each[0] not in subscribed and seen.exists(each)]
    if old:
        yield warning(
            names_text(sorted({topic for topic, _ in old})),
            f"The group has {counted(len(old), 'committed offset')} of topics that no member"
            " subscribes to. Their lag is part of the group's lag and can only grow.",
            "Delete the offsets (`coterie groups delete-offsets --topic`), or subscribe again.",
        )


def not_committing(seen: Observation) -> Iterator[Finding]:
    """Members own partitions with a lag, and did not commit between the looks."""
    if seen.before is None:
        return
    old = seen.before.committed[seen.group_id]
    new = seen.committed
    stalled: dict[TopicPartition, int] = {}
    for partition in seen.owners:
        lag = seen.sample.lag(seen.group_id, partition)
        lag_before = seen.before.lag(seen.group_id, partition)
        if lag and lag_before and old[partition].offset == new[partition]:
            stalled[partition] = lag
    if stalled:
        members = names_text(seen.owners[each][0] for each in stalled)
        yield error(
            partitions_text(list(stalled)),
            f"No commit in {seen.seconds:.0f} s although"
            f" {counted(sum(stalled.values()), 'record', 'waits', 'wait')} in"
            f" {counted(len(stalled), 'partition')}, which {members} own.",
            "The members are alive, but do not process or do not commit: look for a record that"
            " fails again and again, a paused consumer or a slow call. If they commit less often"
            " than that, use a longer --interval.",
        )


def lag_grows(seen: Observation) -> Iterator[Finding]:
    """The lag of a group that commits is larger than at the first look.

    Records that arrived since the last commit are no trend, so a growth counts if it is more than
    what is produced between two commits [client/checks].
    """
    if seen.before is None:
        return
    first, last = seen.before, seen.sample
    lags = {
        each: (first.lag(seen.group_id, each), last.lag(seen.group_id, each))
        for each in seen.owners
    }
    known = {each: (old, new) for each, (old, new) in lags.items() if None not in (old, new)}
    before = sum(old or 0 for old, _ in known.values())
    growth = {each: (new or 0) - (old or 0) for each, (old, new) in known.items()}
    produced = sum(last.ends[each] - first.ends[each] for each in known)
    grown = sum(growth.values())
    if grown > produced * min(_COMMIT_INTERVAL_S / seen.seconds, 0.5):
        yield warning(
            partitions_text([each for each, by in growth.items() if by > 0]),
            f"The lag grew by {counted(grown, 'record')} in {seen.seconds:.0f} s, from"
            f" {before:,} to {before + grown:,}: more is produced than is"
            f" {'done with' if seen.is_share_group else 'committed'}.",
            "Check again with a longer --interval. If it goes on, add members"
            f"{'' if seen.is_share_group else ' (up to the number of partitions)'} or make the"
            " processing faster.",
        )
