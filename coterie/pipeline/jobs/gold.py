"""From silver to gold: three steps of tasks, between which rows are brought together by group.

1. Files are read; commits and records are summed, and the records of groups are passed on.
2. The histories of each group are worked out, and its commits are summed by minute.
3. If partitions moved, or log ends were requested between commits, the commits are read once more
   for those that were the newest then. Then the rows of each group's tables are written, and the
   findings about it.
"""

from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.exchange import Outbox, RowExchange, exchange
from coterie.pipeline.findings.across import (
    ACROSS,
    ACROSS_SESSIONS,
    all_findings,
    end_of_records,
    finding_rows,
    unreadable_histories,
)
from coterie.pipeline.findings.finding import Finding
from coterie.pipeline.findings.of_group import findings_by_group
from coterie.pipeline.findings.retention import OFFSETS_RETENTION_MS
from coterie.pipeline.jobs import group_records
from coterie.pipeline.jobs import log_ends as ends_of
from coterie.pipeline.jobs.group_records import Labels
from coterie.pipeline.jobs.job import BUILD, Job
from coterie.pipeline.part_files import PartFiles, Share, read_files, read_share
from coterie.pipeline.part_files import shares as shares_of
from coterie.pipeline.tables import GOLD, TABLES
from coterie.pipeline.transforms import (
    commit_runs,
    departures,
    handovers,
    health,
    histories,
    segment_sums,
    shares,
)
from coterie.pipeline.transforms.decoding import LABEL_MARK
from coterie.pipeline.transforms.lag import lag_1m, sampled_moments
from coterie.pipeline.transforms.progress import (
    KEY,
    are_among,
    commit_minutes,
    with_handover,
    with_overlaps,
    without_spark_groups,
)
from coterie.pipeline.transforms.silver import with_rewrites

# The rows that a task processes at a time, about 50 MB. Numpy sorts smaller arrays faster for their
# size, but then more partial sums remain to be joined.
_BATCH_ROWS = 500_000

_COMMIT_COLUMNS = pa.schema(
    [TABLES["offset_commits"].schema.field(name) for name in commit_runs.COLUMNS]
)
_RECORD_COLUMNS = pa.schema(
    [TABLES["log_records"].schema.field(name) for name in segment_sums.COLUMNS]
)
_EVENT_COLUMNS = pa.schema(
    [TABLES["group_events"].schema.field(name) for name in ("fact", "at_ts")]
)
_LOADED = "partition_loaded"
# When a coordinator loaded a partition.
_LOADS = pa.schema([_EVENT_COLUMNS.field("at_ts")])
_READ = {
    "runs": commit_runs.RUNS,
    **histories.HISTORY_ROWS,
    "states": shares.STATES,
    "sums": segment_sums.SUMS,
    "damaged": health.DAMAGED,
    "loads": _LOADS,
    "active": commit_runs.ACTIVE,
}
_WORKED_OUT = {
    "minutes": commit_runs.MINUTES,
    **histories.HISTORY_TABLES,
    **shares.SHARE_TABLES,
    "departed": departures.DEPARTED,
    "sampled": handovers.MOMENTS,
}
# The tables of histories that need nothing of the commits any more, once exits are known.
_UNCHANGED = (
    "rebalances", "ownership", "member_sessions", "epoch_bumps", "epoch_handovers", "epoch_members",
    *shares.SHARE_NAMES,
)  # fmt: skip
_SOUGHT = {"newest": handovers.FOUND, "overlapping": _COMMIT_COLUMNS}

# The tables that `build_gold` writes.
BUILT = ("ownership", *(name for name, table in TABLES.items() if table.level == GOLD))


