"""Sum the records of the group log in workers: by segment and key, and by batch.

As with commits (`commit_runs`), a worker sums each stretch of rows that it reads, and `health` adds
the sums. The first and the last batch of a stretch may continue in its neighbours, so these two are
reported with their base offsets, and the others are counted.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.codec.numbers import Int64s
from coterie.protocol.record_batch_layout import HAS_DELETE_HORIZON

COLUMNS = (
    "input", "log_partition", "segment_base", "batch_base_offset", "log_offset", "attributes",
    "key", "value",
)  # fmt: skip
# Columns that pyarrow reads as dictionaries, because they have few different or often repeated
# values.
NAMES = ("input", "key", "value")

# The kinds of rows: a key of a segment; the inner batches of a segment within a stretch; a batch at
# the border of a stretch, whose base offset is `first_offset`.
OF_KEY, OF_BATCHES, OF_BORDER = 0, 1, 2

# `bytes` are those of keys and values.
SUMS = pa.schema(
    [
        ("input", pa.string()),
        ("log_partition", pa.int32()),
        ("segment_base", pa.int64()),
        ("kind", pa.int8()),
        ("key", pa.binary()),
        ("records", pa.int64()),
        ("tombstones", pa.int64()),
        ("bytes", pa.int64()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("batches", pa.int64()),
        ("horizon_batches", pa.int64()),
    ]
)


def segment_sums(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the sums of some rows of `log_records` as rows of `SUMS`.

    Args:
        rows: rows with `COLUMNS`, in any order.
    """
    if not rows.num_rows:
        return pa.RecordBatch.from_pylist([], SUMS)
    segment, of_segment = _segments(rows)
    parts = [_by_key(rows, segment, of_segment), *_by_batch(rows, segment, of_segment)]
    (found,) = pa.concat_tables(parts).combine_chunks().to_batches()
    return found


def _segments(rows: pa.RecordBatch) -> tuple[Int64s, list[pa.Array]]:
    """Return the number of each row's segment, and the columns of each segment by number."""
    inputs = _dictionary(rows.column("input"))
    fields = np.stack(
        [
            inputs.indices.to_numpy().astype(np.int64),
            rows.column("log_partition").to_numpy().astype(np.int64),
            rows.column("segment_base").to_numpy(),
        ]
    )
    # Neighbouring rows are nearly always of the same segment. Sorting only the rows at which the
    # segment changes avoids the most expensive step.
    changes = np.ones(rows.num_rows, np.bool_)
    changes[1:] = (fields[:, 1:] != fields[:, :-1]).any(axis=0)
    few, number = np.unique(fields[:, changes], axis=1, return_inverse=True)
    of_segment = [
        inputs.dictionary.take(pa.array(few[0])),
        pa.array(few[1].astype(np.int32)),
        pa.array(few[2]),
    ]
    segment: Int64s = number.reshape(-1)[np.cumsum(changes) - 1]
    return segment, of_segment


def _by_key(rows: pa.RecordBatch, segment: Int64s, of_segment: list[pa.Array]) -> pa.Table:
    keys, values = (_dictionary(rows.column(name)) for name in ("key", "value"))
    # Records without a key get the number behind the last key.
    none = len(keys.dictionary)
    key = keys.indices.fill_null(none).to_numpy().astype(np.int64)
    no_value = values.indices.is_null().to_numpy(zero_copy_only=False)
    size = _sizes(keys) + _sizes(values)
    code = segment * (none + 1) + key
    order = np.argsort(code, kind="stable")
    code = code[order]
    starts = np.flatnonzero(np.append(True, code[1:] != code[:-1]))
    log_offset = rows.column("log_offset").to_numpy()[order]
    tombstones = (no_value & (key != none))[order].astype(np.int64)
    first = order[starts]
    without = key[first] == none
    return _table(
        [column.take(pa.array(segment[first])) for column in of_segment],
        OF_KEY,
        key=keys.dictionary.take(pa.array(key[first], mask=without if without.any() else None)),
        records=pa.array(np.diff(np.append(starts, len(code)))),
        tombstones=pa.array(np.add.reduceat(tombstones, starts)),
        bytes=pa.array(np.add.reduceat(size[order], starts)),
        first_offset=pa.array(np.minimum.reduceat(log_offset, starts)),
        last_offset=pa.array(np.maximum.reduceat(log_offset, starts)),
    )


def _by_batch(
    rows: pa.RecordBatch, segment: Int64s, of_segment: list[pa.Array]
) -> Iterator[pa.Table]:
    # The batches of rows that an earlier version read through a connector are unknown.
    known = rows.column("batch_base_offset").is_valid().to_numpy(zero_copy_only=False)
    base = rows.column("batch_base_offset").fill_null(0).to_numpy()[known]
    attributes = rows.column("attributes").fill_null(0).to_numpy().astype(np.int64)[known]
    segment = segment[known]
    # The rows of a batch follow each other.
    begins = np.ones(len(base), np.bool_)
    begins[1:] = (base[1:] != base[:-1]) | (segment[1:] != segment[:-1])
    base, segment = base[begins], segment[begins]
    horizon = (attributes[begins] & HAS_DELETE_HORIZON != 0).astype(np.int64)
    for number in np.unique(segment).tolist():
        chosen = np.flatnonzero(segment == number)
        borders = np.unique(chosen[[0, -1]])
        inner = chosen[1:-1]
        for kind, index, counted in ((OF_BATCHES, inner[:1], inner), (OF_BORDER, borders, None)):
            if not len(index):
                continue
            count = np.ones(len(index), np.int64) if counted is None else [len(counted)]
            horizons = horizon[index] if counted is None else [int(horizon[counted].sum())]
            place = pa.array(segment[index])
            yield _table(
                [column.take(place) for column in of_segment],
                kind,
                first_offset=pa.array(base[index]),
                batches=pa.array(count),
                horizon_batches=pa.array(horizons),
            )


def _table(of_segment: list[pa.Array], kind: int, **columns: pa.Array) -> pa.Table:
    """Return rows of `SUMS` of one kind; columns that are not given are null."""
    count = len(of_segment[0])
    rest = [
        columns[field.name] if field.name in columns else pa.nulls(count, field.type)
        for field in list(SUMS)[4:]
    ]
    kinds = pa.array(np.full(count, kind, np.int8))
    return pa.Table.from_arrays([*of_segment, kinds, *rest], schema=SUMS)


def _dictionary(column: pa.Array) -> pa.DictionaryArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _sizes(column: pa.DictionaryArray) -> Int64s:
    """Return the size of each value; 0 for null."""
    sizes = pc.binary_length(column.dictionary).take(column.indices).fill_null(0)
    found: Int64s = sizes.to_numpy().astype(np.int64)
    return found
