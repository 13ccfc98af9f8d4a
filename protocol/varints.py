"""Signed varints of records: zigzag, seven bits a byte, low bits first, as in Protocol Buffers.

Records are the only place of the protocol that uses them; messages use unsigned ones
(`primitives.py`). A varint is at most 5 bytes (int32) or 10 bytes (int64); more is refused, so a
run of 0xff costs nothing. Reading past the end of the buffer raises IndexError, which the readers
of records turn into `MalformedFrame` at their one boundary.
"""

from coterie.protocol.errors import MalformedFrame

# Lengths and offset deltas met in practice, by value: looking one up is five times as fast as
# making it.
TABLE_SIZE = 2048

_MAX_SHIFT = 63


def varint(value: int) -> bytes:
    """The bytes of a signed number of up to 64 bits."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def read_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """A signed varint of up to 64 bits at `position`: (value, position after it)."""
    byte = buffer[position]
    position += 1
    rest = byte & 127
    shift = 7
    while byte > 127:
        if shift > _MAX_SHIFT:
            raise MalformedFrame(f"a varint at byte {position} has more than ten bytes")
        byte = buffer[position]
        position += 1
        rest |= (byte & 127) << shift
        shift += 7
    return (rest >> 1) ^ -(rest & 1), position


VARINTS: tuple[bytes, ...] = tuple(varint(value) for value in range(TABLE_SIZE))
