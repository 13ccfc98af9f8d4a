"""Sum commits in workers: a row for each run of commits of a partition within a minute.

A log has millions of commits and far fewer minutes, so a worker sums each stretch of rows that it
reads, with numpy, before anything is sorted or shuffled. A worker does not know the other
stretches. `join_runs` therefore computes the step of a stretch's first commit of each partition,
and finds stretches that overlap.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from coterie.pipeline.codec.numbers import Bools, Int64s
from coterie.pipeline.schemas import TIMESTAMP
from coterie.pipeline.tables import TABLES

MINUTE_US = 60_000_000

# The groups of Spark's own consumers [pipeline/commit-minutes].
SPARK_GROUPS = r"^spark-(kafka|executor)-"

COLUMNS = (
    "group_id", "topic", "partition", "log_offset", "committed_offset", "record_ts", "is_tombstone",
)  # fmt: skip

# Columns with few different values.
NAMES = ("group_id", "topic")

# `after_log_offset` is the log offset of the partition's last commit before the run in the same
# stretch. It is null in the partition's first run, whose first step is therefore unknown.
RUNS = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("window_start_ts", TIMESTAMP),
        ("after_log_offset", pa.int64()),
        ("first_log_offset", pa.int64()),
        ("last_log_offset", pa.int64()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("commits", pa.int64()),
        ("advance", pa.int64()),
        ("rewinds", pa.int64()),
        ("rewound_by", pa.int64()),
        ("rewound_offset", pa.int64()),
        ("first_ts", TIMESTAMP),
        ("last_ts", TIMESTAMP),
    ]
)

MINUTES = pa.schema(
    [
        *TABLES["commit_velocity_1m"].schema,
        ("rewound_by", pa.int64()),
        ("rewound_offset", pa.int64()),
        ("first_ts", TIMESTAMP),
        ("last_ts", TIMESTAMP),
        ("overlaps", pa.bool_()),
    ]
)

# The seconds in which anything was committed, in epoch milliseconds.
ACTIVE = pa.schema([("at_ms", pa.int64())])

_LEAST = np.iinfo(np.int64).min
_MOST = np.iinfo(np.int64).max


class Stretch:
    """Rows of `offset_commits` as arrays, in the order of the log.

    Rows of Spark's own groups and rows without a time are left out.

    Attributes:
        groups, topics: the different names.
        group, topic, partition, log_offset, offset, at_us: the fields of each row; `group` and
            `topic` are indexes into the names, and `offset` of a deletion is meaningless.
        deleted: whether the row is a deletion.
    """

    def __init__(self, rows: pa.RecordBatch) -> None:
        """Convert rows to arrays.

        Args:
            rows: rows with `COLUMNS`; the names may be dictionaries already.
        """
        groups, group = _encoded(rows.column("group_id"))
        topics, topic = _encoded(rows.column("topic"))
        at_us = rows.column("record_ts").cast(pa.int64())
        own = np.array([re.match(SPARK_GROUPS, name) is not None for name in groups.to_pylist()])
        kept = at_us.is_valid().to_numpy(zero_copy_only=False) & ~_of_spark(own, group)
        log_offset = rows.column("log_offset").to_numpy()
        index: Any = slice(None) if kept.all() else np.flatnonzero(kept)
        if (np.diff(log_offset[index]) <= 0).any():
            index = np.arange(len(kept))[index]
            index = index[np.argsort(log_offset[index], kind="stable")]
        self.groups, self.topics = groups, topics
        self.group, self.topic = group[index], topic[index]
        self.partition = rows.column("partition").to_numpy()[index].astype(np.int64)
        self.log_offset = log_offset[index]
        self.at_us = at_us.fill_null(0).to_numpy()[index]
        self.offset = rows.column("committed_offset").fill_null(0).to_numpy()[index]
        self.deleted = rows.column("is_tombstone").to_numpy(zero_copy_only=False)[index]

    def __len__(self) -> int:
        return len(self.log_offset)

    def keys(self) -> Int64s:
        """Return a number for each row that identifies its group, topic and partition."""
        pair = self.group * max(len(self.topics), 1) + self.topic
        # Partition numbers are usually small, so the product fits into 64 bits. If a log has very
        # large ones, the pairs that occur are renumbered.
        most = int(self.partition.max(initial=0)) + 1
        if most * max(len(self.groups) * len(self.topics), 1) > _MOST:
            pair = np.unique(pair, return_inverse=True)[1]
        keys: Int64s = pair * most + self.partition
        return keys

    def names(self, index: Int64s) -> list[pa.Array]:
        """Return the columns group_id, topic and partition of some rows."""
        return [
            self.groups.take(pa.array(self.group[index])),
            self.topics.take(pa.array(self.topic[index])),
            pa.array(self.partition[index].astype(np.int32)),
        ]


def _encoded(column: pa.Array) -> tuple[pa.Array, Int64s]:
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    return column.dictionary, column.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _of_spark(own: npt.NDArray[Any], group: Int64s) -> Bools:
    if not own.any():
        return np.zeros(len(group), np.bool_)
    of_spark: Bools = own[group]
    return of_spark


def commit_runs(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the runs of a stretch of commits as rows of `RUNS`.

    Args:
        rows: rows with `COLUMNS`, in any order.
    """
    stretch = Stretch(rows)
    if not len(stretch):
        return pa.RecordBatch.from_pylist([], RUNS)
    keys = stretch.keys()
    # A stable sort keeps the order of the log within each key.
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    minute = stretch.at_us[order] // MINUTE_US
    offset, deleted = stretch.offset[order], stretch.deleted[order]
    opens = np.ones(len(keys), np.bool_)
    opens[1:] = keys[1:] != keys[:-1]
    begins = opens.copy()
    begins[1:] |= minute[1:] != minute[:-1]
    starts = np.flatnonzero(begins)
    lasts = np.append(starts[1:], len(keys)) - 1
    # The first commit after a deletion is no step, because there was no offset before it.
    known = ~opens & ~deleted
    known[1:] &= ~deleted[:-1]
    step = np.zeros(len(keys), np.int64)
    step[1:] = offset[1:] - offset[:-1]
    step[~known] = 0
    most_back = np.minimum.reduceat(step, starts)
    log_offset, at_us = stretch.log_offset[order], stretch.at_us[order]
    # If several commits of a run are equally far back, the first of them is reported.
    run = np.cumsum(begins) - 1
    farthest = np.where((step < 0) & (step == most_back[run]), log_offset, _MOST)
    none_committed = np.logical_and.reduceat(deleted, starts)
    stays = most_back == 0
    return pa.RecordBatch.from_arrays(
        [
            *stretch.names(order[starts]),
            pa.array(minute[starts] * MINUTE_US).view(TIMESTAMP),
            pa.array(log_offset[starts - 1], mask=opens[starts]),
            pa.array(log_offset[starts]),
            pa.array(log_offset[lasts]),
            pa.array(offset[starts], mask=deleted[starts]),
            pa.array(offset[lasts], mask=deleted[lasts]),
            pa.array(np.add.reduceat((~deleted).astype(np.int64), starts)),
            pa.array(np.add.reduceat(np.maximum(step, 0), starts)),
            pa.array(np.add.reduceat((step < 0).astype(np.int64), starts)),
            pa.array(-most_back, mask=stays),
            pa.array(np.minimum.reduceat(farthest, starts), mask=stays),
            _times(np.minimum.reduceat(np.where(deleted, _MOST, at_us), starts), none_committed),
            _times(np.maximum.reduceat(np.where(deleted, _LEAST, at_us), starts), none_committed),
        ],
        schema=RUNS,
    )


