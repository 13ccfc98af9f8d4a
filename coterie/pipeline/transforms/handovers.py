"""Find the commits that were the newest when a partition changed its owner.

Tasks find them in each stretch of commits; `progress.with_handover` joins them with the moves.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.codec.numbers import Bools, Int64s
from coterie.pipeline.schemas import TIMESTAMP
from coterie.pipeline.transforms.commit_runs import (
    MINUTE_US,
    NAMES,
    Stretch,
    int64s,
)

# The times at which partitions moved or their owners left, and the newest commits that a stretch
# has for them.
MOMENTS = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("at_ts", TIMESTAMP),
    ]
)
FOUND = pa.schema(
    [
        *MOMENTS,
        ("log_offset", pa.int64()),
        ("committed_offset", pa.int64()),
        ("commit_ts", TIMESTAMP),
    ]
)


def with_dictionaries(moments: pa.Table) -> pa.Table:
    """Encode the names of moments as dictionaries, of which a stretch contains few entries.

    Args:
        moments: rows with the columns of `MOMENTS`.
    """
    for name in NAMES:
        index = moments.schema.get_field_index(name)
        moments = moments.set_column(index, name, moments.column(name).dictionary_encode())
    return moments


def newest_commits(rows: pa.RecordBatch, moments: pa.Table) -> pa.RecordBatch:
    """Find for each moment the newest commit of the partition in the same minute up to then.

    Args:
        rows: commits with `COLUMNS`, in any order.
        moments: the result of `with_dictionaries`.

    Returns:
        Rows of `FOUND` for the moments with such a commit.
    """
    stretch = Stretch(rows)
    known = _Moments(stretch, moments)
    index, place = known.rows(stretch)
    if not len(index):
        return pa.RecordBatch.from_pylist([], FOUND)
    within = stretch.at_us[index] % MINUTE_US
    by_time = np.lexsort((within, place))
    # Rows are numbered in the order of the log within each place, and places follow each other. The
    # greatest number so far is therefore the newest row of the same place: rows of earlier places
    # have smaller numbers.
    by_offset = np.argsort(place, kind="stable")
    number = np.empty(len(index), np.int64)
    number[by_offset] = np.arange(len(index))
    newest = by_offset[np.maximum.accumulate(number[by_time])]
    commit_moments = (place * MINUTE_US + within)[by_time]
    found = np.searchsorted(commit_moments, known.moment, side="right") - 1
    hit = (found >= 0) & (place[newest[found]] == known.place)
    row = index[newest[found[hit]]]
    return pa.RecordBatch.from_arrays(
        [
            *stretch.names(row),
            pa.array(known.at_us[hit]).view(TIMESTAMP),
            pa.array(stretch.log_offset[row]),
            pa.array(stretch.offset[row], mask=stretch.deleted[row]),
            pa.array(stretch.at_us[row]).view(TIMESTAMP),
        ],
        schema=FOUND,
    )


class _Moments:
    """The moments for which a stretch can contain a commit.

    A place is the number of a partition of a group in one minute.
    """

    def __init__(self, stretch: Stretch, moments: pa.Table) -> None:
        group = _dictionary_index(moments.column("group_id"), stretch.groups)
        topic = _dictionary_index(moments.column("topic"), stretch.topics)
        partition = moments.column("partition").to_numpy().astype(np.int64)
        at_us = int64s(moments, "at_ts")
        self._most = int(stretch.partition.max(initial=0)) + 1
        self._topics = max(len(stretch.topics), 1)
        known = (group >= 0) & (topic >= 0) & (partition < self._most)
        if len(stretch):
            first, last = stretch.at_us.min() // MINUTE_US, stretch.at_us.max() // MINUTE_US
            known &= (at_us // MINUTE_US >= first) & (at_us // MINUTE_US <= last)
        at_us = at_us[known]
        pair = group[known] * self._topics + topic[known]
        self._pairs = np.unique(pair)
        keys = self._keys(pair, partition[known])
        self._known_keys = np.unique(keys)
        self._minutes = np.unique(at_us // MINUTE_US)
        place = self._places(keys, at_us // MINUTE_US)
        self._known_places = np.unique(place)
        order = np.argsort(place * MINUTE_US + at_us % MINUTE_US, kind="stable")
        self.at_us, self.place = at_us[order], place[order]
        self.moment = self.place * MINUTE_US + self.at_us % MINUTE_US

    def rows(self, stretch: Stretch) -> tuple[Int64s, Int64s]:
        """Return the indexes of the rows at one of the places, and these places."""
        if not len(self.place):
            return (np.zeros(0, np.int64),) * 2
        minute = stretch.at_us // MINUTE_US
        pair = stretch.group * self._topics + stretch.topic
        index = np.flatnonzero(_within(minute, self._minutes) & _within(pair, self._pairs))
        keys = self._keys(pair[index], stretch.partition[index])
        among = _within(keys, self._known_keys)
        index, keys = index[among], keys[among]
        place = self._places(keys, minute[index])
        known = _within(place, self._known_places)
        return index[known], place[known]

    def _keys(self, pair: Int64s, partition: Int64s) -> Int64s:
        """Return a number for each partition of a group; `pair` must be one of `_pairs`."""
        return np.searchsorted(self._pairs, pair) * self._most + partition

    def _places(self, keys: Int64s, minute: Int64s) -> Int64s:
        key = np.searchsorted(self._known_keys, keys)
        return key * len(self._minutes) + np.searchsorted(self._minutes, minute)


def _dictionary_index(names: pa.ChunkedArray, known: pa.Array) -> Int64s:
    """Return the index of each name in `known`; -1 for other names."""
    column = names.combine_chunks()
    places = pc.index_in(column.dictionary, known).fill_null(-1).to_numpy()
    index: Int64s = places.astype(np.int64)[column.indices.to_numpy()]
    return index


def _within(values: Int64s, known: Int64s) -> Bools:
    """Return which values are among the sorted known ones."""
    place = np.minimum(np.searchsorted(known, values), len(known) - 1)
    among: Bools = known[place] == values
    return among
