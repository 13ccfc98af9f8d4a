"""What was committed of a partition when it changed hands: asked by moves, answered by commits.

A move is answered by the newest commit of its minute up to its moment, which a stretch of commits
says (`handed_over`), else by what the newest minute before ended with. Questions and answers of a
group come together in one worker, where each question finds its answer (`answered`).
"""

from collections.abc import Iterable, Iterator

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
    row_keys,
)

# Who asks for the newest offset at a moment, and what a stretch answers.
WANTED = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("at_ts", TIMESTAMP),
    ]
)
HANDED = pa.schema([*WANTED, ("log_offset", pa.int64()), ("committed_offset", pa.int64())])


def as_wanted(moments: pa.Table) -> pa.Table:
    """Moments for `handed_over`: their names as dictionaries, of which a stretch knows few.

    Args:
        moments: with the columns of `WANTED`.
    """
    for name in NAMES:
        index = moments.schema.get_field_index(name)
        moments = moments.set_column(index, name, moments.column(name).dictionary_encode())
    return moments


def handed_over(rows: pa.RecordBatch, wanted: pa.Table) -> pa.RecordBatch:
    """For moments, the newest commit of the partition in the same minute up to then; see `HANDED`.

    Args:
        rows: with `COLUMNS`, in any order.
        wanted: of `as_wanted`.
    """
    stretch = Stretch(rows)
    asked = _Asked(stretch, wanted)
    chosen = asked.rows(stretch)
    if not len(chosen[0]):
        return pa.RecordBatch.from_pylist([], HANDED)
    index, place = chosen
    within = stretch.at_us[index] % MINUTE_US
    by_time = np.lexsort((within, place))
    # A row's number in the log's order, place by place: the greatest so far is the newest one, and
    # never one of another place, for those have smaller numbers.
    by_offset = np.argsort(place, kind="stable")
    number = np.empty(len(index), np.int64)
    number[by_offset] = np.arange(len(index))
    newest = by_offset[np.maximum.accumulate(number[by_time])]
    moments = (place * MINUTE_US + within)[by_time]
    found = np.searchsorted(moments, asked.moment, side="right") - 1
    hit = (found >= 0) & (place[newest[found]] == asked.place)
    row = index[newest[found[hit]]]
    return pa.RecordBatch.from_arrays(
        [
            *stretch.names(row),
            pa.array(asked.at_us[hit]).view(TIMESTAMP),
            pa.array(stretch.log_offset[row]),
            pa.array(stretch.offset[row], mask=stretch.deleted[row]),
        ],
        schema=HANDED,
    )


class _Asked:
    """The wanted moments that a stretch may know something about.

    A place is a partition of a group in a minute, by a number.
    """

    def __init__(self, stretch: Stretch, wanted: pa.Table) -> None:
        group = _looked_up(wanted.column("group_id"), stretch.groups)
        topic = _looked_up(wanted.column("topic"), stretch.topics)
        partition = wanted.column("partition").to_numpy().astype(np.int64)
        at_us = int64s(wanted, "at_ts")
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
        """Which rows are at such a place, and at which."""
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
        """A number for a partition of a group; `pair` is one that is asked for."""
        return np.searchsorted(self._pairs, pair) * self._most + partition

    def _places(self, keys: Int64s, minute: Int64s) -> Int64s:
        key = np.searchsorted(self._known_keys, keys)
        return key * len(self._minutes) + np.searchsorted(self._minutes, minute)


def _looked_up(names: pa.ChunkedArray, known: pa.Array) -> Int64s:
    """The place of each name among the known ones; -1 for others."""
    column = names.combine_chunks()
    places = pc.index_in(column.dictionary, known).fill_null(-1).to_numpy()
    index: Int64s = places.astype(np.int64)[column.indices.to_numpy()]
    return index


def _within(values: Int64s, known: Int64s) -> Bools:
    """Which values are among the sorted known ones."""
    place = np.minimum(np.searchsorted(known, values), len(known) - 1)
    among: Bools = known[place] == values
    return among


# What a row that `answered` is given is; of one moment the later kinds count for more.
ENDED, SAID, ASKED = 0, 1, 2


def answered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow: moves with `committed_at_handover`.

    Args:
        batches: all rows of some groups, each with a `kind`: moves (`ASKED`); what commits say to
            them (`SAID`), of which the greatest `log_offset` counts; and what minutes ended with
            (`ENDED`), from their `at_ts` on.
    """
    given = [batch for batch in batches if batch.num_rows]
    if not given:
        return
    rows = pa.Table.from_batches(given).combine_chunks()
    kind = rows.column("kind").to_numpy()
    asked = np.flatnonzero(kind == ASKED)
    if not len(asked):
        return
    # What has no time is before everything.
    key, at_us, log_offset = row_keys(rows), int64s(rows, "at_ts"), int64s(rows, "log_offset")
    order = np.lexsort((log_offset, kind, at_us, key))
    # The place of the newest answer at or before each row, in this order.
    places = np.arange(len(order))
    is_answer = (kind != ASKED)[order]
    newest = np.maximum.accumulate(np.where(is_answer, places, -1))
    place = np.empty(len(order), np.int64)
    place[order] = newest
    answer = order[np.maximum(place[asked], 0)]
    is_found = (place[asked] >= 0) & (key[answer] == key[asked])
    moves = rows.drop_columns(["kind", "log_offset", "committed_offset"]).take(pa.array(asked))
    offsets = rows.column("committed_offset").take(pa.array(answer, mask=~is_found))
    yield from moves.append_column("committed_at_handover", offsets).combine_chunks().to_batches()
