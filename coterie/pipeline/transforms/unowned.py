"""Commits of a partition at a time when nobody had it and the group had members.

Commits and the times for which members had partitions come together by their group, in one worker;
a time is of a partition, and of its group.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from coterie.pipeline.codec.numbers import Bools, Int64s
from coterie.pipeline.schemas import TIMESTAMP
from coterie.pipeline.transforms.commit_runs import int64s, name_codes, row_keys

UNOWNED = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first_ts", TIMESTAMP),
        ("last_ts", TIMESTAMP),
        ("commits", pa.int64()),
    ]
)


def unowned(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow: the commits among the rows that were made while nobody had the partition.

    Only partitions of topics that the group had once count.

    Args:
        batches: all rows of some groups: commits with the columns of `UNOWNED`, several together or
            each on its own, from `from_ms` to `to_ms`; and times for which a member had a
            partition, whose `commits` is null.
    """
    given = [batch for batch in batches if batch.num_rows]
    if not given:
        return
    rows = pa.Table.from_batches(given).combine_chunks()
    asks = rows.column("commits").is_valid().to_numpy()
    group, topic = name_codes(rows, "group_id"), name_codes(rows, "topic")
    from_ms, to_ms = int64s(rows, "from_ms"), int64s(rows, "to_ms")
    pair = group * (int(topic.max(initial=0)) + 1) + topic
    wanted = asks & np.isin(pair, pair[~asks])
    wanted &= ~_touched(row_keys(rows), asks, from_ms, to_ms)
    wanted &= _touched(group, asks, from_ms, to_ms)
    found = rows.select(UNOWNED.names).filter(pa.array(wanted))
    yield from found.combine_chunks().to_batches()


def _touched(code: Int64s, asks: Bools, from_ms: Int64s, to_ms: Int64s) -> Bools:
    """Which rows' time is touched by a time of the same code that does not ask itself.

    One does if, of those that begin before the row ends, the latest end is not before its first.
    """
    at_ms = np.where(asks, to_ms, from_ms)
    order = np.lexsort((asks, at_ms, code))
    ends, place = np.unique(np.where(asks, 0, to_ms), return_inverse=True)
    # The code in front keeps the greatest so far within it; 0 is before any end.
    number = np.unique(code, return_inverse=True)[1]
    until = number * (len(ends) + 1) + np.where(asks, 0, place + 1)
    reached = np.empty(len(code), np.int64)
    reached[order] = np.maximum.accumulate(until[order]) % (len(ends) + 1)
    touched: Bools = (reached > 0) & (ends[np.maximum(reached - 1, 0)] >= from_ms)
    return touched
