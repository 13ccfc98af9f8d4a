"""How far groups have read: their offsets and the ends of their partitions, and rates between two.

A broker does not say how fast a group reads. Two samples do: the committed offsets and the ends of
the partitions, some seconds apart. The difference over the time between is the rate of what is
consumed and produced; it is unknown where a sample lacks the offset, and negative after a reset.
Offsets are read before the ends, so a lag is never too small. A share group has start offsets
instead of committed ones.
"""

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.group_description import SHARE_GROUP, GroupDescription
from coterie.client.offsets import (
    LATEST,
    Committed,
    committed_offsets_of_groups,
    partition_offsets,
)
from coterie.client.share_groups import StartOffset, start_offsets


class Sample(NamedTuple):
    """The state of some groups at one time.

    Attributes:
        at_s: the time on a clock that does not jump, in seconds.
        committed: the committed offsets of each group; in share groups the start offsets.
        ends: the end of each partition that exists and has a leader.
        shared: what is known of the partitions of each share group.
    """

    at_s: float
    committed: dict[str, dict[TopicPartition, Committed]]
    ends: dict[TopicPartition, int]
    shared: Mapping[str, Mapping[TopicPartition, StartOffset]] = {}

    def partitions(self, group: GroupDescription) -> list[TopicPartition]:
        """Return the partitions that a group has an offset of, or reads, in order."""
        name = group.group_id
        known = self.committed[name].keys() | self.shared.get(name, {}).keys()
        return sorted(known | partitions_of_members(group).keys())

    def lag(self, group_id: str, partition: TopicPartition) -> int | None:
        """Return the records that a group is not done with yet; None if that is not known."""
        if group_id in self.shared:
            at = self.shared[group_id].get(partition)
            return None if at is None else at.lag
        committed = self.committed[group_id].get(partition)
        end = self.ends.get(partition)
        return None if committed is None or end is None else end - committed.offset


class Rates(NamedTuple):
    """Records each second, between two samples; None where one of them lacks an offset.

    Attributes:
        consumed: by which the committed offset grows; negative after a reset to an earlier offset.
        produced: by which the end of the partition grows.
    """

    consumed: float | None = None
    produced: float | None = None


def partitions_of_members(group: GroupDescription) -> dict[TopicPartition, list[str]]:
    """Return the ids of the members that each partition is assigned to."""
    owners: dict[TopicPartition, list[str]] = {}
    for member in group.members:
        for topic, partitions in (member.assignment or {}).items():
            for partition in partitions:
                owners.setdefault((topic, partition), []).append(member.member_id)
    return owners


def take_sample(cluster: Cluster, groups: Iterable[GroupDescription]) -> Sample:
    """Read the offsets of groups, then the ends of their partitions.

    The ends are read last, so that a lag is never too small.
    """
    groups = list(groups)
    sharing = [each.group_id for each in groups if each.type == SHARE_GROUP]
    others = [each.group_id for each in groups if each.type != SHARE_GROUP]
    committed = committed_offsets_of_groups(cluster, others) if others else {}
    shared = start_offsets(cluster, sharing) if sharing else {}
    for name, offsets in shared.items():
        committed[name] = {
            partition: Committed(at.offset, at.leader_epoch, "")
            for partition, at in offsets.items()
            if at.offset is not None
        }
    partitions = {each for found in (committed, shared) for of in found.values() for each in of}
    partitions |= {each for group in groups for each in partitions_of_members(group)}
    # The offsets of a deleted topic remain for a while, without an end [client/retries].
    ends = partition_offsets(cluster, dict.fromkeys(sorted(partitions), LATEST), missing={})
    return Sample(time.monotonic(), committed, ends, shared)


def rates_between(
    before: Sample | None, after: Sample, group_id: str, partition: TopicPartition
) -> Rates:
    """Return the rates of a group in a partition; none without an earlier sample."""
    if before is None:
        return Rates()
    seconds = after.at_s - before.at_s
    old, new = (each.committed.get(group_id, {}).get(partition) for each in (before, after))
    first, last = before.ends.get(partition), after.ends.get(partition)
    return Rates(
        None if old is None or new is None else (new.offset - old.offset) / seconds,
        None if first is None or last is None else (last - first) / seconds,
    )


def total(values: Iterable[float | None]) -> float | None:
    """Return the sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