def build_gold(
    job: Job, *, log_ends: str | None = None, retention_ms: int = OFFSETS_RETENTION_MS
) -> None:
    """Build ownership and gold from silver.

    Args:
        job: the job, which may have written silver parts.
        log_ends, retention_ms: see `run`.
    """
    job.expect(len(BUILT))
    store = job.store
    rows = sum(store.rows(table) for table in group_records.READERS)
    buckets = job.engine.buckets(rows + store.rows("offset_commits") // 10)
    with job.writing(BUILD, BUILT) as output:
        read = _read(job, buckets)
        ends = ends_of.files_of(job, log_ends)
        worked_out, times = _work_out(job, read, ends)
        sought = _seek(job, worked_out)
        now_ms = end_of_records(times)
        gold = _Gold(read, worked_out, sought, ends, dict(job.labels), now_ms, retention_ms)
        directories = {table: output.directories[table] for table in BUILT}

        def write(bucket: int) -> tuple[list[str], _Written]:
            files = PartFiles(directories)
            rows = gold.write(bucket, files)
            return files.close(), rows

        written = job.engine.run(buckets, write)
        loads = read.rows("loads").column("at_ts").cast(pa.timestamp("ms", "UTC"))
        findings = all_findings(
            (each for _, rows in written for each in rows.findings),
            pa.concat_tables(rows.rebalances for _, rows in written),
            sorted(loads.cast(pa.int64()).to_pylist()),
            now_ms,
            pa.concat_tables(rows.sessions for _, rows in written),
            pc.unique(read.rows("active").column("at_ms")).to_pylist(),
        )
        files = PartFiles(directories)
        schema = TABLES["anomalies"].schema
        files.write("anomalies", pa.Table.from_pylist(finding_rows(findings), schema))
        output.finish([*(paths for paths, _ in written), files.close()])


def _read(job: Job, buckets: int) -> RowExchange:
    """Read the files, and pass on sums and the records of groups."""
    store, labels = job.store, job.labels
    tasks = [(table, task) for table in _READERS for task in shares_of(store.files(table))]

    def work(number: int, outbox: Outbox) -> None:
        table, task = tasks[number]
        _READERS[table](task, outbox, labels)

    return exchange(job.engine, job.scratch, _READ, buckets, len(tasks), work)[0]


def _read_commits(task: list[Share], outbox: Outbox, _: Labels) -> None:
    for rows in read_share(task, _COMMIT_COLUMNS, _BATCH_ROWS, commit_runs.NAMES):
        outbox.add("runs", commit_runs.commit_runs(rows))
        outbox.put("active", commit_runs.active_seconds(rows), 0)


def _read_records(task: list[Share], outbox: Outbox, _: Labels) -> None:
    for rows in read_share(task, _RECORD_COLUMNS, _BATCH_ROWS, segment_sums.NAMES):
        sums = pa.Table.from_batches([segment_sums.segment_sums(rows)])
        outbox.add("sums", sums, health.segment_codes(sums))


def _read_quarantine(task: list[Share], outbox: Outbox, _: Labels) -> None:
    for rows in read_share(task, health.QUARANTINE_COLUMNS, _BATCH_ROWS):
        damaged = health.damaged(rows)
        outbox.add("damaged", damaged, health.segment_codes(damaged))


def _read_events(task: list[Share], outbox: Outbox, _: Labels) -> None:
    for rows in read_share(task, _EVENT_COLUMNS, _BATCH_ROWS):
        loads = rows.filter(pc.equal(rows.column("fact"), _LOADED)).select(_LOADS.names)
        outbox.put("loads", pa.Table.from_batches([loads]), 0)


def _read_states(task: list[Share], outbox: Outbox, labels: Labels) -> None:
    for rows in read_share(task, shares.STATE_COLUMNS, _BATCH_ROWS):
        outbox.add("states", shares.states(rows, labels))


_READERS = group_records.READERS | {
    "share_state_records": _read_states,
    "offset_commits": _read_commits,
    "log_records": _read_records,
    "quarantine": _read_quarantine,
    "group_events": _read_events,
}


def _work_out(
    job: Job, read: RowExchange, log_ends: list[str]
) -> tuple[RowExchange, list[int | None]]:
    """Work out the histories and the minutes of each group, and return the newest times too."""
    names = group_records.topic_names(job.engine, job.store, job.topic_names)
    input_of = partial(_input_of, dict(job.labels))

    def work(bucket: int, outbox: Outbox) -> list[int | None]:
        shared = shares.share_rows(read.rows("states", bucket), read.rows("facts", bucket), names)
        starts = commit_runs.commit_runs(_whole(shared["start_offsets"]))
        minutes = commit_minutes(_with(read.rows("runs", bucket), starts))
        outbox.put("minutes", minutes, bucket)
        records = {kind: read.rows(kind, bucket) for kind in histories.HISTORY_ROWS}
        found = histories.history_rows(histories.records_by_group(records), names)
        for table in ("rebalances", "member_sessions"):
            found[table] = without_spark_groups(found[table])
        # Of a share group any member moves the start offset, so it says nothing of one.
        others = shares.without(found["member_sessions"], shares.share_groups(found["rebalances"]))
        found["departed"] = departures.departed(others, found["ownership"])
        found |= shared
        for kind, rows in found.items():
            outbox.put(kind, rows, bucket)
        ends = _ends(log_ends, minutes)
        outbox.put("sampled", sampled_moments(minutes, ends, input_of), bucket)
        return [
            _newest_ms(minutes.column("last_ts")),
            _newest_ms(found["rebalances"].column("completed_ts")),
            None
            if ends is None
            else _newest_ms(pc.floor_temporal(ends.column("at_ts"), 1, "minute")),
        ]

    count = read.buckets
    worked_out, times = exchange(job.engine, job.scratch, _WORKED_OUT, count, count, work)
    return worked_out, [time for some in times for time in some]


def _whole(rows: pa.Table) -> pa.RecordBatch:
    """Return a table as one batch."""
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema)


def _with(rows: pa.Table, more: pa.RecordBatch) -> pa.Table:
    return pa.concat_tables([rows, pa.Table.from_batches([more]).cast(rows.schema)])


def _newest_ms(times: pa.ChunkedArray) -> int | None:
    newest = pc.max(times).cast(pa.int64()).as_py()
    return None if newest is None else newest // 1000


