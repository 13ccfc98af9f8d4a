"""Select the partitions of a log that can contain what `group` and `logPartitions` ask for.

These are options of the format, which belong to one `load()`, and streams have them too. They are
not filters that Spark pushes down: Spark 4.3.0 keeps filters that `pushFilters` accepted for the
next query over the same `load()`, which then returns wrong rows.

The partition of a group depends on the number of partitions, which a data directory does not store.
"""

from collections.abc import Collection

from coterie.pipeline.ranges import LogRange, read_range
from coterie.pipeline.records.commits import KEY_TYPES as COMMIT_KEY_TYPES
from coterie.pipeline.records.epochs import KINDS
from coterie.pipeline.records.groups import KEY_TYPE as GROUP_KEY_TYPE
from coterie.protocol.java_hash import partition_for

# The part of each partition in which groups are sampled: a few hundred records.
_SAMPLE_BYTES = 64 << 10
# The record types whose keys start with a group id [group-log/record-types].
_GROUP_KEY_TYPES = frozenset((*COMMIT_KEY_TYPES, GROUP_KEY_TYPE, *KINDS))
_KEY_PREFIX_BYTES = 4


def pruned(
    partitions: dict[int, str],
    log_partitions: frozenset[int] | None,
    group: str | None,
    count: int | None,
) -> dict[int, str]:
    """Return the partitions that must be read.

    Args:
        partitions: directories by partition number.
        log_partitions: the partitions to read; None for all.
        group: the group to read; None for all.
        count: the number of partitions of the topic, if the caller knows it.
    """
    left = partitions
    if log_partitions is not None:
        left = {number: path for number, path in left.items() if number in log_partitions}
    if group is not None:
        count = count or _partition_count(partitions)
        if count is not None:
            home = partition_for(group, count)
            left = {number: path for number, path in left.items() if number == home}
    return left


def _partition_count(partitions: dict[int, str]) -> int | None:
    """Return the number of partitions if the directories confirm it, otherwise None."""
    count = len(partitions)
    if set(partitions) != set(range(count)):
        return None
    for number, directory in partitions.items():
        if any(partition_for(group, count) != number for group in _some_groups(directory, number)):
            return None
    return count


def _some_groups(directory: str, log_partition: int) -> Collection[str]:
    """Return the groups in the first records of a partition."""
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
