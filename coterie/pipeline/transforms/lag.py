"""The lag of a partition at the end of each minute [pipeline/lag]."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from coterie.pipeline.codec.numbers import Bools, Int64s
from coterie.pipeline.schemas import TIMESTAMP
from coterie.pipeline.tables import TABLES
from coterie.pipeline.transforms.commit_runs import MINUTE_US, int64s, row_keys
from coterie.pipeline.transforms.handovers import FOUND, MOMENTS
from coterie.pipeline.transforms.lag_samples import (
    moments_between_commits,
    newest_at,
    place_minutes,
)
from coterie.pipeline.transforms.progress import KEY

# After this many minutes with a lag and without progress a partition is stalled [pipeline/stall].
STALLED_MINUTES = 5
# A log end that is older than this does not give a lag [pipeline/lag].
LOG_END_MINUTES = 5
# A message was written between two log ends. If they are further apart, its age is not known well
# enough to be of use [pipeline/lag].
SAMPLES_APART_US = MINUTE_US

_SCHEMA = TABLES["lag_1m"].schema
# How many records behind its start offset a share group was done with, from when on.
COMPLETED = pa.schema([*MOMENTS, ("records", pa.int64())])


class _Ends(NamedTuple):
    """Log ends in order of place and time. A place is a partition of a topic of one input."""

    place: Int64s
    at_us: Int64s
    offset: Int64s


class _Rows(NamedTuple):
    """Every minute with a commit or a log end, by key and minute.

    Attributes:
        key, place, minute_us: the partition of a group, its place, and the beginning of the minute.
        own: the row of the minute's commits; -1 if there is none.
        committed, end: the newest row of commits, and the newest log end, at its end; or -1.
        before: the newest row of commits of earlier minutes; or -1.
    """

    key: Int64s
    place: Int64s
    minute_us: Int64s
    own: Int64s
    committed: Int64s
    end: Int64s
    before: Int64s


def sampled_moments(
    minutes: pa.Table, log_ends: pa.Table | None, input_of: Callable[[str], str] = lambda _: ""
) -> pa.Table:
    """Return, as rows of `MOMENTS`, the moments for which `lag_1m` needs the newest commits.

    Args:
        minutes, log_ends, input_of: see `lag_1m`.
    """
    if log_ends is None or not minutes.num_rows:
        return MOMENTS.empty_table()
    place, ends = _places(minutes, log_ends, input_of)
    newest = _newest_in_minutes(ends)
    return moments_between_commits(minutes, place, ends.place[newest], ends.at_us[newest])


def lag_1m(
    minutes: pa.Table,
    log_ends: pa.Table | None,
    input_of: Callable[[str], str] = lambda _: "",
    newest: pa.Table | None = None,
    completed: pa.Table | None = None,
) -> pa.Table:
    """Compute the lag in each minute, when its last log end was requested, as rows of `lag_1m`.

    Args:
        minutes: the minutes of some groups, see `progress.commit_minutes`.
        log_ends: rows of that table; without them every lag is unknown. A row without `input`
            counts for the topics of that name in every input.
        input_of: returns the input of a group: topics of two clusters may have one name.
        newest: the results of `handovers.newest_commits` for `sampled_moments`.
        completed: rows of `COMPLETED`, of share groups, whose lag is less by these records.
    """
    if log_ends is None or not minutes.num_rows:
        return _without_lag(minutes)
    place, ends = _places(minutes, log_ends, input_of)
    if not len(ends.place):
        return _without_lag(minutes)
    rows = _rows(minutes, place, ends)
    found = FOUND.empty_table() if newest is None else newest
    committed, committed_known = _committed(minutes, rows, ends, found)
    age_ms = rows.minute_us // 1000 - ends.at_us[rows.end] // 1000
    end_known = (rows.end >= 0) & (age_ms < LOG_END_MINUTES * MINUTE_US // 1000)
    log_end = ends.offset[rows.end]
    known = committed_known & end_known
    lag = np.maximum(log_end - committed - _completed(minutes, rows, ends, completed), 0)
    written_us, is_written = _written_after(ends, rows.place, committed, rows.end)
    is_level = known & (lag == 0)
    time_lag_ms = np.where(is_level, 0, ends.at_us[rows.end] // 1000 - written_us // 1000)
    stalled = _stalled(rows, int64s(minutes, "advance"), lag, known)
    # The newest commits of each row are of the same partition, also where their offset is not used.
    index = pa.array(rows.committed)
    columns = [
        *(minutes.column(name).take(index) for name in KEY),
        pa.array(rows.minute_us).view(TIMESTAMP),
        pa.array(committed, mask=~committed_known),
        pa.array(log_end, mask=~end_known),
        pa.array(lag, mask=~known),
        pa.array(time_lag_ms, mask=~(is_level | (known & is_written))),
        pa.array(stalled, mask=~known),
    ]
    return pa.Table.from_arrays(columns, schema=_SCHEMA)


def _without_lag(minutes: pa.Table) -> pa.Table:
    known = [minutes.column(name) for name in (*KEY, "window_start_ts", "last_offset")]
    unknown = [pa.nulls(minutes.num_rows, field.type) for field in list(_SCHEMA)[len(known) :]]
    return pa.Table.from_arrays([*known, *unknown], schema=_SCHEMA)


def _places(
    minutes: pa.Table, log_ends: pa.Table, input_of: Callable[[str], str]
) -> tuple[Int64s, _Ends]:
    """Number the places of minutes and log ends, and return the ends at places of minutes."""
    groups = minutes.column("group_id").combine_chunks().dictionary_encode()
    inputs = pa.array([input_of(name) for name in groups.dictionary.to_pylist()], pa.string())
    sources = inputs.take(groups.indices)
    everywhere = log_ends.filter(log_ends.column("input").is_null())
    copies = [log_ends.filter(log_ends.column("input").is_valid())]
    for source in inputs.unique():
        column = pa.repeat(source, everywhere.num_rows)
        copies.append(everywhere.set_column(0, "input", column))
    ends = pa.concat_tables(copies)
    ends = ends.filter(ends.column("log_end_offset").is_valid()).sort_by(
        [("at_ts", "ascending"), ("log_end_offset", "ascending")]
    )
    names = ["group_id", "topic", "partition"]
    of_minutes = [sources, minutes.column("topic"), minutes.column("partition")]
    of_ends = [ends.column(name) for name in ("input", "topic", "partition")]
    both = pa.concat_tables(pa.table(each, names=names) for each in (of_minutes, of_ends))
    place = np.unique(row_keys(both), return_inverse=True)[1].reshape(-1)
    place, end_place = place[: minutes.num_rows], place[minutes.num_rows :]
    index = np.flatnonzero(np.isin(end_place, place))
    index = index[np.argsort(end_place[index], kind="stable")]
    return place, _Ends(
        end_place[index], int64s(ends, "at_ts")[index], int64s(ends, "log_end_offset")[index]
    )


def _newest_in_minutes(ends: _Ends) -> Int64s:
    """Return the indexes of the newest log end of each place and minute."""
    numbers = place_minutes(ends.place, ends.at_us)
    is_newest = np.ones(len(numbers), np.bool_)
    is_newest[:-1] = numbers[1:] != numbers[:-1]
    return np.flatnonzero(is_newest)


def _rows(minutes: pa.Table, place: Int64s, ends: _Ends) -> _Rows:
    """Combine the minutes of each partition of a group with the log ends of its place."""
    key = np.unique(row_keys(minutes), return_inverse=True)[1].reshape(-1)
    minute_us = int64s(minutes, "window_start_ts")
    keys, first = np.unique(key, return_index=True)
    began_us = np.full(len(keys), np.iinfo(np.int64).max)
    np.minimum.at(began_us, key, minute_us)
    key_place = place[first]
    # The newest log end of each place and minute, and which of them belong to each key.
    end_minute = ends.at_us // MINUTE_US * MINUTE_US
    newest = _newest_in_minutes(ends)
    begin = np.searchsorted(ends.place[newest], key_place, "left")
    count = np.searchsorted(ends.place[newest], key_place, "right") - begin
    of_key = np.repeat(np.arange(len(keys)), count)
    within = np.arange(len(of_key)) - np.repeat(np.cumsum(count) - count, count)
    of_end = newest[np.repeat(begin, count) + within]
    later = end_minute[of_end] >= began_us[of_key]
    of_key, of_end = of_key[later], of_end[later]
    every_key = np.concatenate([key, of_key])
    every_minute = np.concatenate([minute_us, end_minute[of_end]])
    commits = np.concatenate([np.arange(len(key)), np.full(len(of_key), -1)])
    end = np.concatenate([np.full(len(key), -1), of_end])
    order = np.lexsort((every_minute, every_key))
    every_key, every_minute = every_key[order], every_minute[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (every_key[1:] != every_key[:-1]) | (every_minute[1:] != every_minute[:-1])
    starts = np.flatnonzero(begins)
    own = np.maximum.reduceat(commits[order], starts)
    own_end = np.maximum.reduceat(end[order], starts)
    key = every_key[starts]
    committed = _newest(own, key)
    before = np.full(len(key), -1)
    before[1:] = np.where(key[1:] == key[:-1], committed[:-1], -1)
    return _Rows(
        key, key_place[key], every_minute[starts], own, committed, _newest(own_end, key), before
    )


def _committed(
    minutes: pa.Table, rows: _Rows, ends: _Ends, found: pa.Table
) -> tuple[Int64s, Bools]:
    """Return the committed offset of each row, and where it is known.

    In a minute with a log end of its own it is the one at the moment of the log end, otherwise that
    at the end of the minute.
    """
    at_us = ends.at_us[rows.end]
    is_sampled = (
        (rows.own >= 0) & (rows.end >= 0) & (at_us // MINUTE_US == rows.minute_us // MINUTE_US)
    )
    is_before = is_sampled & (int64s(minutes, "first_ts")[rows.own] > at_us)
    is_between = is_sampled & ~is_before & (int64s(minutes, "last_ts")[rows.own] > at_us)
    index = np.where(is_before, rows.before, rows.committed)
    has_offset = minutes.column("last_offset").is_valid().to_numpy()
    known = (index >= 0) & has_offset[index]
    offset = np.where(known, int64s(minutes, "last_offset")[index], -1)
    moments = np.full(minutes.num_rows, -1)
    moments[rows.own[is_between]] = at_us[is_between]
    of_minute, is_found = newest_at(minutes, moments, found)
    replaced = is_between & is_found[rows.own]
    return np.where(replaced, of_minute[rows.own], offset), known | replaced


def _completed(minutes: pa.Table, rows: _Rows, ends: _Ends, completed: pa.Table | None) -> Int64s:
    """Return for each row how many records behind its committed offset are done with."""
    if completed is None or not completed.num_rows:
        return np.zeros(len(rows.key), np.int64)
    keys = row_keys(pa.concat_tables(each.select(KEY) for each in (minutes, completed)))
    key = np.unique(keys, return_inverse=True)[1].reshape(-1)
    at_us = int64s(completed, "at_ts")
    # The moment of a row is that of its committed offset.
    end_us = ends.at_us[rows.end]
    has_end = (rows.end >= 0) & (end_us // MINUTE_US == rows.minute_us // MINUTE_US)
    moment_us = np.where(has_end, end_us, rows.minute_us + MINUTE_US - 1)
    # Times are replaced by their ranks, so that a number has room for the key in front of them.
    times = np.unique(np.concatenate([at_us, moment_us]))
    known = key[minutes.num_rows :] * len(times) + np.searchsorted(times, at_us)
    order = np.argsort(known, kind="stable")
    sought_key = key[rows.committed]
    sought = sought_key * len(times) + np.searchsorted(times, moment_us)
    found = np.searchsorted(known[order], sought, "right") - 1
    newest = order[np.maximum(found, 0)]
    is_known = (found >= 0) & (key[minutes.num_rows :][newest] == sought_key)
    counts: Int64s = np.where(is_known, int64s(completed, "records")[newest], 0)
    return counts


def _newest(values: Int64s, key: Int64s) -> Int64s:
    """Return for each row the last value of its key so far that is not -1; -1 without one."""
    position = np.maximum.accumulate(np.where(values >= 0, np.arange(len(values)), -1))
    known = (position >= 0) & (key[position] == key)
    newest: Int64s = np.where(known, values[position], -1)
    return newest


def _written_after(
    ends: _Ends, place: Int64s, committed: Int64s, newest: Int64s
) -> tuple[Int64s, Bools]:
    """Return when the log end was last known to be at or before each committed offset.

    The message behind the offset was written between that time and the next log end. It is only
    known where these are not further apart than `SAMPLES_APART_US`.

    Args:
        ends: the log ends.
        place, committed: the place and the committed offset of each row.
        newest: the newest log end of each row, which is behind its committed offset; or -1.
    """
    offsets = np.unique(np.concatenate([ends.offset, committed]))
    most = len(offsets) + 1
    rank = ends.place * most + np.searchsorted(offsets, ends.offset)
    order = np.argsort(rank, kind="stable")
    # Times are replaced by their ranks, and the place is added as the leading part of the number.
    # So the running maximum starts again with each place.
    times, time_rank = np.unique(ends.at_us, return_inverse=True)
    latest = np.maximum.accumulate((ends.place * len(times) + time_rank.reshape(-1))[order]) % len(
        times
    )
    sought = place * most + np.searchsorted(offsets, committed)
    position = np.searchsorted(rank[order], sought, "right") - 1
    found = (position >= 0) & (ends.place[order][position] == place)
    written_us = times[latest[position]]
    # Log ends are in the order of place and time, so the next one of a place follows.
    numbers = ends.place * len(times) + time_rank.reshape(-1)
    after = np.searchsorted(numbers, place * len(times) + latest[position], "right")
    after = np.minimum(after, newest)
    found &= ends.at_us[after] - written_us <= SAMPLES_APART_US
    return written_us, found


def _stalled(rows: _Rows, advance: Int64s, lag: Int64s, known: Bools) -> Bools:
    """Return which rows have had a lag for minutes, with no progress since it was first seen.

    One log end is no proof, however long ago the last commit is: what it shows may have been
    written a moment before.
    """
    numbers = np.arange(len(rows.key))
    is_first = np.ones(len(rows.key), np.bool_)
    is_first[1:] = rows.key[1:] != rows.key[:-1]
    advances = (rows.own >= 0) & (advance[rows.own] > 0)
    progresses = is_first | advances | (known & (lag == 0))
    is_lagging = known & (lag > 0)
    # The first row with a lag from each row of progress to the next one.
    seen = np.where(is_lagging, numbers, len(numbers) - 1)
    first_seen = np.minimum.reduceat(seen, np.flatnonzero(progresses))
    since = first_seen[np.cumsum(progresses) - 1]
    lagging_us = rows.minute_us - rows.minute_us[since]
    stalled: Bools = is_lagging & (lagging_us >= STALLED_MINUTES * MINUTE_US)
    return stalled
