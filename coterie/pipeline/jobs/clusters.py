"""Copying what is new in clusters, once: the `kafka://` inputs of a run that does not follow.

What a cluster has now is copied to files beside the tables, and counts at once when all of it is
there; the run behind it works out the other tables. Where the topics end that groups have ever
committed to is asked at the same time: lag needs it, most of all where no commits come any more.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

import pyarrow.parquet as pq

from coterie.pipeline.jobs.follow_wire import about_cluster, known_positions
from coterie.pipeline.jobs.live_store import LiveStore
from coterie.pipeline.kafka_input import TABLE_OF, CopyProgress, KafkaLog, spool
from coterie.pipeline.lag import committed_in, have_moved, log_ends

# Hidden, so that no reader of tables takes it for one; on the disk of the tables, so that files
# are renamed and not copied.
_SPOOL = ".spool-"


class Copied(NamedTuple):
    """What was copied of one cluster.

    Attributes:
        tables: by table the `rows` and `bytes` of its new part.
        size_bytes: of log; 0 where that is not known.
        seconds: it took.
    """

    tables: dict[str, dict[str, int]]
    size_bytes: int
    seconds: float

    @property
    def rows(self) -> int:
        """How many records."""
        return sum(
            self.tables[table]["rows"] for table in TABLE_OF.values() if table in self.tables
        )


def copy_clusters(
    sources: Iterable[str],
    output: str,
    progress: CopyProgress | None = None,
    *,
    crc: bool = True,
) -> list[Copied]:
    """Append what is new in clusters to the bronze tables; tells it of those that have anything.

    Args:
        sources: kafka://HOST:PORT each.
        output: the directory of the tables.
        progress: is told how far a cluster has been copied.
        crc: whether to check checksums.

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
        every = [_copy(source, store, progress, crc=crc) for source in dict.fromkeys(sources)]
    return [each for each in every if each is not None]


def _copy(
    source: str, store: LiveStore, progress: CopyProgress | None, *, crc: bool
) -> Copied | None:
    began_s = time.monotonic()
    scratch = tempfile.mkdtemp(prefix=_SPOOL, dir=store.path)
    try:
        with KafkaLog(source, crc=crc) as log:
            about = about_cluster(store, log.identity, log.partitions, source)
            spooled = spool(log, known_positions(store, log), scratch, progress)
            files = store.files("log_records") + parquet_files(spooled.directories)
            committed = committed_in(files, log.identity)
            ends = log_ends(log.cluster, committed, int(time.time() * 1000))
            if not spooled.positions and not have_moved(ends, store.files("log_ends")):
                return None
        directories = dict(spooled.directories)
        if ends.num_rows:
            directories["log_ends"] = store.write_rows("log_ends", [ends])
        for table in directories:
            os.makedirs(os.path.join(store.path, table), exist_ok=True)
        copied = copied_of(directories, spooled.size_bytes, began_s)
        report = report_of(copied, store.next_run, log.identity)
        store.append(directories, {log.identity: spooled.positions}, report, {log.identity: about})
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return copied


def copied_of(directories: Mapping[str, str], size_bytes: int, began_s: float) -> Copied:
    """What a copy has written.

    Args:
        directories: by table.
        size_bytes: of log.
        began_s: when the copy began, by the clock of `time.monotonic`.
    """
    tables = {}
    for table in directories:
        files = parquet_files(directories, table)
        rows = sum(pq.read_metadata(path).num_rows for path in files)
        tables[table] = {"rows": rows, "bytes": sum(os.path.getsize(path) for path in files)}
    return Copied(tables, size_bytes, time.monotonic() - began_s)


def report_of(copied: Copied, run: int, identity: str) -> dict[str, Any]:
    """A copy as the manifest tells a run.

    Args:
        copied: what it wrote.
        run: its number.
        identity: what the input goes by.
    """
    return {
        "run": run,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(copied.seconds, 3),
        "input_bytes": copied.size_bytes,
        "tables": copied.tables,
        "copied": {"input": identity, "rows": copied.rows},
    }


def parquet_files(directories: Mapping[str, str], table: str = "log_records") -> list[str]:
    """The Parquet files of a table among some that do not count yet; none where it is not there.

    Args:
        directories: by table.
        table: which.
    """
    directory = directories.get(table)
    # Spark writes others beside them.
    names = [] if directory is None else os.listdir(directory)
    return [
        os.path.join(directory or "", each)
        for each in sorted(names)
        if each.endswith(".parquet") and not each.startswith(".")
    ]
