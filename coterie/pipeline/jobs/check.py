"""Check tables and logs against rules that a coordinator keeps whatever its clients do.

An error is a violated rule. A warning is a possible violation that the records neither prove nor
rule out [pipeline/checks].
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.check_rules import (
    ERROR,
    GENERATION_FACTS,
    WARNING,
    Finding,
    Generation,
    check_group,
    logged_generation,
    moves_add_up,
    recorded_generation,
)
from coterie.pipeline.codec.commits import KEY_TYPES as COMMIT_KEY_TYPES
from coterie.pipeline.engine import Engine
from coterie.pipeline.epoch_rules import check_epochs
from coterie.pipeline.exchange import Outbox, RowExchange, exchange, text_codes
from coterie.pipeline.findings.commits import without_owner
from coterie.pipeline.options import MAX_SPLIT_BYTES
from coterie.pipeline.part_files import Share, read_share, shares
from coterie.pipeline.ranges import LogRange, log_end, plan_ranges, read_range
from coterie.pipeline.records.epochs import KINDS
from coterie.pipeline.records.groups import KEY_TYPE as GROUP_KEY_TYPE
from coterie.pipeline.segments import NoSuchLog, find_partitions
from coterie.pipeline.store import Store
from coterie.pipeline.tables import TABLES
from coterie.pipeline.transforms.histories import by_group
from coterie.pipeline.transforms.transactions import has_attribute
from coterie.pipeline.transforms.unowned import UNOWNED
from coterie.protocol.java_hash import partition_for
from coterie.protocol.record_batch_layout import CONTROL, TRANSACTIONAL
from coterie.protocol.topic_names import OFFSETS_TOPIC

# The findings of one rule that are reported. Thousands of them usually have one reason.
MAX_FINDINGS = 50
# Kafka's default of delete.retention.ms. Compaction keeps the tombstone of a deleted key this long.
DELETE_RETENTION_MS = 24 * 3600 * 1000

_BATCH_ROWS = 1 << 18
_GROUP_KEY_TYPES = (*COMMIT_KEY_TYPES, GROUP_KEY_TYPE, *KINDS)
_KEY_PREFIX_BYTES = 4


def _columns(table: str, *names: str) -> pa.Schema:
    return pa.schema([TABLES[table].schema.field(name) for name in names])


_COLUMNS = {
    "group_generations": _columns(
        "group_generations",
        "group_id", "log_offset", "generation", "is_tombstone", "is_rewrite", "members",
    ),
    "group_events": _columns(
        "group_events", "group_id", "log_offset", "generation", "fact", "detail"
    ),
    "consumer_epochs": _columns(
        "consumer_epochs",
        "group_id", "log_offset", "record_type", "kind", "is_tombstone", "group_epoch",
        "target_epoch", "member_id", "member_epoch", "assigned", "pending_revocation",
        "assigned_tasks", "pending_tasks",
    ),
    "offset_commits": _columns(
        "offset_commits", "group_id", "topic", "partition", "record_ts", "is_tombstone"
    ),
    "ownership": _columns(
        "ownership", "group_id", "topic", "partition", "from_ts", "to_ts", "role", "reads"
    ),
    "rebalances": _columns(
        "rebalances", "group_id", "to_generation", "moved", "moved_min", "excess_moved"
    ),
    "log_records": _columns(
        "log_records", "input", "log_partition", "log_offset", "attributes", "key_type", "key",
        "value",
    ),
}  # fmt: skip
_KEYS = pa.schema(
    [
        ("input", pa.string()),
        ("log_partition", pa.int32()),
        ("key", pa.binary()),
        ("log_offset", pa.int64()),
        ("is_deleted", pa.bool_()),
    ]
)
# The rows that are brought together: by group, and the last records that were and are in the logs.
_KINDS = {
    "group_generations": _COLUMNS["group_generations"],
    "group_events": _COLUMNS["group_events"],
    "consumer_epochs": _COLUMNS["consumer_epochs"],
    "offset_commits": UNOWNED,
    "ownership": _COLUMNS["ownership"],
    "rebalances": _COLUMNS["rebalances"],
    "was": _KEYS,
    "is": _KEYS,
}


class _Task(NamedTuple):
    """Row groups of a table, or a range of a log of an input."""

    table: str = ""
    shares: tuple[Share, ...] = ()
    input: str = ""
    log_range: LogRange | None = None


# A group's records in a partition of the group log: input, partition, group.
Home = tuple[str, int, str]


def check(
    engine: Engine, store: Store, *, delete_retention_ms: int = DELETE_RETENTION_MS
) -> list[Finding]:
    """Check all rules.

    Args:
        engine: runs the tasks.
        store: the output of a run.
        delete_retention_ms: how long the brokers keep tombstones.

    Returns:
        The findings by rule; none if all rules hold.
    """
    logs = {source: _logs_of(store, source) for source in store.inputs}
    tasks = [
        _Task(table, tuple(share)) for table in _COLUMNS for share in shares(store.files(table))
    ]
    tasks += [
        _Task(input=source, log_range=each)
        for source, directories in logs.items()
        for number, directory in directories.items()
        for each in plan_ranges(directory, number, MAX_SPLIT_BYTES)
    ]
    buckets = engine.buckets(store.rows("offset_commits") + store.rows("log_records"))
    age_ms = _age_ms(store)
    is_proven = age_ms is not None and age_ms < delete_retention_ms

    def read(number: int, outbox: Outbox) -> set[Home]:
        return _read(tasks[number], outbox, logs)

    with store.reading_scratch(is_shared=engine.name != "local") as scratch:
        exchanged, homes = exchange(engine, scratch, _KINDS, buckets, len(tasks), read)

        def check_bucket(bucket: int) -> list[Finding]:
            return [
                *_check_groups(exchanged, bucket),
                *moves_add_up(exchanged.rows("rebalances", bucket).to_pylist()),
                *_unowned_commits(exchanged, bucket),
                *_lost_keys(exchanged, bucket, logs, is_proven=is_proven),
            ]

        found = [each for some in engine.run(buckets, check_bucket) for each in some]
    found += _misplaced(store, set().union(*homes))
    for source, directories in logs.items():
        found += _lost_ends(store, source, directories)
    return _some_of_each_rule(found)


def _some_of_each_rule(found: Iterable[Finding]) -> list[Finding]:
    by_rule: dict[str, list[Finding]] = {}
    for each in sorted(found):
        by_rule.setdefault(each.rule, []).append(each)
    return [each for some in by_rule.values() for each in some[:MAX_FINDINGS]]


def _read(task: _Task, outbox: Outbox, logs: Mapping[str, Mapping[int, str]]) -> set[Home]:
    """Pass the rows of a task on, and return the homes of groups among them."""
    homes: set[Home] = set()
    if task.log_range is not None:
        for step in read_range(task.log_range, "raw"):
            table = pa.Table.from_batches([step.rows])
            _add_keys(outbox, "is", table.add_column(0, "input", pa.repeat(task.input, len(table))))
        return homes
    for batch in read_share(task.shares, _COLUMNS[task.table], _BATCH_ROWS):
        rows = pa.Table.from_batches([batch])
        if task.table == "group_events":
            kept = pc.is_in(rows.column("fact"), pa.array(GENERATION_FACTS))
            outbox.add(task.table, rows.filter(kept))
        elif task.table in ("group_generations", "consumer_epochs", "ownership", "rebalances"):
            outbox.add(task.table, rows)
        elif task.table == "offset_commits":
            outbox.add(task.table, _each_commit(rows))
        else:
            homes |= _homes(rows)
            # Compaction removes the records of aborted transactions, so they are not expected.
            counting = pc.invert(has_attribute(rows, TRANSACTIONAL | CONTROL))
            for source, directories in logs.items():
                numbers = pa.array(directories, pa.int32())
                here = pc.and_(
                    pc.equal(rows.column("input"), source),
                    pc.is_in(rows.column("log_partition"), numbers),
                )
                _add_keys(outbox, "was", rows.filter(pc.and_(counting, here)))
    return homes


def _each_commit(rows: pa.Table) -> pa.Table:
    """Return every commit as a row of its own for `without_owner`."""
    kept = pc.and_(pc.invert(rows.column("is_tombstone")), rows.column("record_ts").is_valid())
    rows = rows.filter(kept)
    times = [rows.column("record_ts")] * 2
    columns = [rows.column(name) for name in ("group_id", "topic", "partition")]
    ones = pa.array(np.ones(rows.num_rows, np.int64))
    return pa.Table.from_arrays([*columns, *times, ones], schema=UNOWNED)


def _add_keys(outbox: Outbox, kind: str, rows: pa.Table) -> None:
    """Pass on the last record of each key."""
    rows = rows.filter(rows.column("key").is_valid())
    if not rows.num_rows:
        return
    rows = rows.append_column("is_deleted", rows.column("value").is_null())
    rows = rows.select(_KEYS.names).sort_by("log_offset")
    by = ["input", "log_partition", "key"]
    last = rows.group_by(by, use_threads=False).aggregate(
        [("log_offset", "last"), ("is_deleted", "last")]
    )
    last = last.rename_columns([*by, "log_offset", "is_deleted"])
    outbox.add(kind, last, text_codes(last.column("key")))


def _homes(rows: pa.Table) -> set[Home]:
    """Return the groups with records in each partition."""
    rows = rows.filter(pc.is_in(rows.column("key_type"), pa.array(_GROUP_KEY_TYPES, pa.int16())))
    keys = rows.select(["input", "log_partition", "key"]).group_by(
        ["input", "log_partition", "key"]
    )
    homes = set()
    for row in keys.aggregate([]).to_pylist():
        length = int.from_bytes(row["key"][2:_KEY_PREFIX_BYTES])
        group = row["key"][_KEY_PREFIX_BYTES : _KEY_PREFIX_BYTES + length]
        homes.add((row["input"], row["log_partition"], group.decode(errors="replace")))
    return homes


def _check_groups(exchanged: RowExchange, bucket: int) -> Iterator[Finding]:
    """Check the generations and epochs of each group."""
    generations: dict[str, list[Generation]] = {}
    for group_id, rows in by_group(exchanged.rows("group_generations", bucket)):
        of_group = generations.setdefault(group_id, [])
        of_group += map(logged_generation, rows.to_pylist())
    for group_id, rows in by_group(exchanged.rows("group_events", bucket)):
        of_group = generations.setdefault(group_id, [])
        of_group += map(recorded_generation, rows.to_pylist())
    for group_id, of_group in generations.items():
        yield from check_group(group_id, of_group)
    for group_id, rows in by_group(exchanged.rows("consumer_epochs", bucket), "log_offset"):
        yield from check_epochs(group_id, rows.to_pylist())


def _unowned_commits(exchanged: RowExchange, bucket: int) -> Iterator[Finding]:
    """Find commits of partitions that no member of the group owned [pipeline/checks]."""
    commits, owned = (exchanged.rows(each, bucket) for each in ("offset_commits", "ownership"))
    found = without_owner(commits, owned)
    sums = found.group_by(["group_id", "topic", "partition"]).aggregate(
        [("commits", "count"), ("first_ts", "min")]
    )
    for row in sums.to_pylist():
        yield Finding(
            "commits_of_owned_partitions",
            WARNING,
            row["group_id"],
            f"{row['commits_count']} commits of {row['topic']}-{row['partition']} while no member"
            f" owned it, the first at {row['first_ts_min'].isoformat()}",
        )


def _misplaced(store: Store, homes: Iterable[Home]) -> Iterator[Finding]:
    """Find groups with records in another partition than their own [pipeline/checks]."""
    for source, number, group_id in homes:
        count = store.about(source).get("partitions", {}).get(OFFSETS_TOPIC)
        if count is None or partition_for(group_id, count) == number:
            continue
        yield Finding(
            "key_in_its_partition",
            ERROR,
            group_id,
            f"has records in {OFFSETS_TOPIC}-{number}; of {count} partitions it belongs to"
            f" {partition_for(group_id, count)}",
        )


def _logs_of(store: Store, source: str) -> dict[int, str]:
    """Return the directories of an input's group log that still exist."""
    found: dict[int, str] = {}
    for path in store.about(source).get("paths", []):
        try:
            found = find_partitions(path, OFFSETS_TOPIC) | found
        except NoSuchLog:
            continue
    return found


