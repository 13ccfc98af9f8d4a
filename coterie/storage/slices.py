"""Reading a segment from front to back in slices of whole batches, for the cleaner.

Nothing is cached here: the cleaner reads everything once or twice and then never again.
"""

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.record_batch_layout import (
    HEADER_BYTES,
    HEADER_UP_TO_MAGIC_BYTES,
    LENGTH,
    LOG_OVERHEAD_BYTES,
)
from coterie.protocol.records import BatchHeader, check_crc, read_header
from coterie.storage.batches import MAX_BATCH_BYTES, BadBatch
from coterie.storage.open_files import OpenFiles
from coterie.storage.segment import Segment


class Slices:
    """A position in a segment. `read` returns the next slice, and `skip` moves behind it.

    Attributes:
        segment: the segment.
        position: where the next slice begins.
    """

    def __init__(
        self,
        files: OpenFiles,
        segment: Segment,
        position: int,
        slice_bytes: int,
        end: int | None = None,
    ) -> None:
        """Nothing is read yet.

        Args:
            files: the open files of the log.
            segment: the segment to read.
            position: where a batch begins.
            slice_bytes: the length of a slice, unless a batch is longer.
            end: where a batch ends; the segment's end by default.
        """
        self.segment = segment
        self.position = position
        self._files = files
        # At least a header, to know how long the batch is.
        self._slice_bytes = max(slice_bytes, HEADER_BYTES)
        self._end = segment.size if end is None else end
        assert 0 <= position <= self._end <= segment.size, "a slice lies within its segment"

    @property
    def left(self) -> int:
        """The bytes from here to the end."""
        return self._end - self.position

    def read(self) -> bytes:
        """Return the next bytes: at least one whole batch, and perhaps a part of one at the end.

        Raises:
            BadBatch: no batch begins here, or the file is shorter than it was.
        """
        assert self.left > 0, "there is something to read"
        buffer = self._read(min(self._slice_bytes, self.left))
        if len(buffer) < LOG_OVERHEAD_BYTES:
            raise BadBatch(self.position, "the file ends within a batch")
        (length,) = LENGTH.unpack_from(buffer)
        length += LOG_OVERHEAD_BYTES
        if not HEADER_UP_TO_MAGIC_BYTES <= length <= min(self.left, MAX_BATCH_BYTES):
            raise BadBatch(self.position, f"{length} bytes are claimed, {self.left} are left")
        if length > len(buffer):
            return self._read(length)
        return buffer

    def is_checked(self, length: int) -> bool:
        """Return whether this process wrote or checked the next `length` bytes before."""
        return self.segment.is_checked(self.position, self.position + length)

    def skip(self, length: int) -> None:
        """Move behind the next `length` bytes, which are whole batches."""
        assert length > 0, "each slice has a whole batch"
        assert length <= self.left, "a slice ends with the stretch"
        self.position += length

    def _read(self, length: int) -> bytes:
        buffer = self._files.get(self.segment.path).read(self.position, length)
        if len(buffer) < length:
            raise BadBatch(self.position + len(buffer), "the file is shorter than it was")
        return buffer


def checked_header(
    buffer: bytes, at: int, position: int, expected_offset: int
) -> BatchHeader | None:
    """Return the header of the batch at `at` and check the batch; None if it is incomplete.

    Args:
        buffer: a slice.
        at: where the batch begins in it.
        position: where the slice begins in its file.
        expected_offset: the least offset that the batch may have.

    Raises:
        BadBatch: there is no batch, or it is damaged or out of order.
    """
    if len(buffer) - at < HEADER_UP_TO_MAGIC_BYTES:
        return None
    try:
        header = read_header(buffer, at)
    except MalformedFrame as error:
        if at and len(buffer) - at < HEADER_BYTES:
            # The slice probably ends within the header. The next slice begins with this batch.
            return None
        raise BadBatch(position + at, str(error)) from None
    if header.length_bytes > len(buffer) - at:
        return None
    if not check_crc(buffer, header, at):
        raise BadBatch(position + at, f"the checksum is not {header.crc:#010x}")
    if header.base_offset < expected_offset or header.last_offset_delta < 0:
        raise BadBatch(position + at, f"offset {header.base_offset} below {expected_offset}")
    return header
