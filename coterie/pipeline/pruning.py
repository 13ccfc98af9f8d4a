"""Which partitions of a log can hold what is asked for by the options `group`, `logPartitions`.

They are options and not filters that Spark pushes down, because in Spark 4.3.0 a reader that takes
filters keeps them for the next query over the same `load()`: a union of two filtered halves has one
of them twice and loses the other (seen here). Options belong to one `load()`, and streams have them
too.

A group lives in the partition that Java's hash of its id names (coordinator/placement.py), which
takes the number of partitions of the topic. A data directory does not say that number: a broker of
a cluster holds some partitions only. So it is believed if the directories are 0 to n-1 without a
gap and the groups found in them are where n says; otherwise every partition is read.
"""

from collections.abc import Collection

from coterie.coordinator.placement import partition_for
from coterie.pipeline.ranges import LogRange, read_range

# What is looked at of each partition for groups: some hundred records.
_SAMPLE_BYTES = 64 << 10
# Every record type from the first to the last starts its key with a group's id (spec 14.1).
_GROUP_KEY_TYPES = frozenset((0, 1, 2, 3, 4, 5, 6, 7, 8, 16))
_KEY_PREFIX_BYTES = 4


def pruned(
    partitions: dict[int, str],
    log_partitions: frozenset[int] | None,
    group: str | None,
    count: int | None,
) -> dict[int, str]:
    """The partitions that can hold what is wanted.

    Args:
        partitions: directories by partition number.
        log_partitions: the only ones that are wanted; None for all.
        group: the only group that is wanted; None for all.
        count: the number of partitions of the topic, where the caller knows it.
    """
    left = partitions
    if log_partitions is not None:
        left = {number: path for number, path in left.items() if number in log_partitions}
    if group is not None:
        count = count or _believable_count(partitions)
        if count is not None:
            home = partition_for(group, count)
            left = {number: path for number, path in left.items() if number == home}
    return left


def _believable_count(partitions: dict[int, str]) -> int | None:
    count = len(partitions)
    if set(partitions) != set(range(count)):
        return None
    for number, directory in partitions.items():
        if any(partition_for(group, count) != number for group in _some_groups(directory, number)):
            return None
    return count


def _some_groups(directory: str, log_partition: int) -> Collection[str]:
    """Groups among the first records of a partition."""
    groups: set[str] = set()
    log_range = LogRange(directory, log_partition, 0)
    step = next(read_range(log_range, "raw", chunk_bytes=_SAMPLE_BYTES), None)
    if step is None:
        return groups
    keys = step.rows.column("key").to_pylist()
    for key, key_type in zip(keys, step.rows.column("key_type").to_pylist(), strict=True):
        if key_type in _GROUP_KEY_TYPES:
            end = _KEY_PREFIX_BYTES + int.from_bytes(key[2:_KEY_PREFIX_BYTES])
            groups.add(key[_KEY_PREFIX_BYTES:end].decode(errors="replace"))
    return groups
