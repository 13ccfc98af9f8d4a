"""The amount of data to process, which decides between the engines before one is started."""

import os
from collections.abc import Iterable

from coterie.pipeline.errors import StoreError
from coterie.pipeline.jobs.inputs import TOPICS
from coterie.pipeline.segments import NoSuchLog, find_partitions, list_segments
from coterie.pipeline.store import Store
from coterie.pipeline.tables import TABLES

# About 700,000 commits, as records and as tables. One core processes them in the time that Spark
# needs to start and to run its first tasks; for more, all cores pay off [pipeline/engines].
LOCAL_LOG_BYTES = 64 << 20
LOCAL_TABLE_BYTES = 16 << 20


def is_little(output: str, inputs: Iterable[str] = ()) -> bool:
    """Return whether there is so little data that this process alone is faster than Spark.

    Args:
        output: a directory of tables, which may not exist yet.
        inputs: data directories to read. The size of any other input is unknown and may be large.
    """
    inputs = list(inputs)
    if not all(os.path.isdir(each) for each in inputs):
        return False
    if sum(map(_log_bytes, inputs)) > LOCAL_LOG_BYTES:
        return False
    try:
        store = Store.reading(output)
    except StoreError:
        return True
    files = (file for table in TABLES for file in store.files(table))
    return sum(map(os.path.getsize, files)) <= LOCAL_TABLE_BYTES


def _log_bytes(path: str) -> int:
    """Return the size of the group log and the journal in a data directory."""
    total = 0
    for topic in TOPICS:
        try:
            partitions = find_partitions(path, topic)
        except NoSuchLog:
            continue
        total += sum(each.size_bytes for log in partitions.values() for each in list_segments(log))
    return total
