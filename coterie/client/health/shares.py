"""Checks of share groups (KIP-932). Each takes an observation and returns its findings.

Members do not own partitions, and nobody commits: a group is where its start offset is, and each
record is given to a member for a while [client/checks-of-shares]. What became of deliveries is
judged by the rules of the pipeline's findings, as the history of a group is.
"""

from collections.abc import Iterator
from functools import partial

from coterie.client.cluster import TopicPartition
from coterie.client.health.finding import Finding, error, partitions_text, warning
from coterie.client.health.history import judged_as
from coterie.client.health.observation import Observation
from coterie.client.names import counted

# Records were given up: nobody has processed them.
poison_records = partial(
    judged_as,
    rule="poison_record",
    finding=error,
    remedy="Look at the records: `coterie groups deliveries --archived` has their offsets, and the"
    " console shows them. The group does not get them again; write them to the"
    " topic anew when their processing is mended. Let the application reject what it cannot"
    " process, and keep it elsewhere.",
)
# Records come back after each delivery.
near_delivery_limit = partial(
    judged_as,
    rule="near_delivery_limit",
    finding=warning,
    remedy="Look at these records (`coterie groups deliveries`) and at the log of the application"
    " before they are given up; share.delivery.count.limit of the group allows more deliveries.",
)
# A member does not acknowledge in time.
expired_locks = partial(
    judged_as,
    rule="expired_locks",
    finding=warning,
    remedy="The member takes longer than share.record.lock.duration.ms. Let it fetch fewer records"
    " (max.poll.records), renew their locks, or raise the duration for the group; or it hangs.",
)
# One record keeps the start offset where it is.
start_offset_stands = partial(
    judged_as,
    rule="start_offset_stands",
    finding=warning,
    remedy="At most share.partition.max.record.locks records behind the start offset are delivered:"
    " then the partition stands. Find who has the record at the start offset, and why it is not"
    " acknowledged.",
)


def not_processing(seen: Observation) -> Iterator[Finding]:
    """Members have partitions with a lag, and no record was done with between the looks."""
    if seen.before is None:
        return
    stalled: dict[TopicPartition, int] = {}
    for partition in seen.owners:
        lag = seen.sample.lag(seen.group_id, partition)
        before = seen.before.lag(seen.group_id, partition)
        if lag and before and lag >= before and _start(seen, partition) is not None:
            produced = seen.sample.ends.get(partition, 0) - seen.before.ends.get(partition, 0)
            if lag - before == produced:
                stalled[partition] = lag
    if stalled:
        yield error(
            partitions_text(list(stalled)),
            f"No record was done with in {seen.seconds:.0f} s although"
            f" {counted(sum(stalled.values()), 'record', 'waits', 'wait')} in"
            f" {counted(len(stalled), 'partition')}.",
            "The members are alive, but do not fetch or do not acknowledge: look for a member that"
            " hangs, and for records that come back again and again (`coterie groups deliveries`)."
            " If processing takes longer than that, use a longer --interval.",
        )


def _start(seen: Observation, partition: TopicPartition) -> int | None:
    at = seen.sample.shared[seen.group_id].get(partition)
    return None if at is None else at.offset


def no_share_state(seen: Observation) -> Iterator[Finding]:
    """Partitions of subscribed topics have no share state at both looks."""
    if seen.before is None or not seen.group.members:
        return
    subscribed = {topic for member in seen.group.members for topic in member.topics or ()}
    known = seen.sample.shared.get(seen.group_id, {})
    without = [
        (topic, part.partition_index)
        for topic in sorted(subscribed & seen.look.topics.keys())
        for part in seen.look.topics[topic].partitions
        if (topic, part.partition_index) not in known
    ]
    old = seen.before.shared.get(seen.group_id, {})
    same = [each for each in without if each not in old]
    if same:
        yield error(
            partitions_text(same),
            f"{counted(len(same), 'partition', 'has', 'have')} no share state, also"
            f" {seen.seconds:.0f} s earlier, so no member gets records of"
            f" {'it' if len(same) == 1 else 'them'}.",
            "The group coordinator asks the share coordinator for it with a heartbeat of a member,"
            " and again after 30 s. Look whether the partitions of __share_group_state have"
            " leaders: `coterie topics describe`.",
        )
