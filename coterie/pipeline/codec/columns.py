"""Make Arrow columns from arrays of positions and numbers, without a Python object per value."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.codec.numbers import Bools, Buffer, Int64s
from coterie.pipeline.records import MAX_TIMESTAMP_MS, topic_id_text
from coterie.pipeline.schemas import TIMESTAMP

_ID_BYTES = 16
_NOT_ASCII = 0x80
# Offsets of an Arrow string column are int32.
_MAX_BUFFER_BYTES = (1 << 31) - 1


def texts(buffer: Buffer, starts: Int64s, sizes: Int64s, kind: pa.DataType) -> pa.Array:
    """Return a column of strings or bytes of the buffer; a negative size is null.

    UTF-8 is not checked. The buffer itself becomes an Arrow array whose elements are, by turns, a
    text and the bytes between this text and the next one. Taking every second element copies the
    texts and nothing else.
    """
    assert len(buffer) <= _MAX_BUFFER_BYTES, "a piece with its decompressed blocks fits into int32"
    count = len(starts)
    null = sizes < 0
    if not (sizes > 0).any():
        nothing = pa.py_buffer(np.zeros(count + 1, np.int32))
        empty = pa.Array.from_buffers(kind, count, [None, nothing, pa.py_buffer(b"")])
        return pc.if_else(pa.array(null), None, empty) if null.any() else empty
    # Texts that were found wrong have size 0 and any position; nothing is read for them.
    starts = np.minimum(starts, len(buffer))
    stops = np.minimum(starts + np.maximum(sizes, 0), len(buffer))
    index = np.arange(0, 2 * count, 2, dtype=np.int32)
    if count > 1 and not bool((stops[:-1] <= starts[1:]).all()):
        # Decompressed blocks follow the rest, so their records are not in the buffer's order.
        order = np.argsort(starts, kind="stable")
        index[order] = np.arange(0, 2 * count, 2, dtype=np.int32)
        starts, stops = starts[order], stops[order]
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = starts
    offsets[1::2] = stops
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(buffer.data)]
    spans = pa.Array.from_buffers(kind, 2 * count - 1, buffers)
    return spans.take(pa.array(index, mask=null if null.any() else None))


def invalid_utf8(column: pa.Array) -> Bools | None:
    """Return which strings of a column are not UTF-8; None if all are."""
    data = column.buffers()[2]
    if data is None or not data.size or np.frombuffer(data, np.uint8).max() < _NOT_ASCII:
        return None
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return np.array([not _is_utf8(text) for text in column.view(pa.binary()).to_pylist()])
    return None


def _is_utf8(text: bytes | None) -> bool:
    try:
        str(text or b"", "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def numbers(values: Int64s, kind: pa.DataType, null: Bools | None = None) -> pa.Array:
    """Return integers as a column of a narrower type that holds them all."""
    mask = null if null is not None and null.any() else None
    if mask is not None and mask.all():
        return pa.nulls(len(mask), kind)
    return pa.array(values.astype(kind.to_pandas_dtype(), copy=False), kind, mask=mask)


def flags(values: Bools) -> pa.Array:
    """Return a boolean column."""
    return pa.array(values, pa.bool_())


def timestamps(epoch_ms: Int64s, null: Bools | None = None) -> pa.Array:
    """Return epoch milliseconds as timestamps; null outside the calendar, as Kafka's -1 is."""
    none = (epoch_ms < 0) | (epoch_ms > MAX_TIMESTAMP_MS)
    if null is not None:
        none |= null
    if not none.any():
        return pa.array(epoch_ms * 1000).view(TIMESTAMP)
    if none.all():
        return pa.nulls(len(none), TIMESTAMP)
    return pa.array(np.where(none, 0, epoch_ms) * 1000, mask=none).view(TIMESTAMP)


def topic_ids(ids: npt.NDArray[np.void], present: Bools) -> pa.Array:
    """Return ids of 16 bytes in Kafka's notation, url-safe base64; null if absent or all zeros."""
    count = len(ids)
    if not present.any():
        return pa.nulls(count, pa.string())
    # A request commits one topic after the other, so equal ids follow each other. The notation is
    # computed once for each run of equal ids.
    high, low = ids.view(np.int64).reshape(count, 2).T
    begins = np.ones(count, np.bool_)
    begins[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    runs = np.ascontiguousarray(ids[begins])
    kind = pa.binary(_ID_BYTES)
    few = pa.Array.from_buffers(kind, len(runs), [None, pa.py_buffer(runs)]).dictionary_encode()
    names = pa.array([topic_id_text(each) for each in few.dictionary.to_pylist()], pa.string())
    index = few.indices.to_numpy()[np.cumsum(begins) - 1]
    absent = ~present
    return names.take(pa.array(index, mask=absent if absent.any() else None))


def in_order(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Merge rows that were decoded separately, in the order of the log."""
    table = pa.Table.from_batches(batches).sort_by("log_offset").combine_chunks()
    return pa.RecordBatch.from_arrays(
        [column.combine_chunks() for column in table.columns], schema=table.schema
    )
