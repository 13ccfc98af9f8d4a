"""When a group committed last, read from its partition of `__consumer_offsets`.

No request of the protocol returns the time of a commit, but each record of a commit has it, and
compaction keeps the newest record of every key. The last ten minutes of the group's partition are
read first, the rest only if a committed partition is missing. A commit in a transaction counts when
it is written, even if the transaction is aborted.
"""

import time
from collections.abc import Collection

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import ClientError
from coterie.client.offsets import EARLIEST, LATEST, partition_offsets
from coterie.client.records import fetch
from coterie.client.topics import describe_topics
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages.log_records import OffsetCommitKey, decode_key, decode_value
from coterie.protocol.records import Record
from coterie.protocol.topic_names import OFFSETS_TOPIC

# A group that is alive has committed within this time, so that little of the log has to be read.
_RECENT_MS = 10 * 60 * 1000
# A key begins with its type, which is followed by the length of the group id and the group id.
_TYPE_BYTES = 2


def commit_times(
    cluster: Cluster, group_id: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the time of the last commit in each partition that has one, in epoch milliseconds.

    The commits of a transaction count when they are written, even if it is aborted later.

    Args:
        cluster: the cluster.
        group_id: the group.
        partitions: the partitions with a committed offset.

    Raises:
        ClientError: the topic can't be read, in most cases for lack of authorization.
    """
    (topic,) = describe_topics(cluster, [OFFSETS_TOPIC])
    if topic.error or not topic.partitions:
        raise ClientError(
            f"The times of commits are in the topic {OFFSETS_TOPIC}, which the broker does not"
            " show.",
            "Reading them needs the permissions Describe and Read for this topic.",
        )
    log = OFFSETS_TOPIC, partition_for(group_id, len(topic.partitions))
    end = partition_offsets(cluster, {log: LATEST})[log]
    recent = partition_offsets(cluster, {log: int(time.time() * 1000) - _RECENT_MS})[log]
    recent = end if recent < 0 else recent
    times = _times(cluster, log, group_id, recent, end)
    if not times.keys() >= set(partitions):
        start = partition_offsets(cluster, {log: EARLIEST})[log]
        times = _times(cluster, log, group_id, start, recent) | times
    return {partition: at_ms for partition, at_ms in times.items() if partition in partitions}


def _times(
    cluster: Cluster, log: TopicPartition, group_id: str, start: int, end: int
) -> dict[TopicPartition, int]:
    """Return the time of the last commit in each partition, from the records of a range."""
    group = group_id.encode()
    wanted = len(group).to_bytes(2, "big") + group
    times: dict[TopicPartition, int] = {}
    offset = start
    while offset < end:
        found = fetch(cluster, log, offset)
        for record in found.records:
            # Most records are of other groups; only the beginning of their keys is read.
            if record.offset < end and (record.key or b"").startswith(wanted, _TYPE_BYTES):
                _note_commit(record, times)
        if found.next_offset <= offset:
            break
        offset = found.next_offset
    return times


def _note_commit(record: Record, times: dict[TopicPartition, int]) -> None:
    try:
        key = decode_key(record.key or b"")
        if not isinstance(key, OffsetCommitKey):
            return
        value = decode_value(key, record.value)
    except MalformedFrame as error:
        raise ClientError(
            f"The record at offset {record.offset} of {OFFSETS_TOPIC} is not that of a commit:"
            f" {error}."
        ) from error
    if value is None:
        times.pop((key.topic, key.partition), None)
    else:
        times[key.topic, key.partition] = value.commit_timestamp
