"""Which commits of transactions count: those whose marker says commit.

A transaction's commits count from the run on that reads its marker
[group-log/transactions].
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.codec.commits import KEY_TYPES as COMMIT_KEY_TYPES
from coterie.pipeline.codec.numbers import Bools, Int64s
from coterie.pipeline.tables import TABLES
from coterie.protocol.record_batch_layout import CONTROL, TRANSACTIONAL

_COMMIT_MARKER = b"\x00\x01"

MARKERS = pa.schema(
    [
        ("input", pa.string()),
        ("log_partition", pa.int32()),
        ("producer_id", pa.int64()),
        ("log_offset", pa.int64()),
        ("commits", pa.bool_()),
    ]
)
# What `markers` needs of `log_records`.
MARKER_COLUMNS = pa.schema(
    [
        TABLES["log_records"].schema.field(name)
        for name in (*MARKERS.names[:-1], "attributes", "key")
    ]
)


def has_attribute(rows: pa.RecordBatch | pa.Table, attribute: int) -> pa.Array:
    """Return which records are in batches with an attribute bit."""
    # Rows that an earlier version read through a connector have no attributes; they are committed.
    attributes = rows.column("attributes").fill_null(0)
    return pc.not_equal(pc.bit_wise_and(attributes, pa.scalar(attribute, pa.int16())), 0)


def markers(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the markers among rows of `log_records` as rows of `MARKERS`."""
    found = rows.filter(has_attribute(rows, CONTROL))
    kinds = pc.binary_slice(found.column("key"), 2, 4)
    columns = [found.column(name) for name in MARKERS.names[:-1]]
    commits = pc.equal(kinds, pa.scalar(_COMMIT_MARKER, pa.binary())).fill_null(False)
    return pa.RecordBatch.from_arrays([*columns, commits], schema=MARKERS)


class Transactions:
    """The markers of all transactions, old and new."""

    def __init__(self, old: Iterable[pa.RecordBatch], new: Iterable[pa.RecordBatch]) -> None:
        """Sort the markers by producer and offset.

        Args:
            old: markers that earlier runs have read, as rows of `MARKERS`.
            new: those that this run has read.
        """
        listed: dict[tuple[Any, ...], list[tuple[int, bool]]] = {}
        for some, is_new in ((old, False), (new, True)):
            for batch in some:
                for row in batch.to_pylist():
                    key = row["input"], row["log_partition"], row["producer_id"]
                    ends = listed.setdefault(key, [])
                    ends.append((row["log_offset"], row["commits"] and is_new))
        self._ends: dict[tuple[Any, ...], tuple[Int64s, Bools]] = {}
        for key, ends in listed.items():
            ends.sort()
            self._ends[key] = (
                np.array([offset for offset, _ in ends], np.int64),
                np.array([counts for _, counts in ends], np.bool_),
            )

    def committed(self, rows: pa.RecordBatch) -> Bools:
        """Return which rows of `log_records` are commits of transactions that count from now on."""
        is_commit = pc.is_in(rows.column("key_type"), pa.array(COMMIT_KEY_TYPES, pa.int16()))
        chosen = pc.and_(is_commit, has_attribute(rows, TRANSACTIONAL))
        chosen = pc.and_(chosen, pc.invert(has_attribute(rows, CONTROL)))
        index = np.flatnonzero(chosen.fill_null(False).to_numpy(zero_copy_only=False))
        counts = np.zeros(rows.num_rows, np.bool_)
        if not len(index):
            return counts
        some = rows.take(pa.array(index))
        names = [some.column(name).to_pylist() for name in MARKERS.names[:3]]
        keys = list(zip(*names, strict=True))
        offsets = some.column("log_offset").to_numpy()
        places: dict[tuple[Any, ...], list[int]] = {}
        for place, key in enumerate(keys):
            places.setdefault(key, []).append(place)
        for key, of_key in places.items():
            counts[index[of_key]] = self._counted(key, offsets[of_key])
        return counts

    def _counted(self, key: tuple[Any, ...], offsets: npt.NDArray[Any]) -> Bools:
        """Return which records of a producer's transactions count, by their offsets."""
        if key not in self._ends:
            return np.zeros(len(offsets), np.bool_)
        ends, counts = self._ends[key]
        following = np.searchsorted(ends, offsets)
        is_ended: Bools = following < len(ends)
        return is_ended & counts[np.minimum(following, len(ends) - 1)]
