"""Reading and writing of wire types; the written-out codecs consist of calls of these methods.

It is part of the compiled form only, where each call is one of C and numbers are machine words. The
checks and their texts are those of the codecs that `compile_decode` makes.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final, final

from librt.strings import (
    BytesWriter,
    read_f64_be,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_f64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i16, i32, i64, mypyc_attr, u8

from coterie.protocol.fields import Declaration, Field, MessageDeclaration, VersionRange
from coterie.protocol.primitives import (
    MAX_STRING_BYTES,
    refuse_count,
    refuse_elements,
    refuse_leftover,
    refuse_length,
    refuse_null,
    skip_tags,
    string_length,
    tag_count,
    uvarint,
    uvarint_rest,
)

# Longer records are not copied into the buffer of a writer but joined with it at the end.
_COPIED_BYTES: Final = 2048

# A field that no version leaves out and that has no default.
PLAIN: Final = Field()


@final
@mypyc_attr(acyclic=True, free_list_len=1)
class Reader:
    """The bytes of one message, and how far they are read.

    Attributes:
        buf: the buffer.
        at: the next byte.
        end: behind the last byte.
        flexible: whether lengths are compact and structures have tags (KIP-482).
    """

    def __init__(self, buf: bytes, at: i64, end: i64, budget: i64, *, flexible: bool) -> None:
        self.buf = buf
        self.at: i64 = at
        self.end: i64 = end
        self._budget: i64 = budget
        self.flexible = flexible

    def boolean(self) -> bool:
        """Read a boolean; every byte but 0 is true."""
        return self.byte() != 0

    def byte(self) -> i64:
        """Read an unsigned byte."""
        value: i64 = self.buf[self.at]
        self.at += 1
        return value

    def int8(self) -> i64:
        """Read a signed byte."""
        value = self.byte()
        return value - 256 if value > 127 else value

    def int16(self) -> i64:
        """Read an int16."""
        value = read_i16_be(self.buf, self.at)
        self.at += 2
        return i64(value)

    def uint16(self) -> i64:
        """Read an unsigned int16."""
        return self.int16() & 0xFFFF

    def int32(self) -> i64:
        """Read an int32."""
        value = read_i32_be(self.buf, self.at)
        self.at += 4
        return i64(value)

    def int64(self) -> i64:
        """Read an int64."""
        value = read_i64_be(self.buf, self.at)
        self.at += 8
        return value

    def float64(self) -> float:
        """Read a double."""
        value = read_f64_be(self.buf, self.at)
        self.at += 8
        return value

    def uuid(self) -> bytes:
        """Read the 16 bytes of a UUID."""
        stop = self.at + 16
        if stop > i64(len(self.buf)):
            raise IndexError("a UUID is cut off")
        value = self.buf[self.at : stop]
        self.at = stop
        return value

    def string(self, where: str) -> str:
        """Read a string that is not null."""
        value = self.nullable_string(where)
        if value is None:
            refuse_null(where)
        return value

    def nullable_string(self, where: str) -> str | None:
        """Read a string or null."""
        length: i64
        if not self.flexible:
            length = self.int16()
        else:
            length = self.byte()
            if length > 127:
                first, self.at = string_length(self.buf, self.at, length, where)
                length = first
            length -= 1
        if length == -1:
            return None
        return self._take(length, where).decode()

    def bytes_(self, where: str) -> bytes:
        """Read bytes that are not null."""
        value = self.nullable_bytes(where)
        if value is None:
            refuse_null(where)
        return value

    def nullable_bytes(self, where: str) -> bytes | None:
        """Read bytes or null."""
        length = self._compact() if self.flexible else self.int32()
        return None if length == -1 else self._take(length, where)

    def _compact(self) -> i64:
        """Read a compact length or count; null is -1."""
        length = self.byte()
        if length > 127:
            value, self.at = uvarint_rest(self.buf, self.at, length)
            length = value
        return length - 1

    def _take(self, length: i64, where: str) -> bytes:
        stop = self.at + length
        if length < 0 or stop > self.end:
            refuse_length(where, length, self.end - self.at)
        value = self.buf[self.at : stop]
        self.at = stop
        return value

    def nullable_count(self, where: str, least: i64) -> i64:
        """Read the count of an array, -1 for null; an element takes at least `least` bytes."""
        count = self._compact() if self.flexible else self.int32()
        if count == -1:
            return count
        if count < 0 or count * least > self.end - self.at:
            refuse_count(where, count, self.end - self.at)
        self._budget -= count
        if self._budget < 0:
            refuse_elements(where, count)
        return count

    def count(self, where: str, least: i64) -> i64:
        """Read the count of an array that is not null."""
        count = self.nullable_count(where, least)
        if count == -1:
            refuse_null(where)
        return count

    def skip_tags(self) -> None:
        """Skip the tag section of a structure that has no tagged fields."""
        count = self.byte()
        if count:
            self.at = skip_tags(self.buf, self.at, self.end, count)

    def tags(self) -> i64:
        """Read how many tagged fields follow."""
        count = self.byte()
        if count:
            checked, self.at = tag_count(self.buf, self.at, count)
            count = checked
        return count

    def uvarint(self) -> i64:
        """Read an unsigned varint."""
        value = self.byte()
        if value > 127:
            whole, self.at = uvarint_rest(self.buf, self.at, value)
            value = whole
        return value

    def tag_stop(self, where: str) -> i64:
        """Read the size of a tagged field; return where it ends."""
        size = self.uvarint()
        stop = self.at + size
        if stop > self.end:
            refuse_length(where, size, self.end - self.at)
        return stop

    def end_tag(self, where: str, stop: i64) -> None:
        """Refuse a tagged field that does not end where its size says."""
        if self.at != stop:
            refuse_leftover(where, self.at, stop)

    def finish(self, name: str, version: i64, *, open_ended: bool) -> None:
        """Refuse a message that does not end with its bytes."""
        if self.at > self.end or (self.at != self.end and not open_ended):
            refuse_leftover(f"{name} v{version}", self.at, self.end)


@final
@mypyc_attr(acyclic=True, free_list_len=1)
class Writer:
    """The bytes of one message that is being encoded.

    Attributes:
        flexible: whether lengths are compact and structures have tags (KIP-482).
    """

    def __init__(self, *, flexible: bool) -> None:
        self.flexible = flexible
        self._out = BytesWriter()
        # What is before `_out`, if records were not copied.
        self._pieces: list[bytes] | None = None

    def boolean(self, value: bool) -> None:  # noqa: FBT001 - the value to write
        """Write a boolean."""
        self._out.append(1 if value else 0)

    def byte(self, value: i64) -> None:
        """Write an unsigned byte."""
        self._out.append(u8(value))

    def int8(self, value: int) -> None:
        """Write a signed byte."""
        if not -128 <= value <= 127:
            raise OverflowError(f"{value} is no int8")
        self.byte(value & 0xFF)

    def int16(self, value: i16) -> None:
        """Write an int16."""
        write_i16_be(self._out, value)

    def uint16(self, value: int) -> None:
        """Write an unsigned int16."""
        if not 0 <= value <= 0xFFFF:
            raise OverflowError(f"{value} is no uint16")
        self.byte(value >> 8)
        self.byte(value & 0xFF)

    def int32(self, value: i32) -> None:
        """Write an int32."""
        write_i32_be(self._out, value)

    def int64(self, value: i64) -> None:
        """Write an int64."""
        write_i64_be(self._out, value)

    def float64(self, value: float) -> None:
        """Write a double."""
        write_f64_be(self._out, value)

    def uuid(self, value: bytes) -> None:
        """Write a UUID; as in `struct`, other lengths are cut or filled with zeros."""
        self._out.write(value if len(value) == 16 else value[:16].ljust(16, b"\x00"))

    def uvarint(self, value: i64) -> None:
        """Write an unsigned varint."""
        if value < 128:
            self._out.append(u8(value))
        else:
            self._out.write(uvarint(value))

    def string(self, value: str) -> None:
        """Write a string."""
        data = value.encode()
        size = i64(len(data))
        if self.flexible:
            self.uvarint(size + 1)
        else:
            self.int16(i16(_int16(size)))
        self._out.write(data)

    def nullable_string(self, value: str | None, *, nullable: bool) -> None:
        """Write a string or null; the empty string where null is not allowed."""
        if value is not None:
            self.string(value)
        elif not nullable:
            self.string("")
        elif self.flexible:
            self._out.append(0)
        else:
            self.int16(-1)

    def bytes_(self, value: bytes) -> None:
        """Write bytes."""
        self.count(i64(len(value)))
        self._out.write(value)

    def nullable_bytes(self, value: bytes | None, *, nullable: bool) -> None:
        """Write bytes or null; empty ones where null is not allowed."""
        if value is not None:
            self.bytes_(value)
        elif nullable:
            self.null()
        else:
            self.count(0)

    def nullable_records(self, value: bytes | None, *, nullable: bool) -> None:
        """Write record batches, which are not copied if they are long."""
        if value is None or len(value) <= _COPIED_BYTES:
            self.nullable_bytes(value, nullable=nullable)
            return
        self.count(i64(len(value)))
        pieces = self._pieces
        if pieces is None:
            pieces = self._pieces = []
        pieces.append(self._out.getvalue())
        pieces.append(value)
        self._out = BytesWriter()

    def records(self, value: bytes) -> None:
        """Write record batches that are not null."""
        self.nullable_records(value, nullable=False)

    def count(self, value: i64) -> None:
        """Write the count of an array, or the length of bytes."""
        if self.flexible:
            self.uvarint(value + 1)
        else:
            self.int32(i32(value))

    def null(self) -> None:
        """Write a null array or null bytes."""
        if self.flexible:
            self._out.append(0)
        else:
            self.int32(-1)

    def tag(self, tag: i64, field: "Writer") -> None:
        """Write a tagged field."""
        data = field.result()
        self.uvarint(tag)
        self.uvarint(i64(len(data)))
        self._out.write(data)

    def result(self) -> bytes:
        """Return what was written."""
        if self._pieces is None:
            return self._out.getvalue()
        return b"".join([*self._pieces, self._out.getvalue()])

    def begin_frame(self, correlation_id: i32, *, flexible_header: bool) -> None:
        """Write the header of a response, and leave room for the length of the frame."""
        write_i32_be(self._out, 0)
        write_i32_be(self._out, correlation_id)
        if flexible_header:
            self._out.append(0)

    def frame(self) -> bytes:
        """Return the frame that was written, with its length."""
        if self._pieces is None:
            out = self._out
            size = len(out) - 4
            out[0] = u8(size >> 24)
            out[1] = u8((size >> 16) & 0xFF)
            out[2] = u8((size >> 8) & 0xFF)
            out[3] = u8(size & 0xFF)
            return out.getvalue()
        pieces = [*self._pieces, self._out.getvalue()]
        length = 0
        for piece in pieces:
            length += len(piece)
        pieces[0] = (length - 4).to_bytes(4, "big") + pieces[0][4:]
        return b"".join(pieces)


def _int16(value: i64) -> i64:
    """Return the length of a string in the plain encoding, if it fits."""
    if value > MAX_STRING_BYTES:
        raise OverflowError(f"a string of {value} bytes is too long")
    return value


def annotate(cls: type[Declaration], text: str) -> None:
    """Give a class the annotations of its declaration, each a line with name and type."""
    pairs = [line.partition(" ") for line in text.splitlines()]
    cls.__annotations__ = {sys.intern(name): sys.intern(kind) for name, _, kind in pairs}


def describe(
    cls: type[MessageDeclaration],
    api_key: int | None,
    first: int,
    last: int,
    flexible: int | None,
    header_flexible: int | None,
    element_budget: int,
    open_ended: bool,  # noqa: FBT001 - calls are written by `compilation/messages.py`
) -> None:
    """Give a message what its declaration says, see `MessageDeclaration`, in one call."""
    cls.api_key = api_key
    cls.versions = VersionRange(first, last)
    cls.flexible = flexible
    cls.header_flexible = header_flexible
    cls.element_budget = element_budget
    cls.open_ended = open_ended
    cls.is_native = True
    cls.functions_ = {}


def register(
    cls: type[MessageDeclaration],
    decode: Callable[..., Any],
    encode: Callable[..., Any],
    frame: Callable[..., Any] | None = None,
) -> None:
    """Let a message use its written-out codecs, whose first argument is the version."""
    first, last = cls.versions
    for version in range(first, last + 1):
        cls.functions_["decode", version] = partial(decode, version)
        cls.functions_["encode", version] = partial(encode, version)
        if frame is not None:
            cls.functions_["frame", version] = partial(frame, version)