def _times(at_us: Int64s, null: Bools) -> pa.Array:
    return pa.array(np.where(null, 0, at_us), mask=null).view(TIMESTAMP)


def join_runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join runs to rows of `MINUTES`.

    `overlaps` says that commits of another run lie between those of one run, so the sums of the
    partition may be wrong.

    Args:
        batches: all runs of some groups, in any order.
    """
    given = [batch for batch in batches if batch.num_rows]
    if not given:
        return
    runs = pa.Table.from_batches(given).combine_chunks()
    keys = row_keys(runs)
    order = np.lexsort((int64s(runs, "first_log_offset"), keys))
    runs, keys = runs.take(pa.array(order)), keys[order]
    step, overlaps = _steps(runs, keys)
    # If a clock was set back, the minutes of a key are not in the order of the log.
    minute, last_log_offset = int64s(runs, "window_start_ts"), int64s(runs, "last_log_offset")
    order = np.lexsort((last_log_offset, minute, keys))
    runs = runs.take(pa.array(order))
    keys, minute, step, overlaps = keys[order], minute[order], step[order], overlaps[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (keys[1:] != keys[:-1]) | (minute[1:] != minute[:-1])
    starts = np.flatnonzero(begins)
    lasts = np.append(starts[1:], len(order)) - 1
    by = int64s(runs, "rewound_by", 0)
    farther = -step >= np.maximum(by, 1)
    at = np.where(farther, int64s(runs, "first_log_offset"), int64s(runs, "rewound_offset", _MOST))
    by = np.maximum(by, -step)
    most_by = np.maximum.reduceat(by, starts)
    at = np.where((by > 0) & (by == most_by[np.cumsum(begins) - 1]), at, _MOST)
    first_ts, last_ts = int64s(runs, "first_ts", _MOST), int64s(runs, "last_ts", _LEAST)
    first_ts, last_ts = np.minimum.reduceat(first_ts, starts), np.maximum.reduceat(last_ts, starts)
    advance = int64s(runs, "advance") + np.maximum(step, 0)
    found = [
        *(runs.column(name).take(pa.array(starts)) for name in MINUTES.names[:4]),
        pa.array(np.add.reduceat(int64s(runs, "commits"), starts)),
        pa.array(np.add.reduceat(advance, starts)),
        pa.array(np.add.reduceat(int64s(runs, "rewinds") + (step < 0), starts)),
        runs.column("last_offset").take(pa.array(lasts)),
        pa.array(most_by, mask=most_by <= 0),
        pa.array(np.minimum.reduceat(at, starts), mask=most_by <= 0),
        _times(first_ts, first_ts == _MOST),
        _times(last_ts, last_ts == _LEAST),
        pa.array(np.logical_or.reduceat(overlaps, starts)),
    ]
    yield from pa.Table.from_arrays(found, schema=MINUTES).combine_chunks().to_batches()


def _steps(runs: pa.Table, keys: Int64s) -> tuple[Int64s, Bools]:
    """Return the step from the run before to each run's first commit, and which runs overlap.

    Args:
        runs: runs ordered by key and first log offset.
        keys: their keys.
    """
    count = len(keys)
    follows = np.zeros(count, np.bool_)
    follows[1:] = keys[1:] == keys[:-1]
    opens = runs.column("after_log_offset").is_null().to_numpy()
    after = int64s(runs, "after_log_offset")
    first_log_offset = int64s(runs, "first_log_offset")
    ended = _shifted(int64s(runs, "last_log_offset"))
    overlaps = follows & np.where(opens, ended > first_log_offset, ended != after)
    last_known = runs.column("last_offset").is_valid().to_numpy()
    known = opens & follows & runs.column("first_offset").is_valid().to_numpy()
    known &= _shifted(last_known)
    step = int64s(runs, "first_offset", 0) - _shifted(int64s(runs, "last_offset", 0))
    # A run that is not the first of its stretch has counted its first step already.
    return np.where(known, step, 0), overlaps


def _shifted(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return for each row the value of the row before it."""
    return np.append(values[:1], values[:-1])


