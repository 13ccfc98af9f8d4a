"""From bronze to silver: decode what the last runs have copied."""

from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.pipeline.engine import Engine
from coterie.pipeline.exchange import Outbox, exchange
from coterie.pipeline.jobs.job import BUILD, Job
from coterie.pipeline.part_files import PartFiles, Share, read_share, shares
from coterie.pipeline.schemas import GROUPS
from coterie.pipeline.tables import TABLES
from coterie.pipeline.transforms import silver
from coterie.pipeline.transforms.decoding import events_of, view_of
from coterie.pipeline.transforms.transactions import MARKER_COLUMNS, Transactions, markers
from coterie.protocol.record_batch_layout import CONTROL

# The rows that are decoded at a time: enough for numpy, and few enough for the processor's cache.
_DECODED_ROWS = 1 << 16
_SCANNED_ROWS = 1 << 19
_LOGGED = "logged"


class _Task(NamedTuple):
    """Some row groups of one table; `is_old` if an earlier run has decoded them."""

    table: str
    shares: list[Share]
    is_old: bool = False


def decode(job: Job, *, rebuild: bool = False) -> bool:
    """Decode what is new in bronze to silver, and return whether anything was new.

    Args:
        job: the job, which may have written bronze parts.
        rebuild: whether to treat all of bronze as new.
    """
    store = job.store
    logs = store.parts("log_records", newer_than=None if rebuild else "offset_commits")
    journals = store.parts("journal_records", newer_than=None if rebuild else "group_events")
    states = store.parts("share_state_records", newer_than=None if rebuild else "share_states")
    if not logs and not journals and not states:
        return False
    new = store.files("log_records", logs)
    tasks = [_Task("log_records", each) for each in shares(new)]
    for table, parts in (("journal_records", journals), ("share_state_records", states)):
        tasks += [_Task(table, each) for each in shares(store.files(table, parts))]
    transactions = None
    if _may_have_markers(new):
        # A marker can end a transaction whose commits an earlier run has read.
        others = [part for part in store.parts("log_records") if part not in logs]
        older = store.files("log_records", others)
        found = _markers(job.engine, new)
        if any(each.num_rows for each in found):
            transactions = Transactions(_markers(job.engine, older), found)
            tasks += [_Task("log_records", each, is_old=True) for each in shares(older)]
    tables = ["offset_commits", "consumer_epochs"] if logs else []
    tables += ["group_events"] if journals else []
    tables += ["share_states"] if states else []
    with job.writing(BUILD, tables, replace=rebuild) as output:
        known = [] if rebuild or not logs else shares(store.files("group_generations"))
        tasks += [_Task("group_generations", each) for each in known]
        labels = job.labels

        def work(number: int, outbox: Outbox) -> list[str]:
            files = PartFiles(output.directories)
            _decode(tasks[number], labels, transactions, files, outbox)
            return files.close()

        buckets = job.engine.buckets(store.rows("group_generations"))
        exchanged, finished = exchange(
            job.engine, job.scratch, {_LOGGED: GROUPS}, buckets, len(tasks), work
        )
        output.finish(finished)
    if logs:

        def join(number: int, files: PartFiles) -> None:
            rows = exchanged.rows(_LOGGED, number)
            files.write("group_generations", silver.with_rewrites(rows))

        job.write_files(BUILD, ["group_generations"], buckets, join)
    return True


def _decode(
    task: _Task,
    labels: silver.Labels,
    transactions: Transactions | None,
    files: PartFiles,
    outbox: Outbox,
) -> None:
    if task.table == "group_generations":
        for rows in read_share(task.shares, GROUPS, _DECODED_ROWS):
            outbox.add(_LOGGED, rows)
        return
    for rows in read_share(task.shares, TABLES[task.table].schema, _DECODED_ROWS):
        if task.table == "journal_records":
            for events in events_of(labels)([rows]):
                files.write("group_events", events)
            continue
        if task.table == "share_state_records":
            for states in view_of("share_states", labels)([rows]):
                files.write("share_states", states)
            continue
        for commits in silver.offset_commits(rows, labels, transactions, is_old=task.is_old):
            files.write("offset_commits", commits)
        if not task.is_old:
            for epochs in silver.consumer_epochs(rows, labels):
                files.write("consumer_epochs", epochs)
            for logged in silver.groups(rows, labels):
                outbox.add(_LOGGED, logged)


def _may_have_markers(files: list[str]) -> bool:
    """Return whether the statistics of the files allow batches with control records."""
    for path in files:
        metadata = pq.read_metadata(path)
        column = metadata.schema.names.index("attributes")
        for number in range(metadata.num_row_groups):
            statistics = metadata.row_group(number).column(column).statistics
            if statistics is None or (statistics.has_min_max and statistics.max >= CONTROL):
                return True
    return False


def _markers(engine: Engine, files: list[str]) -> list[pa.RecordBatch]:
    tasks = shares(files)

    def work(number: int) -> list[pa.RecordBatch]:
        batches = read_share(tasks[number], MARKER_COLUMNS, _SCANNED_ROWS)
        return [found for rows in batches if (found := markers(rows)).num_rows]

    return [each for found in engine.run(len(tasks), work) for each in found]
