"""Received bytes of one connection that cannot be handled yet.

They are an incomplete request, or requests that arrived while the connection is muted. Each chunk
is kept as it arrived and all are joined once, so a request of 100 MiB costs twice its size instead
of the square of the number of its chunks.
"""

from struct import Struct

from coterie.protocol.errors import MalformedFrame
from coterie.server.network import limits

LENGTH_BYTES = 4
_read_length = Struct(">i").unpack_from


def bad_length(length: int, largest: int) -> MalformedFrame:
    """Return the error for a frame whose length no request can have [framing/frame-length]."""
    return MalformedFrame(
        f"a frame of {length} bytes; a request has {limits.SMALLEST_REQUEST_BYTES} to {largest}"
        " (socket.request.max.bytes)"
    )


def frame_bytes(data: bytes, position: int, largest: int) -> int:
    """Return the size of the frame at `position`, its length prefix included.

    If not even the length prefix has arrived, this is the size of the prefix.

    Raises:
        MalformedFrame: no request can have this length.
    """
    if len(data) - position < LENGTH_BYTES:
        return LENGTH_BYTES
    (length,) = _read_length(data, position)
    if not limits.SMALLEST_REQUEST_BYTES <= length <= largest:
        raise bad_length(length, largest)
    return LENGTH_BYTES + int(length)


class ReceiveBuffer:
    """The buffered chunks, in the order of their arrival.

    Attributes:
        size_bytes: the size of all chunks.
        needed_bytes: the size at which handling the buffer again can make progress.
    """

    __slots__ = ("_chunks", "needed_bytes", "size_bytes")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self.size_bytes = 0
        self.needed_bytes = LENGTH_BYTES

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def add(self, data: bytes) -> None:
        """Append a chunk."""
        self._chunks.append(data)
        self.size_bytes += len(data)

    @property
    def complete(self) -> bool:
        """Whether the first frame is complete, as far as its length is known."""
        return bool(self._chunks) and self.size_bytes >= self.needed_bytes

    def take(self) -> bytes:
        """Remove all chunks and return them in one piece."""
        chunks, self._chunks = self._chunks, []
        self.size_bytes = 0
        self.needed_bytes = LENGTH_BYTES
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
