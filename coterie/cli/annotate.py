"""A frame taken apart for people: which bytes are which field.

A walk over the declarations, slow and plain on purpose and independent of the compiled codecs: what
those refuse can be looked at here up to the byte that is wrong. Invariant: the pieces stand in the
order of the bytes, without gaps, so that nothing of a frame is left untold.
"""

import json
import struct
from typing import NamedTuple

from coterie.cli.apis import api_name
from coterie.client.errors import error_name
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.fields import Declaration
from coterie.protocol.messages.consumer_protocol import (
    LATEST_VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from coterie.protocol.primitives import read_uvarint
from coterie.protocol.schema import FieldType, WireField, tagged, untagged
from coterie.protocol.wire import Message, Wire

# What bytes that are no message raise here, as in a compiled decoder.
WALK_ERRORS = (MalformedFrame, struct.error, IndexError, UnicodeDecodeError)

# The opaque bytes that hold the embedded consumer protocol, where a consumer is at work.
_EMBEDDED: dict[str, type[Message]] = {
    "metadata": ConsumerProtocolSubscription,
    "member_metadata": ConsumerProtocolSubscription,
    "assignment": ConsumerProtocolAssignment,
    "member_assignment": ConsumerProtocolAssignment,
}


class Piece(NamedTuple):
    """Neighbouring bytes with one meaning; `depth` is how many structures they stand in."""

    start: int
    end: int
    depth: int
    text: str


class Walk:
    """Collects the pieces of one message; after an error they reach to the byte before it.

    Args:
        buffer: where the message stands.
        position: of its first byte.
        end: behind its last byte.
    """

    def __init__(self, buffer: bytes, position: int, end: int) -> None:
        self.pieces: list[Piece] = []
        self.position = position
        self._buffer = buffer
        self._end = end
        self._version = 0
        self._flexible = False

    def message(self, cls: type[Message], version: int) -> None:
        """Walk a message to the end of the bytes.

        Raises:
            WALK_ERRORS: the bytes are not that message.
        """
        self._version = version
        self._flexible = cls.is_flexible(version)
        self._structure(cls, 0)
        if self.position < self._end:
            raise MalformedFrame(f"{self._end - self.position} bytes are left over")

    def fixed(self, wire: Wire, name: str, depth: int = 0) -> int:
        """A value of fixed width; returned as a number where it is one."""
        start = self.position
        (value,) = struct.unpack_from(">" + wire.struct, self._take(wire.size))
        self._add(start, depth, f"{name} {_fixed_text(name, value)}")
        return int.from_bytes(value, "big") if isinstance(value, bytes) else int(value)

    def short_string(self, name: str) -> str | None:
        """A nullable string with a 16-bit length, as request headers hold the client id."""
        start = self.position
        (length,) = struct.unpack(">h", self._take(2))
        text = None if length < 0 else self._take(length).decode()
        self._add(start, 0, f"{name} {json.dumps(text, ensure_ascii=False)}")
        return text

    def no_tags(self) -> None:
        """The tag section of a header: no version of Kafka has put anything into one."""
        self._tag_section([], 0)

    def _take(self, count: int) -> bytes:
        left = self._end - self.position
        if not 0 <= count <= left:
            raise MalformedFrame(f"{count} bytes are claimed where {left} are left")
        self.position += count
        return self._buffer[self.position - count : self.position]

    def _add(self, start: int, depth: int, text: str) -> None:
        self.pieces.append(Piece(start, self.position, depth, text))

    def _structure(self, cls: type[Declaration], depth: int) -> None:
        for field in untagged(cls, self._version):
            self._value(field.type, field.name, depth, nullable=field.nullable(self._version))
        if self._flexible:
            self._tag_section(tagged(cls, self._version), depth)

    def _tag_section(self, known: list[WireField], depth: int) -> None:
        start = self.position
        count = self._uvarint()
        if not count and self.pieces and self.pieces[-1].depth == depth:
            # An empty section is told together with the field of the same structure before it.
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
                self._value(field.type, field.name, depth + 1, nullable=nullable)
            if self.position != stop:
                raise MalformedFrame(f"tag {tag} ends at byte {self.position}, not {stop}")

    def _value(self, kind: FieldType, name: str, depth: int, *, nullable: bool) -> None:
        if kind.element is not None:
            self._array(kind.element, name, depth, nullable=nullable)
        elif kind.struct is not None:
            if nullable:
                start = self.position
                (mark,) = struct.unpack(">b", self._take(1))
                self._add(start, depth, f"{name} {'null' if mark < 0 else 'present'}")
                if mark < 0:
                    return
            before = len(self.pieces)
            self._structure(kind.struct, depth + 1)
            self._mark(before, f"{name}: ")
        elif kind.wire is not None and kind.wire.struct:
            self.fixed(kind.wire, name, depth)
        else:
            assert kind.wire is not None, "a field is an array, a structure or of a wire type"
            self._sized(kind.wire.kind, name, depth, nullable=nullable)

    def _array(self, element: FieldType, name: str, depth: int, *, nullable: bool) -> None:
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
                self._structure(element.struct, depth + 1)
                self._mark(before, f"[{index}] ")
            else:
                self._value(element, f"[{index}]", depth + 1, nullable=element.optional)

    def _mark(self, at: int, prefix: str) -> None:
        """Put an element's number before the first of its pieces."""
        if at < len(self.pieces):
            piece = self.pieces[at]
            self.pieces[at] = piece._replace(text=prefix + piece.text)

    def _sized(self, kind: str, name: str, depth: int, *, nullable: bool) -> None:
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
        elif not self._embedded(start, length, name, depth):
            self._take(length)
            self._add(start, depth, f"{name} {length} bytes")

    def _embedded(self, start: int, length: int, name: str, depth: int) -> bool:
        """Walk a subscription or assignment inside opaque bytes; False when they are none."""
        cls = _EMBEDDED.get(name)
        if cls is None or length < 2:
            return False
        inner = Walk(self._buffer, self.position, self.position + length)
        try:
            version = inner.fixed(_INT16, "version", depth + 1)
            if version < 0:
                return False
            inner._version = min(version, LATEST_VERSION)
            inner._structure(cls, depth + 1)
        except WALK_ERRORS:
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
            raise MalformedFrame("a length is claimed where no bytes are left")
        self.position = position
        return value


_ERROR_CODES = frozenset(ErrorCode)
_INT16 = Wire("int16", "h", 2, 0)


def _fixed_text(name: str, value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return str(value).lower()
    assert isinstance(value, int | float), "a fixed value is a number, a boolean or a uuid"
    if name == "error_code":
        return f"{value} {error_name(int(value))}" if value in _ERROR_CODES else f"{value} unknown"
    if name == "api_key":
        return f"{value} {api_name(int(value))}"
    return str(value)
