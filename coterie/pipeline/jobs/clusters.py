"""Copying what is new in clusters, once: the `kafka://` inputs of a run that does not follow.

What a cluster has now is copied to files beside the tables, and counts at once when all of it is
there; the run behind it works out the other tables. Where the topics end that groups have committed
to is asked at the same time: lag needs it.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coterie.client.cluster import TopicPartition
from coterie.pipeline.codec.commits import KEY_TYPES as COMMIT_KEY_TYPES
from coterie.pipeline.jobs.follow_wire import about_cluster, committed_partition, known_positions
from coterie.pipeline.jobs.live_store import LiveStore
from coterie.pipeline.kafka_input import KafkaLog, Spooled, spool
from coterie.pipeline.lag import log_ends

# Hidden, so that no reader of tables takes it for one; on the disk of the tables, so that files
# are renamed and not copied.
_SPOOL = ".spool-"


def copy_clusters(
    sources: Iterable[str], output: str, progress: Callable[[int], None] | None = None
) -> int:
    """Append what is new in clusters to the bronze tables; returns how many records that were.

    Args:
        sources: kafka://HOST:PORT each.
        output: the directory of the tables.
        progress: is told how many bytes of log each answer had.

    Raises:
        ClientError: a cluster can't be reached, refuses, or its log is shorter than it was.
        ValueError: a source is no address.
        StoreError: the output can't be used.
    """
    with LiveStore.open(output) as opened:
        store = cast("LiveStore", opened)
        for name in os.listdir(output):
            if name.startswith(_SPOOL):
                # Of a run that was killed.
                shutil.rmtree(os.path.join(output, name), ignore_errors=True)
        return sum(_copy(source, store, progress) for source in dict.fromkeys(sources))


def _copy(source: str, store: LiveStore, progress: Callable[[int], None] | None) -> int:
    began_s, number = time.monotonic(), store.next_run
    scratch = tempfile.mkdtemp(prefix=_SPOOL, dir=store.path)
    try:
        with KafkaLog(source) as log:
            about = about_cluster(store, log, source)
            spooled = spool(log, known_positions(store, log), scratch, progress)
            if not spooled.positions:
                return 0
            ends = log_ends(log.cluster, _committed(spooled), int(time.time() * 1000))
        directories = dict(spooled.directories)
        if ends.num_rows:
            directories["log_ends"] = store.write_rows("log_ends", [ends])
        for table in directories:
            os.makedirs(os.path.join(store.path, table), exist_ok=True)
        report = {
            "run": number,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - began_s, 3),
            "input_bytes": spooled.size_bytes,
            "tables": {},
            "copied": {"input": log.identity, "rows": spooled.rows},
        }
        store.append(directories, {log.identity: spooled.positions}, report, {log.identity: about})
        return spooled.rows
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _committed(spooled: Spooled) -> set[TopicPartition]:
    """The partitions that the copied commits are about."""
    directory = spooled.directories.get("log_records")
    found: set[TopicPartition] = set()
    for name in () if directory is None else os.listdir(directory):
        with pq.ParquetFile(os.path.join(directory or "", name)) as file:
            for batch in file.iter_batches(columns=["key_type", "key"]):
                types = pa.array(COMMIT_KEY_TYPES, batch.column("key_type").type)
                keys = batch.column("key").filter(pc.is_in(batch.column("key_type"), types))
                found.update(
                    partition
                    for key in pc.unique(keys).to_pylist()
                    if key is not None and (partition := committed_partition(key)) is not None
                )
    return found
