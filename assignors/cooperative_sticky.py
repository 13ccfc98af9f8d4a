"""`cooperative-sticky`: the sticky assignment without what its owner must first give up (KIP-429).

A partition that goes from one member to another is given to nobody in this generation; the member
that loses it rejoins, and the next generation gives it to its new owner.
"""

from collections.abc import Sequence

from coterie.assignors.model import (
    Assignment,
    MemberSubscription,
    PartitionCounts,
    TopicPartition,
)
from coterie.assignors.sticky import stick


def assign_cooperative_sticky(
    counts: PartitionCounts, members: Sequence[MemberSubscription]
) -> Assignment:
    """Kafka's CooperativeStickyAssignor: one generation of it; the next one completes it."""
    result = stick(counts, members)
    transferred = result.transferred
    if transferred is None:
        transferred = _transferred(members, result.assignment)
    for partition, member_id in transferred.items():
        result.assignment[member_id].remove(partition)
    return result.assignment


def _transferred(
    members: Sequence[MemberSubscription], assignment: Assignment
) -> dict[TopicPartition, str]:
    """What one member is given and another one has."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member in members:
        given, owned = set(assignment[member.member_id]), set(member.owned)
        added.update((partition, member.member_id) for partition in given - owned)
        revoked |= owned - given
    return {partition: member_id for partition, member_id in added.items() if partition in revoked}
