"""The ends of topics' logs, which a lag needs and no group log contains [pipeline/log-ends].

Brokers are asked for log-end offsets (ListOffsets) from time to time. The answers become rows of
the table `log_ends`.
"""

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.offsets import LATEST, partition_offsets
from coterie.pipeline.codec.commits import KEY_TYPES as COMMIT_KEY_TYPES
from coterie.pipeline.part_files import read_files
from coterie.pipeline.tables import TABLES
from coterie.pipeline.transforms.commit_runs import MINUTE_US
from coterie.pipeline.transforms.lag import STALLED_MINUTES
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.log_records import (
    GROUP_RECORDS,
    OffsetCommitKey,
    decode_key,
    decode_value,
)
from coterie.protocol.messages.record_types import UnknownKey
from coterie.protocol.messages.share_group_records import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
)

_PLACE = ["input", "topic", "partition"]
# Which partitions have a share state.
_SHARE_STATES_TYPE = GROUP_RECORDS.type_of(ShareGroupStatePartitionMetadataKey(group_id="")).number

# How long before the present ends the earlier ones are: a stall needs two ends that show a lag.
EARLIER_MS = STALLED_MINUTES * MINUTE_US // 1000

Ends = Mapping[TopicPartition, int]


def log_ends(
    identity: str,
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    at_ms: int,
    *,
    with_earlier: bool = True,
) -> pa.RecordBatch:
    """Request where partitions end now, and where they ended some minutes ago.

    Args:
        identity: the name of the input.
        cluster: the cluster.
        partitions: topic and number.
        at_ms: the time now, epoch milliseconds.
        with_earlier: whether the earlier ends are not known from earlier requests.

    Returns:
        Rows of `log_ends`. Partitions that do not exist or have no leader are left out.

    Raises:
        ClientError: no broker answers.
    """
    wanted = sorted(set(partitions))
    missing: dict[TopicPartition, int] = {}
    found = partition_offsets(cluster, dict.fromkeys(wanted, LATEST), missing) if wanted else {}
    ends: dict[int, Ends] = {at_ms: found}
    if found and with_earlier:
        times = dict.fromkeys(found, at_ms - EARLIER_MS)
        ends[at_ms - EARLIER_MS] = earlier_ends(found, partition_offsets(cluster, times, missing))
    return log_end_rows(identity, ends)


def earlier_ends(ends: Ends, written_since: Ends) -> Ends:
    """Return the log ends of an earlier time.

    Args:
        ends: the ends now.
        written_since: the first offsets with a timestamp of that time or later, requested after the
            ends; negative where nothing was written since.
    """
    since = {place: offset for place, offset in written_since.items() if offset >= 0}
    return {place: min(end, since.get(place, end)) for place, end in ends.items()}


def log_end_rows(identity: str, ends: Mapping[int, Ends]) -> pa.RecordBatch:
    """Return log-end offsets as rows of `log_ends`. Negative offsets are left out.

    Args:
        identity: the name of the input.
        ends: by time, in epoch milliseconds, the offsets by topic and partition.
    """
    rows = [
        {
            "input": identity,
            "topic": topic,
            "partition": partition,
            "at_ts": at_ms * 1000,
            "log_end_offset": offset,
        }
        for at_ms, of_time in sorted(ends.items())
        for (topic, partition), offset in sorted(of_time.items())
        if offset >= 0
    ]
    return pa.RecordBatch.from_pylist(rows, TABLES["log_ends"].schema)


def committed_in(files: Iterable[str], identity: str) -> set[TopicPartition]:
    """Return the partitions that an input's groups have committed to, or share.

    Args:
        files: Parquet files of `log_records`.
        identity: the name of the input.
    """
    keys: set[bytes] = set()
    shared: set[TopicPartition] = set()
    for path in files:
        with pq.ParquetFile(path) as file:
            for rows in file.iter_batches(columns=["input", "key_type", "key", "value"]):
                own = rows.filter(pc.equal(rows.column("input"), identity))
                keys |= commit_keys(own)
                shared |= shared_partitions(own)
    return shared | {place for key in keys if (place := committed_partition(key)) is not None}


def commit_keys(rows: pa.RecordBatch) -> set[bytes]:
    """Return the different keys of commits among raw rows."""
    types = pa.array(COMMIT_KEY_TYPES, rows.column("key_type").type)
    keys = rows.column("key").filter(pc.is_in(rows.column("key_type"), types))
    return {key for key in pc.unique(keys).to_pylist() if key is not None}


def shared_partitions(rows: pa.RecordBatch) -> set[TopicPartition]:
    """Return the partitions of which share groups have a state, as raw rows say."""
    found: set[TopicPartition] = set()
    for row in rows.filter(pc.equal(rows.column("key_type"), _SHARE_STATES_TYPE)).to_pylist():
        try:
            key = decode_key(row["key"])
            assert not isinstance(key, UnknownKey), "selected by its record type"
            value = decode_value(key, row["value"])
        except MalformedFrame:
            continue
        if isinstance(value, ShareGroupStatePartitionMetadataValue):
            found |= {
                (topic.topic_name, number)
                for topic in value.initialized_topics
                for number in topic.partitions
            }
    return found


def committed_partition(key: bytes) -> TopicPartition | None:
    """Return the partition in a commit's key; None if the key cannot be decoded."""
    try:
        decoded = decode_key(key)
    except MalformedFrame:
        return None
    return (decoded.topic, decoded.partition) if isinstance(decoded, OffsetCommitKey) else None


def have_moved(ends: pa.RecordBatch, files: Iterable[str]) -> bool:
    """Return whether any of the newest of these log ends differs from the last known one.

    Args:
        ends: rows of `log_ends`.
        files: the Parquet files of that table so far.
    """
    known = read_files(files, TABLES["log_ends"].schema)
    return not _newest(pa.Table.from_batches([ends])) <= _newest(known)


def _newest(ends: pa.Table) -> set[tuple[str, str, int, int]]:
    """Return the newest log end of each partition of each input."""
    # "last" depends on the order of the rows, which several threads would not keep.
    by_partition = ends.sort_by("at_ts").group_by(_PLACE, use_threads=False)
    last = by_partition.aggregate([("log_end_offset", "last")])
    return _rows(last.select([*_PLACE, "log_end_offset_last"]).columns)


def _rows(columns: Iterable[pa.Array]) -> set[tuple[str, str, int, int]]:
    return set(zip(*(column.to_pylist() for column in columns), strict=True))
