"""A piece of a log with its records decoded, from which every view takes its rows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from coterie.pipeline.codec import damage as reasons
from coterie.pipeline.codec.damage import Damage, damage
from coterie.pipeline.codec.framing import Batches
from coterie.pipeline.codec.numbers import Buffer, Int64s
from coterie.pipeline.codec.records import Records, is_control, open_records
from coterie.pipeline.records import timestamp_us
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.record_types import UnknownValueVersion

# The record type of records without one: markers, null keys, keys of one byte.
NO_KEY_TYPE = -32768


class Source(NamedTuple):
    """The origin of bytes: the log's partition, its file, the base offset in the file's name."""

    log_partition: int
    file: str
    segment_base: int


class DecodedView(NamedTuple):
    """Rows of a view, and the damage that was found while they were decoded."""

    rows: pa.RecordBatch
    damages: list[Damage]


@dataclass(frozen=True, slots=True)
class Piece:
    """The batches and records of a piece.

    Positions count from the first byte of `buffer`, which is at `file_position` of the source's
    file. Decompressed blocks follow the piece's own bytes in `buffer`.
    """

    source: Source
    file_position: int
    buffer: Buffer
    batches: Batches
    records: Records
    key_types: Int64s

    def within(self, first_offset: int, end_offset: int) -> "Piece":
        """Return the piece with only the records from `first_offset` to before `end_offset`."""
        offset = self.records.offset
        inside = (offset >= first_offset) & (offset < end_offset)
        if inside.all():
            return self
        return replace(self, records=self.records.select(inside), key_types=self.key_types[inside])

    def log_partitions(self, count: int) -> pa.Array:
        """Return the column `log_partition` of `count` rows."""
        return pa.array(np.full(count, self.source.log_partition, np.int32))

    def place(self, records: Records, index: int) -> dict[str, Any]:
        """Return the columns with the position and time of one record."""
        return {
            "log_partition": self.source.log_partition,
            "log_offset": int(records.offset[index]),
            "record_ts": timestamp_us(int(records.timestamp_ms[index])),
        }

    def key_and_value(self, records: Records, index: int) -> tuple[bytes | None, bytes | None]:
        """Return the key and value of one record."""
        return (
            self._bytes(records.key_start[index], records.key_size[index]),
            self._bytes(records.value_start[index], records.value_size[index]),
        )

    def _bytes(self, start: np.int64, size: np.int64) -> bytes | None:
        return None if size < 0 else self.buffer.data[int(start) : int(start + size)]


def open_piece(
    source: Source, file_position: int, buffer: Buffer, batches: Batches
) -> tuple[Piece, list[Damage]]:
    """Decode the records of valid batches.

    Returns:
        The piece, and the blocks that could not be decompressed.
    """
    opened = open_records(buffer, batches)
    records = opened.records
    typed = records.key_size >= 2
    control = is_control(batches)
    if control.any():
        typed &= ~control[records.batch]
    key_types = opened.buffer.read(">i2", records.key_start)
    key_types[~typed] = NO_KEY_TYPE
    piece = Piece(source, file_position, opened.buffer, batches, records, key_types)
    return piece, opened.damages


def piece_of_headers(source: Source, file_position: int, buffer: Buffer, batches: Batches) -> Piece:
    """Return batches without their records, for views that need only the headers."""
    none = batches.select(slice(0, 0))
    records = open_records(buffer, none).records
    return Piece(source, file_position, buffer, batches, records, records.offset)


def decode_each(
    piece: Piece,
    chosen: "np.ndarray[Any, Any]",
    fields_of: Callable[[bytes, bytes | None], dict[str, Any]],
    schema: pa.Schema,
) -> DecodedView:
    """Decode records one by one, for views of which a log has few records.

    Args:
        piece: the piece with the records.
        chosen: a truth value for each record, whether to decode it; decoded ones have keys.
        fields_of: returns the columns that come from a key and a value; raises MalformedFrame.
        schema: the view's schema.
    """
    rows, damages = [], []
    for index in np.flatnonzero(chosen).tolist():
        key, value = piece.key_and_value(piece.records, index)
        assert key is not None, "a record with a type has a key"
        try:
            rows.append(piece.place(piece.records, index) | fields_of(key, value))
        except MalformedFrame as error:
            damages.append(damaged_record(piece, piece.records, index, error))
    return DecodedView(pa.RecordBatch.from_pylist(rows, schema), damages)


def damaged_record(piece: Piece, records: Records, index: int, error: MalformedFrame) -> Damage:
    """Return a record that `protocol` could not decode as damage."""
    if isinstance(error, UnknownValueVersion):
        reason = reasons.UNKNOWN_VERSION
    elif isinstance(error.__context__, UnicodeDecodeError):
        reason = reasons.UTF8
    else:
        reason = reasons.BAD_LENGTH
    return record_damage(piece, records, index, reason, str(error))


def record_damage(piece: Piece, records: Records, index: int, reason: str, detail: str) -> Damage:
    """Return one record as damage: its bytes, at the position of its batch."""
    start, stop = int(records.start[index]), int(records.stop[index])
    offset = int(records.offset[index])
    found = damage(piece.buffer.data, start, stop, reason, detail, offset)
    return found._replace(position=int(piece.batches.position[records.batch[index]]))
