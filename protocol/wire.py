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

from collections.abc import Callable
from typing import Any, Self, TypeVar, dataclass_transform

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.compile import compiled, compiled_constructor, compiled_of
from coterie.protocol.errors import DECODE_ERRORS, MalformedFrame
from coterie.protocol.fields import (
    ABSENT_ONLY,
    LAST_VERSION,
    ZERO_UUID,
    Boolean,
    Bytes,
    Declaration,
    Field,
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

# Array elements that one request may carry, nested ones included [framing/element-limit]. Building
# an element costs about 0.7 us and 250 bytes, so decoding a request of any size takes less than
# 20 ms of the event loop and less than 8 MiB.
REQUEST_ELEMENT_BUDGET = 20_000
# Only our own tools read responses, and only from brokers that their user chose.
RESPONSE_ELEMENT_BUDGET = 10_000_000


class Struct(Declaration):
    """A declared structure: keyword-only constructor, equality and repr over its fields."""

    __slots__ = ()

    def __init__(self, **values: Any) -> None:
        # The first instance replaces this by the compiled constructor of its class, so that a
        # declaration compiles nothing by itself: a starting server declares many messages and
        # uses few of them.
        type(self).__init__ = compiled_constructor(type(self))  # type: ignore[method-assign]
        type(self).__init__(self, **values)

    @classmethod
    def of(cls, *values: Any) -> Self:
        """Return an instance with the values of all fields, in the order of their declaration.

        It takes a third of the constructor's time and serves the few places that build a message
        for every request.
        """
        # The first call replaces this, as with the constructor.
        cls.of = staticmethod(compiled_of(cls))  # type: ignore[method-assign]
        made: Self = cls.of(*values)
        return made

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.fields_)

    __hash__ = None  # type: ignore[assignment]  # messages are mutable values

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={getattr(self, name, '<unset>')!r}" for name in self.fields_)
        return f"{type(self).__name__}({inner})"


class Message(Struct, MessageDeclaration):
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


_S = TypeVar("_S", bound=type)


def _with_slots(cls: _S) -> _S:
    """Build the class again with its annotations as slots and the fields' descriptions apart.

    A class attribute of the same name would hide the slot, so a default cannot stay on the class.
    """
    annotations: dict[str, Any] = cls.__annotations__
    namespace = {
        key: value
        for key, value in cls.__dict__.items()
        if key not in annotations and key not in ("__dict__", "__weakref__")
    }
    fields = {}
    for name in annotations:
        declared = cls.__dict__.get(name, Field())
        fields[name] = declared if isinstance(declared, Field) else Field(default=declared)
    namespace["__slots__"] = tuple(annotations)
    namespace["fields_"] = fields
    made: _S = type(cls)(cls.__name__, cls.__bases__, namespace)
    return made


@dataclass_transform(kw_only_default=True, field_specifiers=(since, until, field))
def struct(cls: _S) -> _S:
    """Declare a structure that messages contain."""
    return _with_slots(cls)


@dataclass_transform(kw_only_default=True, field_specifiers=(since, until, field))
def message(
    *,
    flexible: int | None,
    api_key: int | None = None,
    versions: tuple[int, int] | None = None,
    element_budget: int | None = None,
    open_ended: bool | None = None,
) -> Callable[[_S], _S]:
    """Declare a message.

    Args:
        flexible: the first version with compact lengths and tagged fields (KIP-482), None for
            never.
        api_key: the API of a request or response, whose versions are those in `SERVED_VERSIONS`.
        versions: the first and the last version of a message that belongs to no served API.
        element_budget: how many array elements one such message may hold; by default as many as
            a request or a response.
        open_ended: whether bytes after the last field are skipped. Requests are open-ended by
            default [framing/trailing-bytes].
    """
    if versions is None:
        assert api_key is not None, "a message belongs to an API or names its versions"
        versions = SERVED_VERSIONS[ApiKey(api_key)]

    def declare(cls: _S) -> _S:
        made = _with_slots(cls)
        assert issubclass(made, MessageDeclaration), made
        is_response = cls.__name__.endswith("Response")
        answers_api_versions = is_response and api_key == ApiKey.API_VERSIONS
        default_budget = RESPONSE_ELEMENT_BUDGET if is_response else REQUEST_ELEMENT_BUDGET
        is_request = api_key is not None and not is_response
        made.api_key = api_key
        made.versions = VersionRange(*versions)
        made.flexible = flexible
        # The header of an ApiVersions response stays the same [framing/api-versions-header].
        made.header_flexible = None if answers_api_versions else flexible
        made.element_budget = element_budget or default_budget
        made.open_ended = is_request if open_ended is None else open_ended
        made.functions_ = {}
        return made

    return declare
