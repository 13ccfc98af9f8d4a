"""The vocabulary of messages: they are declared, and their codecs are generated.

A message is a class whose annotations name wire types and whose defaults name the versions in
which a field exists:

    @message(api_key=ApiKey.HEARTBEAT, flexible=4)
    class HeartbeatRequest(Message):
        group_id: String
        generation_id: Int32
        member_id: String
        group_instance_id: String | None = since(3, default=None)

`compile.py` turns a declaration and a version into straight-line functions at their first use.

Invariants: an instance has slots and no dictionary; a field that its version does not carry holds
its default; `X | None` is the only way to declare a nullable field.
"""

from collections.abc import Callable, Generator
from typing import Self

from coterie.protocol.compile import compiled
from coterie.protocol.declare import (
    REQUEST_ELEMENT_BUDGET,
    RESPONSE_ELEMENT_BUDGET,
    message,
    struct,
)
from coterie.protocol.errors import DECODE_ERRORS, MalformedFrame
from coterie.protocol.fields import (
    ABSENT_ONLY,
    LAST_VERSION,
    ZERO_UUID,
    Boolean,
    Bytes,
    Declaration,
    Field,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    MessageDeclaration,
    Records,
    String,
    Uint16,
    Uuid,
    VersionRange,
    Wire,
    field,
    since,
    until,
)

__all__ = [
    "ABSENT_ONLY",
    "LAST_VERSION",
    "REQUEST_ELEMENT_BUDGET",
    "RESPONSE_ELEMENT_BUDGET",
    "ZERO_UUID",
    "Boolean",
    "Bytes",
    "Field",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Message",
    "Records",
    "String",
    "Struct",
    "Uint16",
    "Uuid",
    "VersionRange",
    "Wire",
    "field",
    "message",
    "since",
    "struct",
    "until",
]

Struct = Declaration


class Message(MessageDeclaration):
    """A declared message: the content of a frame or of a log record, in a range of versions."""

    __slots__ = ()

    @classmethod
    def decoder(cls, version: int) -> "Callable[[bytes, int, int], Self]":
        """Return the compiled `decode(buffer, position, end) -> message` of a version.

        It may raise any of `DECODE_ERRORS`. The server's connection calls it directly and catches
        them all at once; all other callers use `decode`.
        """
        function: Callable[[bytes, int, int], Self]
        function = cls.functions_.get(("decode", version)) or compiled(cls, "decode", version)
        return function

    @classmethod
    def decoder_in_steps(
        cls, version: int
    ) -> "Callable[[bytes, int, int], Generator[None, None, Self]]":
        """Return the compiled decoder of a version that yields after each few hundred elements."""
        function: Callable[[bytes, int, int], Generator[None, None, Self]]
        function = compiled(cls, "decode_in_steps", version)
        return function

    @classmethod
    def encoder(cls, version: int) -> "Callable[[Self], bytes]":
        """Return the compiled `encode(message) -> bytes` of a version."""
        function: Callable[[Self], bytes]
        function = cls.functions_.get(("encode", version)) or compiled(cls, "encode", version)
        return function

    @classmethod
    def framer(cls, version: int) -> "Callable[[Self, int], bytes]":
        """Return the compiled `frame(response, correlation_id) -> bytes`: a whole frame."""
        function: Callable[[Self, int], bytes]
        function = cls.functions_.get(("frame", version)) or compiled(cls, "frame", version)
        return function

    @classmethod
    def decode(cls, buffer: bytes, version: int, position: int = 0) -> Self:
        """Decode the one message that ends with the buffer.

        Args:
            buffer: bytes that end with the message's last byte.
            version: one of the declared versions.
            position: index of the message's first byte.

        Raises:
            MalformedFrame: the bytes are not such a message, or bytes are left over.
        """
        try:
            return cls.decoder(version)(buffer, position, len(buffer))
        except MalformedFrame:
            raise
        except DECODE_ERRORS as error:
            raise MalformedFrame(f"{cls.__name__} v{version}: {error}") from error

    def encode(self, version: int) -> bytes:
        """Return the bytes of this message in `version`, without a header."""
        return type(self).encoder(version)(self)
