"""CRC-32C, the checksum of record batches [record-batch/checksum].

Call it through the module: `checksum.crc32c(data)`. The name is bound to the compiled function at
the first call. The package behind it reads its own version through `importlib.metadata` when it is
imported, which takes 40 ms, more than a tenth of a server's start; a server that has not met a
batch yet does not need it.
"""

from collections.abc import Callable

Buffer = bytes | bytearray | memoryview


def _bind_then_compute(data: Buffer) -> int:
    """Import the compiled function, bind the name to it, and call it."""
    global crc32c  # noqa: PLW0603 - rebinding the name is the purpose of this module, see above
    from crc32c import crc32c as compiled

    crc32c = compiled
    return crc32c(data)


crc32c: Callable[[Buffer], int] = _bind_then_compute


def bound() -> Callable[[Buffer], int]:
    """Return the compiled function itself, for a caller that keeps it for a loop."""
    crc32c(b"")
    return crc32c
