"""The bytes before a value that name its schema, as Confluent's serializers write them.

A zero byte and the id, four bytes big-endian, come first. Behind them a value of Protobuf has the
place of its message type in the file: a count, and as many indexes, from the outermost type to the
innermost; a count of 0 is short for the first type. They are varints, zigzag as in Avro. Ids
begin with 1. Other bytes name no schema.
"""

from typing import NamedTuple

MAGIC = 0
_ID_BYTES = 4
PREFIX_BYTES = 1 + _ID_BYTES
# A type in more than so many others is no type of anybody.
_MOST_INDEXES = 32
_VARINT_BYTES = 5


class Framed(NamedTuple):
    """A part of a record that names a schema.

    Attributes:
        schema_id: the id.
        body: what follows it.
    """

    schema_id: int
    body: bytes


class BadIndexes(ValueError):  # noqa: N818 - the name says what is wrong
    """The place of a message type cannot be read."""


def framed(data: bytes) -> Framed | None:
    """Return the id in a part of a record and what follows it; None if it names no schema.

    Ids begin at 1, so small numbers in four or eight bytes are not taken for them.
    """
    if len(data) < PREFIX_BYTES or data[0] != MAGIC:
        return None
    schema_id = int.from_bytes(data[1:PREFIX_BYTES], "big", signed=True)
    return Framed(schema_id, data[PREFIX_BYTES:]) if schema_id > 0 else None


def message_indexes(body: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return the place of a message type in its file, and the message.

    Raises:
        BadIndexes: it cannot be read.
    """
    count, position = _varint(body, 0)
    if not 0 <= count <= _MOST_INDEXES:
        raise BadIndexes(f"{count} indexes of a message type")
    indexes = []
    for _ in range(count):
        index, position = _varint(body, position)
        indexes.append(index)
    return tuple(indexes) or (0,), body[position:]


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for number, byte in enumerate(data[position : position + _VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position + number + 1
    raise BadIndexes("the indexes of the message type are cut off")
