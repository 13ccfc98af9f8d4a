"""CRC-32C, the checksum of record batches (Castagnoli polynomial; spec section 14.1, KIP-98).

Call it through the module (`checksum.crc32c(data)`): the name is bound to the compiled function at
the first use. The package behind it reads its own version through `importlib.metadata` when
imported, 40 ms, which is more than a tenth of the time a starting server has; a server that has not
yet seen a batch does not need it.
"""

from collections.abc import Callable

Buffer = bytes | bytearray | memoryview


def _bind_then_compute(data: Buffer) -> int:
    """The first checksum: load the compiled function, bind it, use it."""
    global crc32c  # noqa: PLW0603 - the point of this module, see above
    from crc32c import crc32c as compiled

    crc32c = compiled
    return crc32c(data)


crc32c: Callable[[Buffer], int] = _bind_then_compute


def bound() -> Callable[[Buffer], int]:
    """The compiled function itself, for a caller who keeps it: it is loaded if it is not yet."""
    crc32c(b"")
    return crc32c
