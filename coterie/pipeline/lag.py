"""Where partitions end: the one thing that a lag needs and no group log has.

Log-end offsets are asked of the brokers (ListOffsets) for the partitions that groups have committed
to, now and then, and become rows of the table `log_ends`. A partition without one has an unknown
lag, which is null.

Asked about is every partition that a commit was ever read of: one whose group has stopped, while
others write to it, is the one that people look for.
"""

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.offsets import LATEST, partition_offsets
from coterie.pipeline.codec.commits import KEY_TYPES as COMMIT_KEY_TYPES
from coterie.pipeline.tables import TABLES
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.log_records import OffsetCommitKey, decode_key


def log_ends(cluster: Cluster, partitions: Iterable[TopicPartition], at_ms: int) -> pa.RecordBatch:
    """Where partitions end now; those that do not exist, or have no leader, are left out.

    Args:
        cluster: where they are.
        partitions: topic and number.
        at_ms: the time now, epoch milliseconds.

    Raises:
        ClientError: no broker answers.
    """
    wanted = sorted(set(partitions))
    missing: dict[TopicPartition, int] = {}
    found = partition_offsets(cluster, dict.fromkeys(wanted, LATEST), missing) if wanted else {}
    return log_end_rows(found, at_ms)


def log_end_rows(ends: Mapping[TopicPartition, int], at_ms: int) -> pa.RecordBatch:
    """Ends that somebody asked for, as rows; negative ones are none.

    Args:
        ends: by topic and partition.
        at_ms: when they were asked for, epoch milliseconds.
    """
    rows = [
        {"topic": topic, "partition": partition, "at_ts": at_ms * 1000, "log_end_offset": offset}
        for (topic, partition), offset in sorted(ends.items())
        if offset >= 0
    ]
    return pa.RecordBatch.from_pylist(rows, TABLES["log_ends"].schema)


def committed_in(files: Iterable[str], identity: str) -> set[TopicPartition]:
    """The partitions that an input's groups have committed to.

    Args:
        files: Parquet files of `log_records`.
        identity: what the input goes by.
    """
    keys: set[bytes] = set()
    for path in files:
        with pq.ParquetFile(path) as file:
            for rows in file.iter_batches(columns=["input", "key_type", "key"]):
                keys |= commit_keys(rows.filter(pc.equal(rows.column("input"), identity)))
    return {partition for key in keys if (partition := committed_partition(key)) is not None}


def commit_keys(rows: pa.RecordBatch) -> set[bytes]:
    """The different keys of commits among raw rows."""
    types = pa.array(COMMIT_KEY_TYPES, rows.column("key_type").type)
    keys = rows.column("key").filter(pc.is_in(rows.column("key_type"), types))
    return {key for key in pc.unique(keys).to_pylist() if key is not None}


def committed_partition(key: bytes) -> TopicPartition | None:
    """What a commit with this key is about; None where that can't be told."""
    try:
        decoded = decode_key(key)
    except MalformedFrame:
        return None
    return (decoded.topic, decoded.partition) if isinstance(decoded, OffsetCommitKey) else None


def have_moved(ends: pa.RecordBatch, files: Iterable[str]) -> bool:
    """Whether any of these ends is another one than was seen last.

    Args:
        ends: rows of `log_ends`.
        files: what there is of that table so far.
    """
    schema = TABLES["log_ends"].schema
    looks = [pq.ParquetFile(path).read(schema.names) for path in files]
    known = pa.concat_tables([schema.empty_table(), *looks]).sort_by("at_ts")
    # The last one by the order of the rows, which threads would not keep.
    by_partition = known.group_by(["topic", "partition"], use_threads=False)
    last = by_partition.aggregate([("log_end_offset", "last")])
    seen = _rows(last.select(["topic", "partition", "log_end_offset_last"]).columns)
    return (
        not _rows([ends.column(name) for name in ("topic", "partition", "log_end_offset")]) <= seen
    )


def _rows(columns: Iterable[pa.Array]) -> set[tuple[str, int, int]]:
    return set(zip(*(column.to_pylist() for column in columns), strict=True))
