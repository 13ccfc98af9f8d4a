"""A message taken apart for people: which bytes are which field.

`MessageFields` reads the declarations of the messages. It is independent of the compiled codecs and
slower than they are; in return a malformed message is shown up to the first wrong byte. Invariant:
the pieces are in the order of the bytes and have no gaps, so no byte of a frame stays unexplained.
"""

import json
import struct
from typing import NamedTuple

from coterie.cli.dump.apis import api_name
from coterie.client.errors import error_name
from coterie.protocol.errors import DECODE_ERRORS, ErrorCode, MalformedFrame
from coterie.protocol.fields import Declaration
from coterie.protocol.messages.consumer_protocol import (
    LATEST_VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from coterie.protocol.primitives import read_uvarint
from coterie.protocol.schema import FieldType, WireField, tagged, untagged
from coterie.protocol.wire import Message, Wire

INT16 = Wire("int16", "h", 2, 0)
INT32 = Wire("int32", "i", 4, 0)

# The marks of a null structure [framing/null-structs].
_NULL, _TAGGED_NULL = -1, 0

# The opaque fields in which consumers put messages of the consumer protocol.
_EMBEDDED: dict[str, type[Message]] = {
    "metadata": ConsumerProtocolSubscription,
    "member_metadata": ConsumerProtocolSubscription,
    "assignment": ConsumerProtocolAssignment,
    "member_assignment": ConsumerProtocolAssignment,
}


class Piece(NamedTuple):
    """A run of bytes with one meaning; `depth` is the number of structures around it."""

    start: int
    end: int
    depth: int
    text: str


class MessageFields:
    """Collects the pieces of one message; after an error they end before the wrong byte.

    Args:
        buffer: the bytes that contain the message.
        position: the position of its first byte.
        end: the position after its last byte.
    """

    def __init__(self, buffer: bytes, position: int, end: int) -> None:
        self.pieces: list[Piece] = []
        self.position = position
        self._buffer = buffer
        self._end = end
        self._version = 0
        self._flexible = False

    def add_message(self, cls: type[Message], version: int) -> None:
        """Add the pieces of a message that reaches to the end of the bytes.

        Raises:
            DECODE_ERRORS: the bytes are not such a message.
        """
        self._version = version
        self._flexible = cls.is_flexible(version)
        self._add_struct(cls, 0)
        if self.position < self._end:
            raise MalformedFrame(f"{self._end - self.position} bytes are left over")

    def add_fixed(self, wire: Wire, name: str, depth: int = 0) -> int:
        """Add a field of fixed width and return its value as a number."""
        start = self.position
        (value,) = struct.unpack_from(">" + wire.struct, self._take(wire.size))
        self._add(start, depth, f"{name} {_fixed_text(name, value)}")
        return int.from_bytes(value, "big") if isinstance(value, bytes) else int(value)

    def add_short_string(self, name: str) -> None:
        """Add a nullable string with a 16-bit length, such as the client id of a header."""
        start = self.position
        (length,) = struct.unpack(">h", self._take(2))
        text = None if length < 0 else self._take(length).decode()
        self._add(start, 0, f"{name} {json.dumps(text, ensure_ascii=False)}")

    def add_empty_tags(self) -> None:
        """Add the tagged fields of a header, of which no version of Kafka defines any."""
        self._add_tags([], 0)

    def _take(self, count: int) -> bytes:
        left = self._end - self.position
        if not 0 <= count <= left:
            raise MalformedFrame(f"{count} bytes are announced but {left} are left")
        self.position += count
        return self._buffer[self.position - count : self.position]

    def _add(self, start: int, depth: int, text: str) -> None:
        self.pieces.append(Piece(start, self.position, depth, text))

    def _add_struct(self, cls: type[Declaration], depth: int) -> None:
        for field in untagged(cls, self._version):
            self._add_value(field.type, field.name, depth, nullable=field.nullable(self._version))
        if self._flexible:
            self._add_tags(tagged(cls, self._version), depth)

    def _add_tags(self, known: list[WireField], depth: int) -> None:
        start = self.position
        count = self._uvarint()
        if not count and self.pieces and self.pieces[-1].depth == depth:
            # An empty section gets no line of its own if the field before it has the same depth.
            last = self.pieces.pop()
            self._add(last.start, last.depth, f"{last.text}, no tags")
            return
        self._add(start, depth, f"{count} tagged fields" if count else "no tags")
        fields = {field.declared.tag: field for field in known}
        for _ in range(count):
            start = self.position
            tag, size = self._uvarint(), self._uvarint()
            stop = self.position + size
            self._add(start, depth, f"tag {tag}, {size} bytes")
            field = fields.get(tag)
            if field is None:
                start = self.position
                self._take(size)
                self._add(start, depth + 1, "unknown")
            else:
                nullable = field.nullable(self._version)
                self._add_value(
                    field.type, field.name, depth + 1, nullable=nullable, null_mark=_TAGGED_NULL
                )
            if self.position != stop:
                raise MalformedFrame(f"tag {tag} ends at byte {self.position}, not {stop}")

    def _add_value(
        self, kind: FieldType, name: str, depth: int, *, nullable: bool, null_mark: int = _NULL
    ) -> None:
        if kind.element is not None:
            self._add_array(kind.element, name, depth, nullable=nullable)
        elif kind.struct is not None:
            if nullable:
                start = self.position
                (marker,) = struct.unpack(">b", self._take(1))
                is_null = marker <= null_mark
                self._add(start, depth, f"{name} {'null' if is_null else 'present'}")
                if is_null:
                    return
            before = len(self.pieces)
            self._add_struct(kind.struct, depth + 1)
            self._prefix_piece(before, f"{name}: ")
        elif kind.wire is not None and kind.wire.struct:
            self.add_fixed(kind.wire, name, depth)
        else:
            assert kind.wire is not None, "a field is an array, a structure or of a wire type"
            self._add_sized(kind.wire.kind, name, depth, nullable=nullable)

    def _add_array(self, element: FieldType, name: str, depth: int, *, nullable: bool) -> None:
        start = self.position
        count = self._uvarint() - 1 if self._flexible else struct.unpack(">i", self._take(4))[0]
        if count < 0:
            if count != -1 or not nullable:
                raise MalformedFrame(f"{name} has a count of {count}")
            self._add(start, depth, f"{name} null")
            return
        self._add(start, depth, f"{name}: {count} element{'' if count == 1 else 's'}")
        for index in range(count):
            if element.struct is not None:
                before = len(self.pieces)
                self._add_struct(element.struct, depth + 1)
                self._prefix_piece(before, f"[{index}] ")
            else:
                self._add_value(element, f"[{index}]", depth + 1, nullable=element.optional)

    def _prefix_piece(self, number: int, prefix: str) -> None:
        """Put an array index or the name of a structure before its first piece, if it has one."""
        if number < len(self.pieces):
            piece = self.pieces[number]
            self.pieces[number] = piece._replace(text=prefix + piece.text)

    def _add_sized(self, kind: str, name: str, depth: int, *, nullable: bool) -> None:
        start = self.position
        if self._flexible:
            length = self._uvarint() - 1
        elif kind == "string":
            (length,) = struct.unpack(">h", self._take(2))
        else:
            (length,) = struct.unpack(">i", self._take(4))
        if length == -1 and nullable:
            self._add(start, depth, f"{name} null")
            return
        if kind == "string":
            text = self._take(length).decode()
            self._add(start, depth, f"{name} {json.dumps(text, ensure_ascii=False)}")
        elif not self._add_embedded(start, length, name, depth):
            self._take(length)
            self._add(start, depth, f"{name} {length} bytes")

    def _add_embedded(self, start: int, length: int, name: str, depth: int) -> bool:
        """Add a subscription or assignment inside opaque bytes; return False if there is none."""
        cls = _EMBEDDED.get(name)
        if cls is None or length < 2:
            return False
        inner = MessageFields(self._buffer, self.position, self.position + length)
        try:
            version = inner.add_fixed(INT16, "version", depth + 1)
            if version < 0:
                return False
            inner._version = min(version, LATEST_VERSION)
            inner._add_struct(cls, depth + 1)
        except DECODE_ERRORS:
            return False
        rest = self.position + length - inner.position
        if rest:
            start_of_rest = inner.position
            inner._take(rest)
            inner._add(start_of_rest, depth + 1, f"{rest} bytes of a later version")
        self._add(start, depth, f"{name} {length} bytes, {cls.__name__}")
        self.pieces += inner.pieces
        self.position = inner.position
        return True

    def _uvarint(self) -> int:
        value, position = read_uvarint(self._buffer, self.position)
        if position > self._end:
            raise MalformedFrame("the bytes end within a length")
        self.position = position
        return value


def _fixed_text(name: str, value: object) -> str:
    """Return a fixed-width value as text; error codes and api keys with their names."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return str(value).lower()
    assert isinstance(value, int | float), "a fixed value is a number, a boolean or a uuid"
    if name == "error_code":
        is_known = value in _ERROR_CODES
        return f"{value} {error_name(int(value))}" if is_known else f"{value} unknown"
    if name == "api_key":
        return f"{value} {api_name(int(value))}"
    return str(value)


_ERROR_CODES = frozenset(ErrorCode)