def _lost_ends(store: Store, source: str, logs: Mapping[int, str]) -> Iterator[Finding]:
    """Find logs that have lost their end [pipeline/checks]."""
    for number, offset in sorted(store.position(source).items()):
        if number in logs and (end := log_end(logs[number])) < offset:
            yield Finding(
                "log_kept_its_records",
                ERROR,
                logs[number],
                f"was read to offset {offset}, but ends at {end} now",
            )


def _lost_keys(
    exchanged: RowExchange, bucket: int, logs: Mapping[str, Mapping[int, str]], *, is_proven: bool
) -> Iterator[Finding]:
    """Find logs that have lost the last value of a key [pipeline/checks]."""
    by = ["input", "log_partition", "key"]
    was, now = (
        # Of a key in several stretches the last record counts.
        exchanged.rows(kind, bucket)
        .sort_by("log_offset")
        .group_by(by, use_threads=False)
        .aggregate([("log_offset", "last"), ("is_deleted", "last")])
        for kind in ("was", "is")
    )
    was = was.filter(pc.invert(was.column("is_deleted_last")))
    there = now.select([*by, "log_offset_last"]).rename_columns([*by, "is_at"])
    both = was.join(there, by, join_type="left outer")
    lost = both.filter(pc.less(both.column("is_at").fill_null(-1), both.column("log_offset_last")))
    for row in lost.slice(0, MAX_FINDINGS).to_pylist():
        where = "missing" if row["is_at"] is None else f"last at offset {row['is_at']}"
        yield Finding(
            "log_kept_its_records",
            ERROR if is_proven else WARNING,
            logs[row["input"]][row["log_partition"]],
            f"the key {row['key']!r} was at offset {row['log_offset_last']}, but is {where} now"
            + ("" if is_proven else "; it may have been deleted, and its tombstone compacted away"),
        )


def _age_ms(store: Store) -> float | None:
    """Return how long ago the last run ended; None without a run."""
    finished = [run["finished"] for run in store.runs if "finished" in run]
    if not finished:
        return None
    return (datetime.now(UTC) - datetime.fromisoformat(finished[-1])).total_seconds() * 1000
