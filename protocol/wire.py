"""The vocabulary in which messages are declared.

A message is a class whose annotations name wire types and whose defaults tell in which versions a
field exists:

    @message(api_key=ApiKey.HEARTBEAT, flexible=4)
    class HeartbeatRequest(Message):
        group_id: String
        generation_id: Int32
        member_id: String
        group_instance_id: String | None = since(3, default=None)

`compile.py` turns a declaration and a version into straight-line functions at their first use.
Nothing here touches bytes; nothing in a message file is hand-coded. Invariants: an instance has
slots and no dictionary; a field that its version does not carry holds its default; `X | None` is
the one way to say nullable.
"""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar, dataclass_transform

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import DECODE_ERRORS, MalformedFrame

# Elements of arrays that one request may carry, nested ones included. An element costs about 0.7 us
# and 250 bytes to build, so a request of any size stays under 20 ms of the loop and 8 MiB (design,
# "Promises").
REQUEST_ELEMENT_BUDGET = 20_000
# Answers are read by our own tools only, from brokers their user chose.
RESPONSE_ELEMENT_BUDGET = 10_000_000

LAST_VERSION = 32767
# For `nullable_since` of a tagged structure: None means that it is absent; no version can carry a
# null in its place.
ABSENT_ONLY = LAST_VERSION + 1


class Wire(NamedTuple):
    """The wire type of an annotation: its name, its struct character when fixed, its zero value."""

    kind: str
    struct: str = ""
    size: int = 0
    zero: Any = None


Boolean = Annotated[bool, Wire("boolean", "?", 1, zero=False)]
Int8 = Annotated[int, Wire("int8", "b", 1, 0)]
Int16 = Annotated[int, Wire("int16", "h", 2, 0)]
Uint16 = Annotated[int, Wire("uint16", "H", 2, 0)]
Int32 = Annotated[int, Wire("int32", "i", 4, 0)]
Uint32 = Annotated[int, Wire("uint32", "I", 4, 0)]
Int64 = Annotated[int, Wire("int64", "q", 8, 0)]
Float64 = Annotated[float, Wire("float64", "d", 8, 0.0)]
Uuid = Annotated[bytes, Wire("uuid", "16s", 16, bytes(16))]
String = Annotated[str, Wire("string", zero="")]
Bytes = Annotated[bytes, Wire("bytes", zero=b"")]
# Record batches: bytes in a 4-byte length (compact: varint), never looked into by the codec.
Records = Annotated[bytes, Wire("records", zero=b"")]

ZERO_UUID = bytes(16)
# Where a client did not ask for authorized operations (KIP-430); no set of them has these bits.
AUTHORIZED_OPERATIONS_OMITTED = -(2**31)


class Field(NamedTuple):
    """How a field differs from a plain one: versions, default, tag, bounds."""

    first: int = 0
    last: int = LAST_VERSION
    default: Any = ...
    factory: Callable[[], Any] | None = None
    tag: int | None = None
    nullable_since: int = 0
    max_items: int | None = None


def since(
    first: int,
    *,
    last: int = LAST_VERSION,
    default: Any = ...,
    factory: Callable[[], Any] | None = None,
    nullable_since: int = 0,
    tag: int | None = None,
) -> Any:
    """A field carried from version `first` on (to `last`); with `tag` a tagged one (KIP-482)."""
    return Field(first, last, default, factory, tag, nullable_since)


def until(
    last: int,
    *,
    default: Any = ...,
    factory: Callable[[], Any] | None = None,
    nullable_since: int = 0,
) -> Any:
    """A field carried up to and including version `last`."""
    return Field(0, last, default, factory, None, nullable_since)


def field(
    *,
    default: Any = ...,
    factory: Callable[[], Any] | None = None,
    nullable_since: int = 0,
    max_items: int | None = None,
) -> Any:
    """A field of every version: with a default, nullable late, or with fewer elements."""
    return Field(0, LAST_VERSION, default, factory, None, nullable_since, max_items)


class Struct:
    """A declared structure: keyword-only constructor, equality and repr over its fields."""

    __slots__ = ()
    fields_: ClassVar[dict[str, Field]]

    def __init__(self, **values: Any) -> None:
        # Replaced by the compiled constructor at the first instance: declaring costs no compiling.
        from coterie.protocol import compile as compiler

        compiler.install_constructor(type(self))
        type(self).__init__(self, **values)

    @classmethod
    def of(cls, *values: Any) -> Self:
        """An instance from the values of all fields, in the order of their declaration.

        A third of the constructor's time, for the few places that make one a request.
        """
        # Replaced by the compiled function at the first call, like the constructor.
        from coterie.protocol import compile as compiler

        compiler.install_of(cls)
        return cls.of(*values)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.fields_)

    __hash__ = None  # type: ignore[assignment]  # messages are mutable values

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={getattr(self, name, '<unset>')!r}" for name in self.fields_)
        return f"{type(self).__name__}({inner})"


