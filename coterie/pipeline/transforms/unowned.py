"""Find commits of a partition that no member owned while the group had members.

The commits of a group and the times for which its members owned partitions are compared together.
Each time of ownership is compared twice: as a time of its partition, and as a time in which the
group had members.

A consumer group (KIP-848) owns a topic under its id where its name is not known. A commit in such a
time may be of that topic, so it is not judged.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.codec.numbers import Bools, Int64s
from coterie.pipeline.schemas import TIMESTAMP
from coterie.pipeline.transforms.commit_runs import int64s, name_codes, row_keys

# A topic id as Kafka prints it. A name may look like one; then some commits are not judged.
_TOPIC_ID = "^[A-Za-z0-9_-]{22}$"

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
    """Return the commits that were made while no member owned the partition.

    Only topics of which the group once owned a partition count, and only commits while the names of
    all topics that the group owns are known [pipeline/zombie-commit].

    Args:
        batches: all rows of some groups, with the columns of `UNOWNED`, and `from_ms` and `to_ms`:
            commits, several together or each on its own; and times of ownership, whose `commits` is
            null.
    """
    given = [batch for batch in batches if batch.num_rows]
    if not given:
        return
    rows = pa.Table.from_batches(given).combine_chunks()
    is_commit = rows.column("commits").is_valid().to_numpy()
    group, topic = name_codes(rows, "group_id"), name_codes(rows, "topic")
    from_ms, to_ms = int64s(rows, "from_ms"), int64s(rows, "to_ms")
    pair = group * (int(topic.max(initial=0)) + 1) + topic
    unowned_rows = is_commit & np.isin(pair, pair[~is_commit])
    unowned_rows &= ~_overlapped(row_keys(rows), is_commit, from_ms, to_ms)
    unowned_rows &= _overlapped(group, is_commit, from_ms, to_ms)
    named_by_id = pc.match_substring_regex(rows.column("topic"), _TOPIC_ID).to_numpy()
    if named_by_id.any():
        other = np.where(is_commit | named_by_id, group, -1)
        unowned_rows &= ~_overlapped(other, is_commit, from_ms, to_ms)
    found = rows.select(UNOWNED.names).filter(pa.array(unowned_rows))
    yield from found.combine_chunks().to_batches()


def _overlapped(code: Int64s, is_commit: Bools, from_ms: Int64s, to_ms: Int64s) -> Bools:
    """Return which commits overlap a time of ownership with the same code.

    A commit does if the latest end of all ownership that begins before the commit's end is not
    before the commit's beginning. The latest end so far is a running maximum over rows sorted by
    code and time.
    """
    at_ms = np.where(is_commit, to_ms, from_ms)
    order = np.lexsort((is_commit, at_ms, code))
    ends, place = np.unique(np.where(is_commit, 0, to_ms), return_inverse=True)
    # Ends are replaced by their ranks, and the code is added as the leading part of the number. So
    # the running maximum starts again with each code. Rank 0 stands for no end at all.
    number = np.unique(code, return_inverse=True)[1]
    until = number * (len(ends) + 1) + np.where(is_commit, 0, place + 1)
    reached = np.empty(len(code), np.int64)
    reached[order] = np.maximum.accumulate(until[order]) % (len(ends) + 1)
    overlapped: Bools = (reached > 0) & (ends[np.maximum(reached - 1, 0)] >= from_ms)
    return overlapped
