"""Copy what is new in clusters once: the `kafka://` inputs of a run that does not follow.

Everything that a cluster has now is copied to files beside the tables and committed in one step.
The run then builds the other tables. The ends of topics' logs are requested at the same time
[pipeline/log-ends].
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

import pyarrow.parquet as pq

from coterie.client.security import PLAINTEXT, Security
from coterie.pipeline.jobs.follow_wire import about_cluster, known_positions
from coterie.pipeline.jobs.live_store import LiveStore
from coterie.pipeline.kafka_input import TABLE_OF, CopyProgress, KafkaLog, spool
from coterie.pipeline.lag import committed_in, have_moved, log_ends

# Hidden, so that no reader takes it for a table, and on the disk of the tables, so that files are
# renamed instead of copied.
_SPOOL = ".spool-"


class Copied(NamedTuple):
    """The result of copying one cluster.

    Attributes:
        tables: by table the `rows` and `bytes` of its new part.
        size_bytes: the size of the log; 0 if it is unknown.
        seconds: the duration.
    """

    tables: dict[str, dict[str, int]]
    size_bytes: int
    seconds: float

    @property
    def rows(self) -> int:
        """The number of records."""
        return sum(
            self.tables[table]["rows"] for table in TABLE_OF.values() if table in self.tables
        )


def copy_clusters(
    sources: Iterable[str],
    output: str,
    progress: CopyProgress | None = None,
    *,
    crc: bool = True,
    security: Security = PLAINTEXT,
) -> list[Copied]:
    """Append what is new in clusters to the bronze tables.

    Args:
        sources: kafka://HOST:PORT each.
        output: the directory of the tables.
        progress: is called with the progress.
        crc: whether to check checksums.
        security: how connections to the clusters are secured.

    Returns:
        The results for the clusters with anything new.

    Raises:
        ClientError: a cluster cannot be reached, refuses a request, or has a shorter log than
            before.
        ValueError: a source is not an address.
        StoreError: the output directory cannot be used.
    """
    with LiveStore.open(output) as opened:
        store = cast("LiveStore", opened)
        for name in os.listdir(output):
            if name.startswith(_SPOOL):
                # A killed run left it.
                shutil.rmtree(os.path.join(output, name), ignore_errors=True)
        every = [
            _copy(source, store, progress, crc=crc, security=security)
            for source in dict.fromkeys(sources)
        ]
    return [each for each in every if each is not None]


def _copy(
    source: str,
    store: LiveStore,
    progress: CopyProgress | None,
    *,
    crc: bool,
    security: Security,
) -> Copied | None:
    began_s = time.monotonic()
    scratch = tempfile.mkdtemp(prefix=_SPOOL, dir=store.path)
    try:
        with KafkaLog(source, crc=crc, security=security) as log:
            about = about_cluster(store, log.identity, log.partitions, source)
            spooled = spool(log, known_positions(store, log), scratch, progress)
            files = store.files("log_records") + parquet_files(spooled.directories)
            committed = committed_in(files, log.identity)
            ends = log_ends(log.identity, log.cluster, committed, int(time.time() * 1000))
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
    """Return the result of a copy.

    Args:
        directories: the directories that it wrote, by table.
        size_bytes: the size of the log.
        began_s: when the copy began, by `time.monotonic`.
    """
    tables = {}
    for table in directories:
        files = parquet_files(directories, table)
        rows = sum(pq.read_metadata(path).num_rows for path in files)
        tables[table] = {"rows": rows, "bytes": sum(os.path.getsize(path) for path in files)}
    return Copied(tables, size_bytes, time.monotonic() - began_s)


def report_of(copied: Copied, run: int, identity: str) -> dict[str, Any]:
    """Return a copy as an entry of `runs` in the manifest.

    Args:
        copied: its result.
        run: its number.
        identity: the name of the input.
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
    """Return the Parquet files of a table that are not committed yet.

    Args:
        directories: the directories by table; a table without one has no files.
        table: the table.
    """
    directory = directories.get(table)
    # Spark writes other files beside them.
    names = [] if directory is None else os.listdir(directory)
    return [
        os.path.join(directory or "", each)
        for each in sorted(names)
        if each.endswith(".parquet") and not each.startswith(".")
    ]