class Message(Struct):
    """A declared message: what a frame or a log record holds, in a range of versions."""

    __slots__ = ()
    api_key: ClassVar[int | None] = None
    versions: ClassVar[tuple[int, int]]
    flexible: ClassVar[int | None]
    element_budget: ClassVar[int]
    open_ended: ClassVar[bool]
    functions_: ClassVar[dict[tuple[str, int], Any]]

    @classmethod
    def decoder(cls, version: int) -> "Callable[[bytes, int, int], Self]":
        """The compiled `decode(buffer, position, end) -> message` of a version.

        It may raise `MalformedFrame`, `struct.error`, `IndexError` or `UnicodeDecodeError`: the
        caller, who holds the connection, wraps them all; `decode` does that too.
        """
        function: Callable[[bytes, int, int], Self]
        function = cls.functions_.get(("decode", version)) or _compiled(cls, "decode", version)
        return function

    @classmethod
    def encoder(cls, version: int) -> "Callable[[Self], bytes]":
        """The compiled `encode(message) -> bytes` of a version."""
        function: Callable[[Self], bytes]
        function = cls.functions_.get(("encode", version)) or _compiled(cls, "encode", version)
        return function

    @classmethod
    def framer(cls, version: int) -> "Callable[[Self, int], bytes]":
        """The compiled `frame(response, correlation_id) -> bytes`: a whole frame, length first."""
        function: Callable[[Self, int], bytes]
        function = cls.functions_.get(("frame", version)) or _compiled(cls, "frame", version)
        return function

    @classmethod
    def decode(cls, buffer: bytes, version: int, position: int = 0) -> Self:
        """Decode exactly one message.

        Args:
            buffer: ends with the message's last byte.
            version: one of the declared versions.
            position: of the message's first byte.

        Raises:
            MalformedFrame: the bytes are no such message, or something is left over.
        """
        try:
            return cls.decoder(version)(buffer, position, len(buffer))
        except MalformedFrame:
            raise
        except DECODE_ERRORS as error:
            raise MalformedFrame(f"{cls.__name__} v{version}: {error}") from error

    def encode(self, version: int) -> bytes:
        """The body of this message in `version`."""
        return type(self).encoder(version)(self)


def _compiled(cls: type[Message], direction: str, version: int) -> Any:
    # Imported at the first use of a codec, for the compiler imports this file.
    from coterie.protocol import compile as compiler

    return compiler.compiled(cls, direction, version)


_S = TypeVar("_S", bound=type)


def _with_slots(cls: _S) -> _S:
    """Make the class anew with its annotations as slots; field descriptions move to `fields_`."""
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
    """Declare a structure that stands inside messages."""
    return _with_slots(cls)


@dataclass_transform(kw_only_default=True, field_specifiers=(since, until, field))
def message(
    *,
    flexible: int | None,
    api_key: ApiKey | None = None,
    versions: tuple[int, int] | None = None,
    element_budget: int | None = None,
    open_ended: bool | None = None,
) -> Callable[[_S], _S]:
    """Declare a message.

    Args:
        flexible: first version with compact lengths and tagged fields (KIP-482); None for never.
        api_key: the API of a request or response; its versions are those in `SERVED_VERSIONS`.
        versions: first and last version of a message that belongs to no API.
        element_budget: array elements one such message may hold; by default a request's or a
            response's.
        open_ended: bytes behind the last field are skipped. By default so for requests, because
            Kafka skips them and librdkafka sends some (three behind a Metadata v13).
    """
    if versions is None:
        assert api_key is not None, "a message belongs to an API or names its versions"
        versions = SERVED_VERSIONS[api_key]

    def declare(cls: _S) -> _S:
        made = _with_slots(cls)
        made.api_key = api_key  # type: ignore[attr-defined]
        made.versions = versions  # type: ignore[attr-defined]
        made.flexible = flexible  # type: ignore[attr-defined]
        is_response = cls.__name__.endswith("Response")
        default_budget = RESPONSE_ELEMENT_BUDGET if is_response else REQUEST_ELEMENT_BUDGET
        made.element_budget = element_budget or default_budget  # type: ignore[attr-defined]
        is_request = api_key is not None and not is_response
        made.open_ended = is_request if open_ended is None else open_ended  # type: ignore[attr-defined]
        made.functions_ = {}  # type: ignore[attr-defined]
        return made

    return declare
