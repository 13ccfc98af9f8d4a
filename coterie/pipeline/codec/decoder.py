"""Decode one segment piece by piece: framing, order, records, view and damage.

The last batch of a piece is decoded with the next piece, because only then its right neighbour is
known. Damage belongs to the range of the valid batch behind it, and at the end of a segment to the
range that continues in the next segment. So ranges that are read in parallel report each damage
once, and a stream reports it when it passes it [pipeline/quarantine].
"""

from typing import NamedTuple

import pyarrow as pa

from coterie.pipeline.codec.damage import Damage
from coterie.pipeline.codec.framing import Batches, Framed, frame
from coterie.pipeline.codec.numbers import Buffer
from coterie.pipeline.codec.order import check_order
from coterie.pipeline.codec.piece import Source, open_piece, piece_of_headers
from coterie.pipeline.codec.views import DECODERS, HEADERS_ONLY

# For this many bytes the cost of numpy's calls is small, and they fit into the processor's cache.
# Measured: equally fast from 1 to 8 MiB, several times slower at 64 KiB and at whole segments.
CHUNK_BYTES = 4 << 20
# The factor by which a piece grows while it does not hold two whole batches.
CHUNK_GROWTH = 4

END_OF_LOG = (1 << 63) - 1


class Decoded(NamedTuple):
    """The result for one piece: rows, damage with positions in the file, and consumed bytes.

    `consumed` is 0 if the piece is too short. The caller must then give a longer one.
    """

    rows: pa.RecordBatch
    damages: list[Damage]
    consumed: int


class SegmentDecoder:
    """A decoder of the pieces of one segment, which are given in order.

    Attributes:
        last_offset: the last offset of the batches decoded so far.
        finished: whether the end of the range has been reached.
    """

    __slots__ = (
        "_below", "_crc", "_decode", "_end_offset", "_first_offset", "_headers_only", "_source",
        "finished", "last_offset",
    )  # fmt: skip

    def __init__(
        self,
        view: str,
        source: Source,
        *,
        first_offset: int = 0,
        end_offset: int = END_OF_LOG,
        next_segment: int | None = None,
        crc: bool = True,
    ) -> None:
        """Create a decoder for a view of a range of offsets.

        Args:
            view: a name in `DECODERS`.
            source: the segment.
            first_offset: the first offset of the range.
            end_offset: the first offset behind the range.
            next_segment: the base offset of the following segment, if there is one.
            crc: whether to check checksums. Without the check, damage may become rows.
        """
        self._decode = DECODERS[view]
        self._headers_only = view in HEADERS_ONLY
        self._source = source
        self._first_offset = first_offset
        self._end_offset = end_offset
        self._below = next_segment
        self._crc = crc
        self.last_offset = source.segment_base - 1
        self.finished = False

    def decode(self, data: bytes, file_position: int, *, final: bool) -> Decoded:
        """Decode a piece.

        Args:
            data: bytes of the file, from the first byte that is not consumed.
            file_position: their position in the file.
            final: whether the segment ends with them.
        """
        buffer = Buffer(data)
        framed = frame(buffer, final=final, crc=self._crc)
        batches, damages, consumed = self._ordered(data, framed, final=final)
        inside = self._inside(batches, damages, final=final)
        if self._headers_only:
            piece = piece_of_headers(self._source, file_position, buffer, inside)
        else:
            piece, unopened = open_piece(self._source, file_position, buffer, inside)
            piece = piece.within(self._first_offset, self._end_offset)
            damages += unopened
        rows, unreadable = self._decode(piece)
        found = [
            each._replace(position=each.position + file_position)
            for each in sorted(damages + unreadable, key=_position)
        ]
        return Decoded(rows, found, consumed)

    def _ordered(
        self, data: bytes, framed: Framed, *, final: bool
    ) -> tuple[Batches, list[Damage], int]:
        """Return the batches that can be decoded now, their damage, and the consumed bytes."""
        batches, consumed = framed.batches, framed.consumed
        below = self._below if final else None
        kept, misplaced = check_order(data, batches, above=self.last_offset, below=below)
        damages = framed.damages + misplaced
        if not final and len(kept) and kept.position[-1] == batches.position[-1]:
            # The right neighbour of the last batch is not in this piece. Damage before that batch
            # is left for the next piece too: the range of the batch is also that of the damage.
            kept = kept.select(slice(0, -1))
            consumed = int(kept.position[-1] + kept.length_bytes[-1]) if len(kept) else 0
            damages = [each for each in damages if each.position < consumed]
        if len(kept):
            self.last_offset = int(kept.last_offset[-1])
        return kept, damages, consumed

    def _inside(self, batches: Batches, damages: list[Damage], *, final: bool) -> Batches:
        """Return the batches of the range, and remove from `damages` what does not belong to it."""
        first, last = batches.base_offset, batches.last_offset
        end = batches.position + batches.length_bytes
        # A compressed entry of magic 0 or 1 has only its last offset, and may begin before it.
        legacy = batches.magic < 2
        before = last < self._first_offset
        past = (first >= self._end_offset) & ~legacy
        low, high = 0, END_OF_LOG
        if before.any():
            low = int(end[before][-1])
        # If the range continues in the next segment, damage at the end of this one belongs to it.
        goes_on = self._end_offset >= (END_OF_LOG if self._below is None else self._below)
        reached = bool(past.any()) or (len(batches) > 0 and last[-1] + 1 >= self._end_offset)
        if past.any() or (not goes_on and (reached or final)):
            high = int(end[~past][-1]) if not past.all() else 0
        damages[:] = [each for each in damages if low <= each.position < high]
        self.finished = bool(past.any()) or (reached and not goes_on)
        inside = ~(before | past)
        return batches if inside.all() else batches.select(inside)


def _position(found: Damage) -> int:
    return found.position
