"""Decoding one segment piece by piece: framing, order, records, view, and what was left out.

Pieces overlap by a batch: the last one of a piece is decoded with the next, when its right
neighbour is known. What is damaged belongs to the range of the sound batch behind it, and at the
end of a segment to the range that goes on in the next; so ranges read side by side tell every
damage once, and a stream tells it when it goes past it.
"""

from typing import NamedTuple

import pyarrow as pa

from coterie.pipeline.codec.damage import Damage
from coterie.pipeline.codec.framing import Batches, Framed, frame
from coterie.pipeline.codec.numbers import Buffer
from coterie.pipeline.codec.order import check_order
from coterie.pipeline.codec.piece import Source, closed_piece, open_piece
from coterie.pipeline.codec.views import DECODERS, HEADERS_ONLY

# Numpy's calls cost nothing beside this many bytes, and it stays in the processor's cache:
# measured, flat from 1 to 8 MiB, several times slower at 64 KiB and at whole segments.
CHUNK_BYTES = 4 << 20
# A piece grows by this while it does not hold two whole batches.
CHUNK_GROWTH = 4

END_OF_LOG = (1 << 63) - 1


class Decoded(NamedTuple):
    """What came of one piece: rows, damage with positions in the file, and how many bytes of the
    piece are done with; none if the piece is too short and has to be given longer."""

    rows: pa.RecordBatch
    damages: list[Damage]
    consumed: int


class SegmentDecoder:
    """Decodes the pieces of one segment, given in order.

    Attributes:
        last_offset: the last offset of the batches seen so far.
        finished: whether the range's end has been seen; pieces behind it hold nothing of it.
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
        """Decode for a view.

        Args:
            view: a name in `schemas.VIEWS`.
            source: the segment.
            first_offset: records before it are of another range.
            end_offset: records from it on are, too.
            next_segment: the base offset of the segment that follows, where one does.
            crc: whether to check checksums. Without, damage may become rows.
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
        """The rows of a piece.

        Args:
            data: bytes of the file from the first that is not done with.
            file_position: where in the file they stand.
            final: whether the segment ends with them.
        """
        buffer = Buffer(data)
        framed = frame(buffer, final=final, crc=self._crc)
        batches, damages, consumed = self._ordered(data, framed, final=final)
        inside = self._inside(batches, damages, final=final)
        if self._headers_only:
            piece = closed_piece(self._source, file_position, buffer, inside)
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
        """The batches of a piece that can be decoded now, and how far that goes."""
        batches, consumed = framed.batches, framed.consumed
        below = self._below if final else None
        kept, misplaced = check_order(data, batches, above=self.last_offset, below=below)
        damages = framed.damages + misplaced
        if not final and len(kept) and kept.position[-1] == batches.position[-1]:
            # Its neighbour on the right is not in sight. Damage before it waits with it: whose it
            # is depends on where that batch belongs.
            kept = kept.chosen(slice(0, -1))
            consumed = int(kept.position[-1] + kept.length_bytes[-1]) if len(kept) else 0
            damages = [each for each in damages if each.position < consumed]
        if len(kept):
            self.last_offset = int(kept.last_offset[-1])
        return kept, damages, consumed

    def _inside(self, batches: Batches, damages: list[Damage], *, final: bool) -> Batches:
        """The batches of the range; of `damages` what belongs to it is left."""
        first, last = batches.base_offset, batches.last_offset
        end = batches.position + batches.length_bytes
        # A compressed entry of magic 0 or 1 tells its last offset only, and may begin before it.
        legacy = batches.magic < 2
        before = last < self._first_offset
        past = (first >= self._end_offset) & ~legacy
        low, high = 0, END_OF_LOG
        if before.any():
            low = int(end[before][-1])
        # Where the range goes on in the next segment, or has no end, so does what is damaged.
        goes_on = self._end_offset >= (END_OF_LOG if self._below is None else self._below)
        reached = bool(past.any()) or (len(batches) > 0 and last[-1] + 1 >= self._end_offset)
        if past.any() or (not goes_on and (reached or final)):
            high = int(end[~past][-1]) if not past.all() else 0
        damages[:] = [each for each in damages if low <= each.position < high]
        self.finished = bool(past.any()) or (reached and not goes_on)
        inside = ~(before | past)
        return batches if inside.all() else batches.chosen(inside)


def _position(found: Damage) -> int:
    return found.position
