"""The sticky algorithm for members that all subscribe to the same topics.

Everybody gets the floor of the even share, some one more. A member keeps what it has up to its
quota, the larger quota going to the first that can fill it; what is left is dealt out to those who
lack something, in order of their ids.

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
    """Balance within quotas.

    Args:
        counts: the topics, all subscribed by everybody.
        owned: what each member has, in the order in which members are asked.
        disputed: partitions that several members claim, to be given anew.

    Returns:
        The assignment; and the partitions given to a member though another one may still have
        them, with that member.
    """
    return _Deal(counts, owned, disputed).result()


class _Deal:
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
        # The members that have the larger quota by now, out of `larger`.
        self.filled = 0
        self.under: list[str] = []
        self.exactly: list[str] = []
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
        self._deal_out(left)
        return self.assignment, self.transferred

    def _keep(self, member_id: str, partitions: list[TopicPartition]) -> None:
        """Let a member keep what it has, up to the quota that is left for it."""
        mine = sorted(
            (each for each in partitions if each not in self.disputed),
            key=lambda each: (each.partition, utf16(each.topic)),
        )
        if len(mine) < self.min_quota:
            self.assignment[member_id] += mine
            self.under.append(member_id)
            return
        if len(mine) >= self.max_quota and self.filled < self.larger:
            quota = self.max_quota
            self.filled += 1
            if self.filled == self.larger:
                self.exactly.clear()
        else:
            quota = self.min_quota
            if self.filled < self.larger:
                self.exactly.append(member_id)
        self.assignment[member_id] += mine[:quota]
        self.given_up.update((each, member_id) for each in mine[quota:])

    def _deal_out(self, left: list[TopicPartition]) -> None:
        """One each to the members under the smaller quota, round and round; then the larger."""
        under = sorted(self.under, key=utf16)
        exactly = deque(sorted(self.exactly, key=utf16))
        turn = 0
        for partition in left:
            if not under:
                self._give(partition, exactly.popleft())
                continue
            turn %= len(under)
            member_id = under[turn]
            if self._give(partition, member_id) == self.min_quota:
                del under[turn]
                exactly.append(member_id)
            else:
                turn += 1

    def _give(self, partition: TopicPartition, member_id: str) -> int:
        given = self.assignment[member_id]
        given.append(partition)
        before = self.given_up.get(partition, member_id)
        if before != member_id or partition in self.disputed:
            self.transferred[partition] = member_id
        return len(given)
