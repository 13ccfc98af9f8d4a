"""The sticky algorithm for members that subscribe to the same topics [assignors/sticky].

Each member gets the quotient of partitions and members, and some get one more. A member keeps its
partitions up to its quota; the larger quota goes to the first members that can fill it. The
remaining partitions go to the members below their quota, in the order of their ids.

Invariant: no two members differ by more than one partition.
"""

from collections import deque
from collections.abc import Mapping

from coterie.assignors.model import (
    Assignment,
    PartitionCounts,
    TopicPartition,
    partitions_of,
    utf16,
)


def assign_equal(
    counts: PartitionCounts,
    owned: Mapping[str, list[TopicPartition]],
    disputed: set[TopicPartition],
) -> tuple[Assignment, dict[TopicPartition, str]]:
    """Assign within quotas.

    Args:
        counts: the topics, to which every member subscribes.
        owned: the partitions of each member, in the order in which members are considered.
        disputed: partitions that several members claim.

    Returns:
        The assignment, and the new owner of each partition that another member may still own.
    """
    return _QuotaAssignment(counts, owned, disputed).result()


class _QuotaAssignment:
    def __init__(
        self,
        counts: PartitionCounts,
        owned: Mapping[str, list[TopicPartition]],
        disputed: set[TopicPartition],
    ) -> None:
        self.counts = counts
        self.owned = owned
        self.disputed = disputed
        self.min_quota, self.larger = divmod(sum(counts.values()), len(owned))
        self.max_quota = self.min_quota + (self.larger > 0)
        self.assignment: Assignment = {member_id: [] for member_id in owned}
        # How many of the `larger` members with the larger quota are filled.
        self.filled = 0
        self.below_quota: list[str] = []
        self.at_min_quota: list[str] = []
        self.given_up: dict[TopicPartition, str] = {}
        self.transferred: dict[TopicPartition, str] = {}

    def result(self) -> tuple[Assignment, dict[TopicPartition, str]]:
        for member_id, partitions in self.owned.items():
            self._keep(member_id, partitions)
        kept = {each for given in self.assignment.values() for each in given}
        left = [
            partition
            for topic in sorted(self.counts, key=utf16)
            for partition in partitions_of(topic, self.counts)
            if partition not in kept
        ]
        self._assign_remaining(left)
        return self.assignment, self.transferred

    def _keep(self, member_id: str, partitions: list[TopicPartition]) -> None:
        """Let a member keep its partitions up to its quota."""
        mine = sorted(
            (each for each in partitions if each not in self.disputed),
            key=lambda each: (each.partition, utf16(each.topic)),
        )
        if len(mine) < self.min_quota:
            self.assignment[member_id] += mine
            self.below_quota.append(member_id)
            return
        if len(mine) >= self.max_quota and self.filled < self.larger:
            quota = self.max_quota
            self.filled += 1
            if self.filled == self.larger:
                self.at_min_quota.clear()
        else:
            quota = self.min_quota
            if self.filled < self.larger:
                self.at_min_quota.append(member_id)
        self.assignment[member_id] += mine[:quota]
        self.given_up.update((each, member_id) for each in mine[quota:])

    def _assign_remaining(self, left: list[TopicPartition]) -> None:
        """Fill the members below the smaller quota in turn, then give others their larger quota."""
        below = sorted(self.below_quota, key=utf16)
        at_min = deque(sorted(self.at_min_quota, key=utf16))
        turn = 0
        for partition in left:
            if not below:
                self._give(partition, at_min.popleft())
                continue
            turn %= len(below)
            member_id = below[turn]
            if self._give(partition, member_id) == self.min_quota:
                del below[turn]
                at_min.append(member_id)
            else:
                turn += 1

    def _give(self, partition: TopicPartition, member_id: str) -> int:
        given = self.assignment[member_id]
        given.append(partition)
        before = self.given_up.get(partition, member_id)
        if before != member_id or partition in self.disputed:
            self.transferred[partition] = member_id
        return len(given)