def row_keys(rows: pa.Table) -> Int64s:
    """Return a number for each row that identifies its group, topic and partition."""
    topic = name_codes(rows, "topic")
    pair = name_codes(rows, "group_id") * (int(topic.max(initial=0)) + 1) + topic
    few = np.unique(pair, return_inverse=True)[1]
    keys: Int64s = few * (1 << 32) + rows.column("partition").to_numpy()
    return keys


def name_codes(rows: pa.Table, name: str) -> Int64s:
    """Return a number for each row that identifies its value in a column of names."""
    column = rows.column(name).combine_chunks().dictionary_encode()
    index: Int64s = column.indices.to_numpy().astype(np.int64)
    return index


def int64s(rows: pa.Table, name: str, null: int = -1) -> Int64s:
    """Return a column as integers, with a number in place of null."""
    values: Int64s = rows.column(name).cast(pa.int64()).fill_null(null).to_numpy()
    return values


def active_seconds(rows: pa.RecordBatch) -> pa.Table:
    """Return the seconds in which commits were made, as rows of `ACTIVE`.

    Args:
        rows: rows with `COLUMNS`.
    """
    at_us = rows.column("record_ts").drop_null().cast(pa.int64()).to_numpy()
    seconds = at_us // 1_000_000
    # A log is nearly in the order of time, so most rows have the second of the row before.
    changes = np.flatnonzero(np.diff(seconds, prepend=-1))
    return pa.table([np.unique(seconds[changes]) * 1000], schema=ACTIVE)
