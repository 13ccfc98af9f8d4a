"""The offsets that were committed when the ends of logs were requested [pipeline/lag].

A log end is a sample at one moment of a minute, and commits go on in that minute. A lag is computed
from the newest commit up to the sample. Otherwise a later run, which reads more of the minute's
commits, would change it.
"""

import numpy as np
import pyarrow as pa

from coterie.pipeline.codec.numbers import Bools, Int64s
from coterie.pipeline.schemas import TIMESTAMP
from coterie.pipeline.transforms.commit_runs import MINUTE_US, int64s, row_keys
from coterie.pipeline.transforms.handovers import MOMENTS

_KEY = MOMENTS.names[:3]
# A minute's number since 1970 fits into this many bits.
_MINUTE_BITS = 32


def place_minutes(place: Int64s, at_us: Int64s) -> Int64s:
    """Return a number for each place and minute; it grows with the place, then with the minute."""
    numbers: Int64s = (place << _MINUTE_BITS) + at_us // MINUTE_US
    return numbers


def moments_between_commits(
    minutes: pa.Table, place: Int64s, end_place: Int64s, end_at_us: Int64s
) -> pa.Table:
    """Return, as rows of `MOMENTS`, the samples before and after which the minute has commits.

    For other samples the minutes have the newest commit.

    Args:
        minutes: rows of `commit_runs.MINUTES`.
        place: the place of each of them.
        end_place, end_at_us: the place and the time of the newest log end of each place and minute,
            in this order.
    """
    known = place_minutes(end_place, end_at_us)
    if not len(known):
        return MOMENTS.empty_table()
    sought = place_minutes(place, int64s(minutes, "window_start_ts"))
    found = np.minimum(np.searchsorted(known, sought), len(known) - 1)
    at_us = end_at_us[found]
    between = (known[found] == sought) & (int64s(minutes, "first_ts") <= at_us)
    between &= at_us < int64s(minutes, "last_ts")
    index = np.flatnonzero(between)
    rows = minutes.select(_KEY).take(pa.array(index))
    return rows.append_column(MOMENTS.field("at_ts"), pa.array(at_us[index]).view(TIMESTAMP))


def newest_at(minutes: pa.Table, at_us: Int64s, found: pa.Table) -> tuple[Int64s, Bools]:
    """Return the newest committed offset at a moment of each minute, and where it is known.

    Args:
        minutes: rows of `commit_runs.MINUTES`.
        at_us: a moment for each of them.
        found: the results of `handovers.newest_commits`. If there are several for one moment, the
            one with the largest `log_offset` counts.
    """
    if not found.num_rows:
        return np.full(minutes.num_rows, -1), np.zeros(minutes.num_rows, np.bool_)
    keys = row_keys(pa.concat_tables([minutes.select(_KEY), found.select(_KEY)]))
    times = np.concatenate([at_us, int64s(found, "at_ts")])
    key = np.unique(keys, return_inverse=True)[1].reshape(-1)
    few_times, time = np.unique(times, return_inverse=True)
    moment = key * len(few_times) + time.reshape(-1)
    sought, known = moment[: minutes.num_rows], moment[minutes.num_rows :]
    order = np.lexsort((int64s(found, "log_offset"), known))
    place = np.searchsorted(known[order], sought, "right") - 1
    newest = order[np.maximum(place, 0)]
    offset = int64s(found, "committed_offset")[newest]
    is_known: Bools = (place >= 0) & (known[newest] == sought) & (offset >= 0)
    return np.where(is_known, offset, -1), is_known
