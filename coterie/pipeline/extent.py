"""How much there is to work on, as far as that can be told before Spark is started."""

import os
from collections.abc import Iterable

from coterie.pipeline.jobs.inputs import TOPICS
from coterie.pipeline.segments import NoSuchLog, find_partitions, list_segments
from coterie.pipeline.store import Store, StoreError
from coterie.pipeline.tables import TABLES

# About 700,000 commits, as records and as tables. Below it Spark's start and the compiling of its
# code take longer than the work; at ten times as much the compiled code wins.
_LITTLE_LOG_BYTES = 64 << 20
_LITTLE_TABLE_BYTES = 16 << 20


def is_little(output: str, inputs: Iterable[str] = ()) -> bool:
    """Whether there is so little that Spark had better start fast than compile well.

    Args:
        output: a directory of tables, which may not be there yet.
        inputs: data directories to read; of anything else the size is not known, and may be large.
    """
    inputs = list(inputs)
    if not all(os.path.isdir(each) for each in inputs):
        return False
    if sum(map(_log_bytes, inputs)) > _LITTLE_LOG_BYTES:
        return False
    try:
        store = Store.reading(output)
    except StoreError:
        return True
    files = (file for table in TABLES for file in store.files(table))
    return sum(map(os.path.getsize, files)) <= _LITTLE_TABLE_BYTES


def _log_bytes(path: str) -> int:
    """The size of a data directory's logs of groups."""
    total = 0
    for topic in TOPICS:
        try:
            partitions = find_partitions(path, topic)
        except NoSuchLog:
            continue
        total += sum(each.size_bytes for log in partitions.values() for each in list_segments(log))
    return total
