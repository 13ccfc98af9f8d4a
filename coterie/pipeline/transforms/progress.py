"""The groups' commits by minute, and the offsets committed at moves.

There are millions of commits, so tasks sum them stretch by stretch (`commit_runs`), and the sums of
a group are joined to minutes. Everything else is computed from these minutes; lag in `lag`.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.codec.numbers import Bools
from coterie.pipeline.tables import TABLES
from coterie.pipeline.transforms.commit_runs import (
    MINUTE_US,
    MINUTES,
    SPARK_GROUPS,
    commit_runs,
    int64s,
    join_runs,
    row_keys,
)

KEY = ("group_id", "topic", "partition")

# The kinds of rows that `with_handover` sorts. At the same time a later kind comes last, so a
# commit takes precedence over the end of a minute.
_MINUTE_END, _COMMIT, _MOVE = 0, 1, 2


def without_spark_groups(rows: pa.Table) -> pa.Table:
    """Return the rows of groups that are not Spark's own [pipeline/commit-minutes]."""
    return rows.filter(pc.invert(pc.match_substring_regex(rows.column("group_id"), SPARK_GROUPS)))


def commit_minutes(runs: pa.Table) -> pa.Table:
    """Sum commits by partition and minute, as rows of `MINUTES` [pipeline/commit-minutes].

    They have the columns of `commit_velocity_1m`, and `rewound_by`: the largest step back in the
    minute, null if there was none; `rewound_offset`: the log offset of that commit; `first_ts` and
    `last_ts`: the times of the first and the last commit; `overlaps`: whether the sums may be
    wrong because commits of another run lie between those of one run.

    Args:
        runs: the runs of all commits of some groups, see `commit_runs`.
    """
    return pa.Table.from_batches(join_runs(runs.to_batches()), MINUTES)


def with_overlaps(minutes: pa.Table, commits: pa.Table) -> pa.Table:
    """Compute the minutes of partitions whose runs overlap again, from their commits.

    Runs overlap because the commits of a transaction count when its marker is read, which may be
    after later commits, and because a file can contain commits from before and behind those of
    another file.

    Args:
        minutes: the result of `commit_minutes`.
        commits: all commits of the partitions for which a row of `minutes` has `overlaps`.
    """
    overlapping = minutes.filter(minutes.column("overlaps"))
    if not overlapping.num_rows:
        return minutes
    kept = minutes.filter(pa.array(~are_among(minutes, overlapping)))
    whole = [commit_runs(each) for each in commits.combine_chunks().to_batches()]
    return pa.concat_tables([kept, commit_minutes(pa.Table.from_batches(whole))])


def are_among(rows: pa.Table, others: pa.Table) -> Bools:
    """Return which rows are of a partition of a group that the others have rows of, too."""
    keys = row_keys(pa.concat_tables([rows.select(KEY), others.select(KEY)]))
    among: Bools = np.isin(keys[: rows.num_rows], keys[rows.num_rows :])
    return among


def with_handover(moves: pa.Table, minutes: pa.Table, newest: pa.Table) -> pa.Table:
    """Return moves as rows of `partition_moves`.

    The newest committed offset at a move is the newest commit in the same minute up to then,
    otherwise the last commit of the newest minute before.

    Args:
        moves: `partition_moves` without `committed_at_handover`, of some groups.
        minutes: the groups' minutes, see `commit_minutes`.
        newest: the results of `handovers.newest_commits` for the moves. If there are several for
            one move, the one with the largest `log_offset` counts.
    """
    # The last offset of a minute is valid from the beginning of the next minute on.
    ends_us = int64s(minutes, "window_start_ts") + MINUTE_US
    none = np.zeros(minutes.num_rows, np.int64)
    key = row_keys(pa.concat_tables(each.select(KEY) for each in (minutes, newest, moves)))
    at_us = np.concatenate([ends_us, int64s(newest, "at_ts"), int64s(moves, "at_ts")])
    kind = np.repeat(
        [_MINUTE_END, _COMMIT, _MOVE], [minutes.num_rows, newest.num_rows, moves.num_rows]
    )
    log_offset = np.concatenate([none, int64s(newest, "log_offset"), int64s(moves, "at_ts")])
    order = np.lexsort((log_offset, kind, at_us, key))
    # The position, in this order, of the newest row with an offset at or before each row.
    positions = np.arange(len(order))
    source = np.maximum.accumulate(np.where((kind != _MOVE)[order], positions, -1))
    position = np.empty(len(order), np.int64)
    position[order] = source
    moved = np.flatnonzero(kind == _MOVE)
    found = order[np.maximum(position[moved], 0)]
    # A move without a time sorts before everything, so nothing is found for it.
    is_found = (position[moved] >= 0) & (key[found] == key[moved])
    is_found &= moves.column("at_ts").is_valid().to_numpy()
    offsets = pa.chunked_array(
        [*minutes.column("last_offset").chunks, *newest.column("committed_offset").chunks],
        pa.int64(),
    )
    index = pa.array(np.where(is_found, found, 0), mask=~is_found)
    committed = offsets.take(index) if len(offsets) else pa.nulls(moves.num_rows, pa.int64())
    whole = moves.append_column("committed_at_handover", committed)
    return whole.select(TABLES["partition_moves"].schema.names)
