"""Where a group lives: hash(groupId) gives the `__consumer_offsets` partition whose leader
coordinates it (spec section 2).

The hash is Java's String.hashCode, so a group lands in the same partition as on a Kafka cluster
with the same number of partitions, and a data directory can move between the two.
"""

from functools import lru_cache

# Group ids whose hash is remembered: hashing costs 60 ns a character, a hit 50 ns, an entry about
# 150 bytes.
_REMEMBERED_GROUPS = 16_384


@lru_cache(maxsize=_REMEMBERED_GROUPS)
def java_hash(text: str) -> int:
    """Java's String.hashCode over UTF-16 code units, as a signed 32-bit integer."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(group_id: str, partitions: int) -> int:
    """The partition of `__consumer_offsets` that holds a group. Kafka defines abs(-2^31) as 0."""
    value = java_hash(group_id)
    return 0 if value == -(1 << 31) else abs(value) % partitions
