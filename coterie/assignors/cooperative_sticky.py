"""`cooperative-sticky`: the sticky assignment without partitions that another member owns
(KIP-429).

A partition that moves to another member is not assigned in this generation. Its owner revokes it
and rejoins; the next generation assigns it to the new owner [assignors/cooperative-sticky].
"""

from collections.abc import Sequence

from coterie.assignors.model import (
    Assignment,
    MemberSubscription,
    PartitionCounts,
    TopicPartition,
)
from coterie.assignors.sticky import assign_and_compare


def assign_cooperative_sticky(
    counts: PartitionCounts, members: Sequence[MemberSubscription]
) -> Assignment:
    """Assign one generation as Kafka's CooperativeStickyAssignor does."""
    result = assign_and_compare(counts, members)
    transferred = result.transferred
    if transferred is None:
        transferred = _transferred(members, result.assignment)
    for partition, member_id in transferred.items():
        result.assignment[member_id].remove(partition)
    return result.assignment


def _transferred(
    members: Sequence[MemberSubscription], assignment: Assignment
) -> dict[TopicPartition, str]:
    """Return the partitions that one member gets and another one owns, with the former."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member in members:
        given, owned = set(assignment[member.member_id]), set(member.owned)
        added.update((partition, member.member_id) for partition in given - owned)
        revoked |= owned - given
    return {partition: member_id for partition, member_id in added.items() if partition in revoked}
