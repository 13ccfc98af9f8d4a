"""A second, simple encoder that walks the declaration instead of compiling it.

It defines the expected output of the compiled one. It can also add unknown tagged fields to every
structure.
"""

import struct as struct_module
from collections.abc import Iterator
from typing import Any

from coterie.protocol.fields import Declaration
from coterie.protocol.schema import FieldType, WireField, fields_of
from coterie.protocol.wire import Message

# Tags that no schema defines; the bytes of one look like further tags.
UNKNOWN_TAGS = ((100, b""), (20_000, b"\x01\x02\x03" * 50))


def encode(message: Message, version: int, *, unknown_tags: bool = False) -> bytes:
    """Encode the body of a message; `unknown_tags` adds two tagged fields to every structure."""
    flexible = message.is_flexible(version)
    return b"".join(_Writer(version, flexible, unknown_tags).struct(message))


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    out = b""
    while value > 127:
        out += bytes((value % 128 + 128,))
        value //= 128
    return out + bytes((value,))


class _Writer:
    def __init__(self, version: int, flexible: bool, unknown_tags: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.unknown_tags = unknown_tags

    def struct(self, value: Declaration) -> Iterator[bytes]:
        fields = [field for field in fields_of(type(value)) if field.present(self.version)]
        for field in fields:
            if field.declared.tag is None:
                yield from self.field(field, getattr(value, field.name))
        if self.flexible:
            yield from self.tags([f for f in fields if f.declared.tag is not None], value)

    def tags(self, fields: list[WireField], value: Declaration) -> Iterator[bytes]:
        written: dict[int, bytes] = {}
        for field in fields:
            inner = getattr(value, field.name)
            tag = field.declared.tag
            if tag is not None and inner != field.default:
                written[tag] = b"".join(self.field(field, inner))
        if self.unknown_tags:
            written.update(UNKNOWN_TAGS)
        yield uvarint(len(written))
        for tag in sorted(written):
            yield uvarint(tag) + uvarint(len(written[tag])) + written[tag]

    def field(self, field: WireField, value: Any) -> Iterator[bytes]:
        nullable = field.nullable(self.version)
        if field.type.struct is not None and nullable:
            null = b"\xff" if field.declared.tag is None else b"\0"
            yield null if value is None else b"\x01"
            if value is None:
                return
        yield from self.value(field.type, value)

    def value(self, kind: FieldType, value: Any) -> Iterator[bytes]:
        if kind.struct is not None:
            yield from self.struct(value)
        elif kind.element is not None:
            yield self.length("i", None if value is None else len(value))
            for item in value or ():
                yield from self.value(kind.element, item)
        elif kind.wire is not None and kind.wire.struct:
            yield struct_module.pack(">" + kind.wire.struct, value)
        else:
            assert kind.wire is not None
            data = value.encode() if isinstance(value, str) else value
            yield self.length(
                "h" if kind.wire.kind == "string" else "i", None if data is None else len(data)
            )
            yield data or b""

    def length(self, char: str, length: int | None) -> bytes:
        if self.flexible:
            return uvarint(0 if length is None else length + 1)
        return struct_module.pack(">" + char, -1 if length is None else length)
