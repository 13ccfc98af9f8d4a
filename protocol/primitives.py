"""The few reading and writing steps that compiled codecs call instead of spelling out.

They are off the straight line on purpose: lengths of 128 and more, unknown tags, and the refusals.
Each refusal names the field, so that the one log line about a closed connection tells what was
wrong.
"""

from typing import NoReturn

from coterie.protocol.errors import MalformedFrame

# Unsigned varints of one byte, by value: most lengths on the wire are below 128.
SHORT_UVARINTS: tuple[bytes, ...] = tuple(bytes((value,)) for value in range(128))

# Tagged fields in one structure. No Kafka schema has more than five; an unchecked count makes a few
# bytes cost seconds (CVE-2026-111115).
MAX_TAGS = 64

# Kafka's bound for strings of both encodings; in the compact one nothing else keeps it.
MAX_STRING_BYTES = 32767

_MAX_UVARINT = 0xFFFFFFFF


def uvarint(value: int) -> bytes:
    """An unsigned varint of any value up to 32 bits."""
    if value < 128:
        return SHORT_UVARINTS[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def uvarint_rest(buffer: bytes, position: int, first: int) -> tuple[int, int]:
    """What follows a varint's first byte that had its high bit set: (value, position after)."""
    value = first & 127
    shift = 7
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > _MAX_UVARINT:
                raise MalformedFrame(f"a varint at byte {position} exceeds 32 bits")
            return value, position
        shift += 7
        if shift > 28:
            raise MalformedFrame(f"a varint at byte {position} has more than five bytes")


def string_length(buffer: bytes, position: int, first: int, where: str) -> tuple[int, int]:
    """`uvarint_rest` for the length of a compact string (which is one more than its bytes)."""
    length, position = uvarint_rest(buffer, position, first)
    if length > MAX_STRING_BYTES + 1:
        raise MalformedFrame(
            f"{where} claims {length - 1} bytes, at most {MAX_STRING_BYTES} are read"
        )
    return length, position


def read_uvarint(buffer: bytes, position: int) -> tuple[int, int]:
    """An unsigned varint: (value, position after it)."""
    value = buffer[position]
    position += 1
    if value > 127:
        return uvarint_rest(buffer, position, value)
    return value, position


def tag_count(buffer: bytes, position: int, first: int) -> tuple[int, int]:
    """The number of tagged fields, bounded: (count, position of the first)."""
    if first > 127:
        first, position = uvarint_rest(buffer, position, first)
    if first > MAX_TAGS:
        raise MalformedFrame(f"{first} tagged fields at byte {position}, more than {MAX_TAGS}")
    return first, position


def skip_tags(buffer: bytes, position: int, end: int, first: int) -> int:
    """Step over tagged fields nobody here knows; `first` is the first byte of their count."""
    count, position = tag_count(buffer, position, first)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > end:
            raise MalformedFrame(f"a tagged field ends at byte {position}, the message at {end}")
    return position


def refuse_null(where: str) -> NoReturn:
    """A null where the field is not nullable."""
    raise MalformedFrame(f"{where} is null")


def refuse_length(where: str, length: int, left: int) -> NoReturn:
    """A length that is negative or beyond the message."""
    raise MalformedFrame(f"{where} claims {length} bytes where {left} are left")


def refuse_count(where: str, count: int, left: int) -> NoReturn:
    """An array count that the bytes left can't hold."""
    raise MalformedFrame(f"{where} claims {count} elements where {left} bytes are left")


def refuse_elements(where: str, count: int) -> NoReturn:
    """More array elements than one message may hold."""
    raise MalformedFrame(f"{where} with {count} elements exceeds the elements one message may hold")


def refuse_leftover(where: str, position: int, end: int) -> NoReturn:
    """The message ends before or behind its bytes."""
    if position > end:
        raise MalformedFrame(f"{where} is cut off: {position - end} bytes are missing")
    raise MalformedFrame(f"{where} has {end - position} bytes left over")
