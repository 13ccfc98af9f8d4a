"""Received bytes of one connection that cannot be handled yet.

They are an incomplete request, or requests that arrived while the connection is muted. Small ones
are kept as they arrived and joined once. Large ones are collected in one place, because joining
50 MiB would hold the event loop for 25 ms [connections/turns].
"""

from io import BytesIO
from struct import Struct

from coterie.protocol.errors import MalformedFrame
from coterie.server.network import limits

LENGTH_BYTES = 4

# From this size on chunks are collected in one place.
_LARGE_BYTES = 1 << 20
# The first size of that place, which grows with what arrives. The system gives blocks of 32 MiB and
# more their memory when it is written to, and enlarges them without copying (see allocator.py).
_PLACE_BYTES = 33 << 20
_read_length = Struct(">i").unpack_from


def bad_length(length: int, largest: int) -> MalformedFrame:
    """Return the error for a frame whose length no request can have [framing/frame-length]."""
    return MalformedFrame(
        f"a frame of {length} bytes; a request has {limits.SMALLEST_REQUEST_BYTES} to {largest}"
        " (socket.request.max.bytes)"
    )


def long_header(size_bytes: int) -> MalformedFrame:
    """Return the error for a frame that ends before the header in it [framing/request-header]."""
    return MalformedFrame(f"a header that does not end within its frame of {size_bytes} bytes")


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

    __slots__ = ("_chunks", "_collected", "needed_bytes", "size_bytes")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._collected: BytesIO | None = None
        self.size_bytes = 0
        self.needed_bytes = LENGTH_BYTES

    def __bool__(self) -> bool:
        return self.size_bytes > 0

    def add(self, data: bytes) -> None:
        """Append a chunk."""
        self.size_bytes += len(data)
        if self._collected is not None:
            self._collected.write(data)
            return
        self._chunks.append(data)
        if self.size_bytes >= _LARGE_BYTES and len(self._chunks) > 1:
            self._collected = collected = BytesIO(bytes(_PLACE_BYTES))
            for chunk in self._chunks:
                collected.write(chunk)
            self._chunks.clear()

    @property
    def complete(self) -> bool:
        """Whether the first frame is complete, as far as its length is known."""
        return self.size_bytes >= max(self.needed_bytes, 1)

    def take(self) -> bytes:
        """Remove all chunks and return them in one piece."""
        chunks, self._chunks = self._chunks, []
        size_bytes, self.size_bytes = self.size_bytes, 0
        self.needed_bytes = LENGTH_BYTES
        if self._collected is not None:
            collected, self._collected = self._collected, None
            collected.truncate(size_bytes)
            return collected.getvalue()
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
