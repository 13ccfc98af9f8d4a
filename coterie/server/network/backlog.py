"""Bytes of one connection that can't be handled yet.

They are a frame whose rest has not arrived, or requests behind one that holds the connection. What
came in is kept as it came and joined once, so a frame of 100 MiB costs its own size twice, not the
square of its parts.
"""

from struct import Struct

from coterie.protocol.errors import MalformedFrame
from coterie.server import limits

LENGTH_BYTES = 4
_read_length = Struct(">i").unpack_from


def bad_length(length: int, largest: int) -> MalformedFrame:
    """What is wrong with a frame of this length."""
    return MalformedFrame(
        f"a frame of {length} bytes; a request has {limits.SMALLEST_REQUEST_BYTES} to {largest}"
        " (socket.request.max.bytes)"
    )


def frame_bytes(data: bytes, position: int, largest: int) -> int:
    """How many bytes the frame that begins at `position` has, as far as its own bytes tell.

    Raises:
        MalformedFrame: its length is none a request can have.
    """
    if len(data) - position < LENGTH_BYTES:
        return LENGTH_BYTES
    (length,) = _read_length(data, position)
    if not limits.SMALLEST_REQUEST_BYTES <= length <= largest:
        raise bad_length(length, largest)
    return LENGTH_BYTES + int(length)


class Backlog:
    """The waiting bytes, in order."""

    __slots__ = ("_chunks", "needed_bytes", "size_bytes")

    def __init__(self) -> None:
        """Empty."""
        self._chunks: list[bytes] = []
        self.size_bytes = 0
        # So many make it worth looking again.
        self.needed_bytes = LENGTH_BYTES

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def add(self, data: bytes) -> None:
        """Keep `data` behind what waits."""
        self._chunks.append(data)
        self.size_bytes += len(data)

    @property
    def complete(self) -> bool:
        """Whether there is something to handle."""
        return bool(self._chunks) and self.size_bytes >= self.needed_bytes

    def take(self) -> bytes:
        """Everything, in one piece; the backlog is empty then."""
        chunks, self._chunks = self._chunks, []
        self.size_bytes = 0
        self.needed_bytes = LENGTH_BYTES
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
