"""Where a group lives: hash(groupId) names the `__consumer_offsets` partition whose leader
coordinates it (spec section 2).

The hash is Java's String.hashCode, so a group lands in the same partition as on a Kafka cluster
with the same number of partitions, and a data directory can move between the two.
"""

from coterie.protocol.java_hash import java_hash


def partition_for(group_id: str, partitions: int) -> int:
    """The partition of `__consumer_offsets` that holds a group. Kafka defines abs(-2^31) as 0."""
    value = java_hash(group_id)
    return 0 if value == -(1 << 31) else abs(value) % partitions
