"""Where partitions end: the one thing that a lag needs and no group log has.

Log-end offsets are asked of the brokers (ListOffsets) for the partitions that groups have committed
to, now and then, and become rows of the table `log_ends`. A partition without one has an unknown
lag, which is null.
"""

from collections.abc import Iterable

import pyarrow as pa

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.offsets import LATEST, partition_offsets
from coterie.pipeline.tables import TABLES


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
    rows = [
        {"topic": topic, "partition": partition, "at_ts": at_ms * 1000, "log_end_offset": offset}
        for (topic, partition), offset in sorted(found.items())
        if offset >= 0
    ]
    return pa.RecordBatch.from_pylist(rows, TABLES["log_ends"].schema)
