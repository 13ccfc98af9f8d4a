"""The vocabulary of declarations: wire types, the versions of a field, and what a class records.

This module is the leaf under the codec compiler and under the classes that messages are derived
from (`wire.py`). Declarations import everything from `wire.py`, which exports these names again.
"""

import base64
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, NamedTuple, Self

LAST_VERSION = 32767
# For `nullable_since` of a tagged structure: None means that the field is absent, because no
# version can carry a null in its place.
ABSENT_ONLY = LAST_VERSION + 1


class Wire(NamedTuple):
    """A wire type: its name, its zero value and, if fixed-width, its struct character and size.

    The encodings are those of [framing/plain-lengths].
    """

    kind: str
    struct: str = ""
    size: int = 0
    zero: Any = None


Boolean = Annotated[bool, Wire("boolean", "?", 1, zero=False)]
Int8 = Annotated[int, Wire("int8", "b", 1, 0)]
Int16 = Annotated[int, Wire("int16", "h", 2, 0)]
Uint16 = Annotated[int, Wire("uint16", "H", 2, 0)]
Int32 = Annotated[int, Wire("int32", "i", 4, 0)]
Int64 = Annotated[int, Wire("int64", "q", 8, 0)]
Float64 = Annotated[float, Wire("float64", "d", 8, 0.0)]
Uuid = Annotated[bytes, Wire("uuid", "16s", 16, bytes(16))]
String = Annotated[str, Wire("string", zero="")]
Bytes = Annotated[bytes, Wire("bytes", zero=b"")]
# Record batches: encoded as `Bytes`, and passed through undecoded.
Records = Annotated[bytes, Wire("records", zero=b"")]

ZERO_UUID = bytes(16)


def uuid_text(value: bytes) -> str:
    """Return a UUID as Kafka prints it: 22 characters of URL-safe base64, without padding."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


class Field(NamedTuple):
    """How a field differs from a plain one: its versions, default and tag, and when it may be null.

    A version that does not carry the field leaves it at its default [framing/null-before-version].
    """

    first: int = 0
    last: int = LAST_VERSION
    default: Any = ...
    factory: Callable[[], Any] | None = None
    tag: int | None = None
    nullable_since: int = 0


def since(
    first: int,
    *,
    last: int = LAST_VERSION,
    default: Any = ...,
    factory: Callable[[], Any] | None = None,
    nullable_since: int = 0,
    tag: int | None = None,
) -> Any:
    """Declare a field of versions `first` to `last`; with `tag` it is a tagged field (KIP-482)."""
    return Field(first, last, default, factory, tag, nullable_since)


def until(
    last: int,
    *,
    default: Any = ...,
    factory: Callable[[], Any] | None = None,
    nullable_since: int = 0,
) -> Any:
    """Declare a field of every version up to and including `last`."""
    return Field(0, last, default, factory, None, nullable_since)


def field(
    *,
    default: Any = ...,
    factory: Callable[[], Any] | None = None,
    nullable_since: int = 0,
) -> Any:
    """Declare a field of every version that has a default, or may be null only later."""
    return Field(0, LAST_VERSION, default, factory, None, nullable_since)


class VersionRange(NamedTuple):
    """The versions of a message, both ends included."""

    first: int
    last: int

    def includes(self, version: int) -> bool:
        """Return whether a version is in the range."""
        return self.first <= version <= self.last


class Declaration:
    """A declared structure: equality and repr over its fields.

    Attributes:
        fields_: the fields in the order of their declaration.
    """

    __slots__ = ()
    fields_: ClassVar[dict[str, Field]]

    def __init__(self, **values: Any) -> None:
        # `@struct` and `@message` give every declared class a constructor of its own.
        raise NotImplementedError

    @classmethod
    def of(cls, *values: Any) -> Self:
        """Return an instance with the values of all fields, in the order of their declaration.

        It takes a third of the constructor's time and serves the few places that build a message
        for every request. Every declared class has its own.
        """
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.fields_)

    __hash__ = None  # type: ignore[assignment]  # messages are mutable values

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={getattr(self, name, '<unset>')!r}" for name in self.fields_)
        return f"{type(self).__name__}({inner})"


class MessageDeclaration(Declaration):
    """What `@message` records on a class beside its fields.

    Attributes:
        api_key: the API of a request or response; None for other messages.
        versions: the declared versions.
        flexible: the first version with compact lengths and tagged fields; None for never.
        header_flexible: the first version whose frame header has tagged fields; None for never.
        element_budget: how many array elements one message may hold [framing/element-limit].
        open_ended: whether bytes after the last field are skipped [framing/trailing-bytes].
        is_native: whether its codecs are native code, as in the compiled form of the package.
        functions_: the compiled codec functions, by direction and version.
    """

    __slots__ = ()
    api_key: ClassVar[int | None] = None
    versions: ClassVar[VersionRange]
    flexible: ClassVar[int | None]
    header_flexible: ClassVar[int | None]
    element_budget: ClassVar[int]
    open_ended: ClassVar[bool]
    is_native: ClassVar[bool] = False
    functions_: ClassVar[dict[tuple[str, int], Any]]

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Return whether `version` has compact lengths and tagged fields (KIP-482)."""
        return cls.flexible is not None and version >= cls.flexible

    @classmethod
    def has_flexible_header(cls, version: int) -> bool:
        """Return whether the frame header before this message ends with tagged fields.

        It does in flexible versions, except before an ApiVersions response
        [framing/request-header].
        """
        return cls.header_flexible is not None and version >= cls.header_flexible
