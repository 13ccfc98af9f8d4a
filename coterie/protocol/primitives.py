"""Steps of encoding and decoding that are not compiled into codecs but called.

Compiled codecs call them only in rare cases: for lengths of 128 and more, for unknown tags, and to
refuse a message. Each refusal names the field, so that the log line about the closed connection
says what was wrong.
"""

from typing import NoReturn

from coterie.protocol.errors import MalformedFrame

# Unsigned varints of one byte, by value: most lengths on the wire are below 128.
SHORT_UVARINTS: tuple[bytes, ...] = tuple(bytes((value,)) for value in range(128))

# Tagged fields in one structure. No Kafka schema has more than five; without a limit a few bytes
# could cost seconds (CVE-2026-111115).
MAX_TAGS = 64

# Kafka's limit for strings [framing/element-limit]. In the plain encoding the int16 length enforces
# it, in the compact one only this check does.
MAX_STRING_BYTES = 32767

# The largest value of an unsigned varint.
_MAX_UVARINT = 0xFFFFFFFF

# The size of an int16 record type or version.
PREFIX_BYTES = 2


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint of up to 32 bits."""
    if value < 128:
        return SHORT_UVARINTS[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def uvarint_rest(buffer: bytes, position: int, first: int) -> tuple[int, int]:
    """Decode a varint whose first byte, already read, has its high bit set.

    Returns:
        The value, and the position after it.
    """
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
    """Decode the length of a compact string as `uvarint_rest` does, and check it.

    The encoded length is one more than the number of bytes.
    """
    length, position = uvarint_rest(buffer, position, first)
    if length > MAX_STRING_BYTES + 1:
        raise MalformedFrame(
            f"{where} claims {length - 1} bytes, at most {MAX_STRING_BYTES} are read"
        )
    return length, position


def read_uvarint(buffer: bytes, position: int) -> tuple[int, int]:
    """Decode an unsigned varint; return the value and the position after it."""
    value = buffer[position]
    position += 1
    if value > 127:
        return uvarint_rest(buffer, position, value)
    return value, position


def tag_count(buffer: bytes, position: int, first: int) -> tuple[int, int]:
    """Decode the number of tagged fields and check it; return it and the position of the first."""
    if first > 127:
        first, position = uvarint_rest(buffer, position, first)
    if first > MAX_TAGS:
        raise MalformedFrame(f"{first} tagged fields at byte {position}, more than {MAX_TAGS}")
    return first, position


def skip_tags(buffer: bytes, position: int, end: int, first: int) -> int:
    """Skip unknown tagged fields; `first` is the first byte of their count, already read."""
    count, position = tag_count(buffer, position, first)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > end:
            raise MalformedFrame(f"a tagged field ends at byte {position}, the message at {end}")
    return position


def read_prefix(data: bytes, what: str, position: int = 0) -> int:
    """Decode an int16 at a position; `what` names it in the error."""
    if len(data) < position + PREFIX_BYTES:
        raise MalformedFrame(f"{what} is missing in {len(data)} bytes")
    return int.from_bytes(data[position : position + PREFIX_BYTES], "big", signed=True)


def refuse_null(where: str) -> NoReturn:
    """Refuse a null in a field that is not nullable."""
    raise MalformedFrame(f"{where} is null")


def refuse_length(where: str, length: int, left: int) -> NoReturn:
    """Refuse a length that is negative or exceeds the message."""
    raise MalformedFrame(f"{where} claims {length} bytes where {left} are left")


def refuse_count(where: str, count: int, left: int) -> NoReturn:
    """Refuse an array count that does not fit into the bytes that are left."""
    raise MalformedFrame(f"{where} claims {count} elements where {left} bytes are left")


def refuse_elements(where: str, count: int) -> NoReturn:
    """Refuse more array elements than one message may hold."""
    raise MalformedFrame(f"{where} with {count} elements exceeds the elements one message may hold")


def refuse_leftover(where: str, position: int, end: int) -> NoReturn:
    """Refuse a message that ends before or after its bytes."""
    if position > end:
        raise MalformedFrame(f"{where} is cut off: {position - end} bytes are missing")
    raise MalformedFrame(f"{where} has {end - position} bytes left over")