def _ends(files: list[str], minutes: pa.Table) -> pa.Table | None:
    """Return the log ends of the topics in some minutes; None if log ends are not known."""
    if not files:
        return None
    ends = read_files(files, TABLES["log_ends"].schema)
    topics = pa.array(minutes.column("topic").unique().to_pylist(), pa.string())
    return ends.filter(pc.is_in(ends.column("topic"), topics))


def _seek(job: Job, worked_out: RowExchange) -> RowExchange:
    """Read the commits again for those at moves, and those of partitions whose runs overlap."""
    nothing = RowExchange(_SOUGHT, worked_out.buckets, [])
    moments = pa.concat_tables(
        worked_out.rows(kind, columns=handovers.MOMENTS.names)
        for kind in ("partition_moves", "departed", "sampled")
    )
    moments = moments.filter(moments.column("at_ts").is_valid())
    minutes = worked_out.rows("minutes", columns=[*KEY, "overlaps"])
    overlapping = minutes.filter(minutes.column("overlaps")).select(KEY)
    if not worked_out.count("minutes") or not (moments.num_rows or overlapping.num_rows):
        return nothing
    tasks = shares_of(job.store.files("offset_commits"))

    def work(number: int, outbox: Outbox) -> None:
        encoded = handovers.with_dictionaries(moments)
        for rows in read_share(tasks[number], _COMMIT_COLUMNS, _BATCH_ROWS, commit_runs.NAMES):
            if encoded.num_rows:
                outbox.add("newest", handovers.newest_commits(rows, encoded))
            if overlapping.num_rows:
                plain = pa.Table.from_batches([rows]).cast(_COMMIT_COLUMNS)
                outbox.add("overlapping", plain.filter(pa.array(are_among(plain, overlapping))))

    return exchange(job.engine, job.scratch, _SOUGHT, worked_out.buckets, len(tasks), work)[0]


class _Written(NamedTuple):
    """What findings across groups need of a bucket: its findings, rebalances and sessions."""

    findings: list[Finding]
    rebalances: pa.Table
    sessions: pa.Table


class _Gold(NamedTuple):
    """The rows from which a bucket's tables are made; it is sent to the workers.

    Attributes:
        read, worked_out, sought: of the steps before.
        log_ends: Parquet files of log ends; none if they are not known.
        labels: by input the label of its groups.
        now_ms: the end of all records.
        retention_ms: how long the brokers keep the offsets of a group without members.
    """

    read: RowExchange
    worked_out: RowExchange
    sought: RowExchange
    log_ends: list[str]
    labels: Labels
    now_ms: int
    retention_ms: int

    def write(self, bucket: int, files: PartFiles) -> _Written:
        """Write the tables of the groups and segments in a bucket."""
        found = {kind: self.worked_out.rows(kind, bucket) for kind in _WORKED_OUT}
        minutes = with_overlaps(found["minutes"], self.sought.rows("overlapping", bucket))
        moments = handovers.with_dictionaries(found["sampled"])
        starts = handovers.newest_commits(_whole(found["start_offsets"]), moments)
        newest = _with(self.sought.rows("newest", bucket), starts)
        moves = with_handover(found["partition_moves"], minutes, newest)
        input_of = partial(_input_of, self.labels)
        ends = _ends(self.log_ends, minutes)
        lag = lag_1m(minutes, ends, input_of, newest, found["completed"])
        found |= _with_exits(found, minutes, newest)
        sums, damaged = (self.read.rows(kind, bucket) for kind in ("sums", "damaged"))
        for table in _UNCHANGED:
            files.write(table, found[table])
        files.write("commit_velocity_1m", minutes)
        files.write("partition_moves", moves)
        files.write("lag_1m", lag)
        files.write("log_health", health.log_health(sums, damaged))
        tables = {table: found[table] for table in _UNCHANGED}
        generations = with_rewrites(self.read.rows("logged", bucket))
        tables |= {"group_generations": generations, "minutes": minutes, "lag_1m": lag}
        tables["expired_locks"] = shares.failed_deliveries(found["share_deliveries"])
        findings = [
            *unreadable_histories(found["unreadable"].to_pylist(), self.now_ms),
            *findings_by_group(tables, self.now_ms, self.retention_ms),
        ]
        sessions = found["member_sessions"].select(ACROSS_SESSIONS)
        return _Written(findings, found["rebalances"].select(ACROSS), sessions)


def _input_of(labels: Labels, group_id: str) -> str:
    """Return the input of a group; groups of every input but the first have its label."""
    own = [(label, source) for source, label in labels.items() if label]
    for label, source in own:
        if group_id.endswith(LABEL_MARK + label):
            return source
    return next((source for source, label in labels.items() if not label), "")


def _with_exits(
    found: dict[str, pa.Table], minutes: pa.Table, newest: pa.Table
) -> dict[str, pa.Table]:
    """Return sessions and rebalances with how members left [pipeline/departures]."""
    sessions = found["member_sessions"]
    exits = departures.exits(sessions, found["departed"], minutes, newest)
    return {
        "member_sessions": departures.with_exits(sessions, exits),
        "rebalances": departures.with_causes(found["rebalances"], exits),
    }
