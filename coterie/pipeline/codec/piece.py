"""A piece of a log with its records opened: what every view decodes from."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from coterie.pipeline.codec import columns
from coterie.pipeline.codec import damage as reasons
from coterie.pipeline.codec.damage import Damage, damage
from coterie.pipeline.codec.framing import Batches
from coterie.pipeline.codec.numbers import Buffer, Int64s
from coterie.pipeline.codec.records import Records, is_control, open_records
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.log_records import UnknownValueVersion

# In place of a record type where a record has none: markers, null keys, keys of one byte.
NO_KEY_TYPE = -32768


class Source(NamedTuple):
    """Where bytes come from: the log's partition, its file, the base offset in the file's name."""

    log_partition: int
    file: str
    segment_base: int


class DecodedView(NamedTuple):
    """Rows of a view, and what of the piece could not be made a row."""

    rows: pa.RecordBatch
    damages: list[Damage]


@dataclass(frozen=True, slots=True)
class Piece:
    """Batches and records of a piece. Positions count from `buffer`'s first byte, which stands at
    `file_position` of the source's file; opened blocks stand behind the piece's own bytes."""

    source: Source
    file_position: int
    buffer: Buffer
    batches: Batches
    records: Records
    key_types: Int64s

    def within(self, first_offset: int, end_offset: int) -> "Piece":
        """The same with only the records from `first_offset` to before `end_offset`."""
        offset = self.records.offset
        inside = (offset >= first_offset) & (offset < end_offset)
        if inside.all():
            return self
        return replace(self, records=self.records.chosen(inside), key_types=self.key_types[inside])

    def log_partitions(self, count: int) -> pa.Array:
        """The column `log_partition` of so many rows."""
        return pa.array(np.full(count, self.source.log_partition, np.int32))

    def place(self, records: Records, index: int) -> dict[str, Any]:
        """The columns that tell where one record stands."""
        return {
            "log_partition": self.source.log_partition,
            "log_offset": int(records.offset[index]),
            "record_ts": columns.timestamp_us(int(records.timestamp_ms[index])),
        }

    def key_and_value(self, records: Records, index: int) -> tuple[bytes | None, bytes | None]:
        """The key and value of one record."""
        return (
            self._bytes(records.key_start[index], records.key_size[index]),
            self._bytes(records.value_start[index], records.value_size[index]),
        )

    def _bytes(self, start: np.int64, size: np.int64) -> bytes | None:
        return None if size < 0 else self.buffer.data[int(start) : int(start + size)]


def open_piece(
    source: Source, file_position: int, buffer: Buffer, batches: Batches
) -> tuple[Piece, list[Damage]]:
    """Sound batches with their records opened, and what could not be opened."""
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


def closed_piece(source: Source, file_position: int, buffer: Buffer, batches: Batches) -> Piece:
    """Batches of which only the headers matter."""
    none = batches.chosen(slice(0, 0))
    records = open_records(buffer, none).records
    return Piece(source, file_position, buffer, batches, records, records.offset)


def decode_each(
    piece: Piece,
    chosen: "np.ndarray[Any, Any]",
    fields_of: Callable[[bytes, bytes | None], dict[str, Any]],
    schema: pa.Schema,
) -> DecodedView:
    """Rows of records that are decoded one by one, for views of which a log has few.

    Args:
        piece: whose records.
        chosen: which of them, a truth value for each; they have keys.
        fields_of: the columns that come from a key and a value; raises MalformedFrame.
        schema: of the view.
    """
    rows, damages = [], []
    for index in np.flatnonzero(chosen).tolist():
        key, value = piece.key_and_value(piece.records, index)
        assert key is not None, "it has a type"
        try:
            rows.append(piece.place(piece.records, index) | fields_of(key, value))
        except MalformedFrame as error:
            damages.append(damaged_record(piece, piece.records, index, error))
    return DecodedView(pa.RecordBatch.from_pylist(rows, schema), damages)


def damaged_record(piece: Piece, records: Records, index: int, error: MalformedFrame) -> Damage:
    """A record that `protocol` could not decode."""
    if isinstance(error, UnknownValueVersion):
        reason = reasons.UNKNOWN_VERSION
    elif isinstance(error.__context__, UnicodeDecodeError):
        reason = reasons.UTF8
    else:
        reason = reasons.BAD_LENGTH
    return record_damage(piece, records, index, reason, str(error))


def record_damage(piece: Piece, records: Records, index: int, reason: str, detail: str) -> Damage:
    """One record as damage: its bytes, at the position of its batch."""
    start, stop = int(records.start[index]), int(records.stop[index])
    offset = int(records.offset[index])
    found = damage(piece.buffer.data, start, stop, reason, detail, offset)
    return found._replace(position=int(piece.batches.position[records.batch[index]]))
