"""Signed varints of records: zigzag, seven bits a byte, low bits first [record-batch/record-check].

Only records use them; messages use unsigned varints (`primitives.py`). More than ten bytes are
refused. Reading beyond the end of the buffer raises IndexError, which the readers of records turn
into `MalformedFrame`.
"""

from coterie.protocol.errors import MalformedFrame

# Looking up a varint is five times as fast as encoding it. Most lengths and offset deltas are below
# this.
TABLE_SIZE = 2048

_MAX_SHIFT = 63


def varint(value: int) -> bytes:
    """Return the varint of a signed number of up to 64 bits."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def read_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """Read a varint of up to 64 bits; return its value and the position after it."""
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
