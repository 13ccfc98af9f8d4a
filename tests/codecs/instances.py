"""Instances of any declared message, from a seeded generator or from Hypothesis.

`build` fills every field, also those that only some versions have; `project` reduces an instance to
the fields of one version. So one built message tests every version of its class.
"""

import random
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

from coterie.protocol.fields import Declaration
from coterie.protocol.schema import FieldType, WireField, fields_of
from coterie.protocol.wire import ABSENT_ONLY, Message, Wire

S = TypeVar("S", bound=Declaration)
M = TypeVar("M", bound=Message)

_RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
# Characters of one to four bytes in UTF-8, and some that are often escaped wrongly.
_ALPHABET = "azAZ09-_./ äßЖ東🦎\x00\n\"'"
# Also lengths around the one at which a compact length takes a second byte.
_LENGTHS = (0, 1, 2, 3, 5, 8, 126, 127, 128, 129)


class Values(Protocol):
    """The source of scalars and decisions."""

    def integer(self, low: int, high: int) -> int: ...
    def text(self) -> str: ...
    def octets(self, size: int | None = None) -> bytes: ...
    def chance(self, percent: int) -> bool: ...
    def size(self) -> int: ...


class RandomValues:
    """Values from a seeded generator: the same in every run."""

    def __init__(self, seed: object) -> None:
        self._random = random.Random(str(seed))

    def integer(self, low: int, high: int) -> int:
        edges = [edge for edge in (low, -1, 0, 1, high) if low <= edge <= high]
        if self._random.random() < 0.5:
            return self._random.choice(edges)
        return self._random.randint(low, high)

    def text(self) -> str:
        return "".join(self._random.choices(_ALPHABET, k=self._random.choice(_LENGTHS)))

    def octets(self, size: int | None = None) -> bytes:
        return self._random.randbytes(self._random.choice(_LENGTHS) if size is None else size)

    def chance(self, percent: int) -> bool:
        return self._random.random() * 100 < percent

    def size(self) -> int:
        return self._random.choice((0, 1, 1, 2, 3))


class DrawnValues:
    """Values drawn by Hypothesis, which shrinks failing examples."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def text(self) -> str:
        return self._draw(_TEXTS)

    def octets(self, size: int | None = None) -> bytes:
        return self._draw(_OCTETS if size is None else _EXACT_OCTETS[size])

    def chance(self, percent: int) -> bool:
        return self._draw(_PERCENTS) < percent

    def size(self) -> int:
        return self._draw(_SIZES)


_TEXTS = st.text(max_size=9) | st.integers(125, 130).map(
    lambda size: "é" * (size // 2) + "x" * (size % 2)
)
_OCTETS = st.binary(max_size=9) | st.integers(125, 130).map(bytes)
_EXACT_OCTETS = {16: st.binary(min_size=16, max_size=16)}
_PERCENTS = st.integers(0, 99)
_SIZES = st.integers(0, 2)


def build(cls: type[S], values: Values) -> S:
    """Return an instance in which every field of every version has a value."""
    made = {field.name: _field(field, values) for field in fields_of(cls)}
    return cls(**made)


@st.composite
def messages(draw: st.DrawFn, cls: type[M]) -> M:
    """Return a strategy of built messages."""
    return build(cls, DrawnValues(draw))


def _field(field: WireField, values: Values) -> Any:
    if field.declared.tag is not None and values.chance(40):
        return field.default
    if field.type.optional and values.chance(25):
        return None
    return _value(field.type, values)


def _value(kind: FieldType, values: Values) -> Any:
    if kind.element is not None:
        return [_value(kind.element, values) for _ in range(values.size())]
    if kind.struct is not None:
        return build(kind.struct, values)
    assert kind.wire is not None
    return _scalar(kind.wire, values)


def _scalar(wire: Wire, values: Values) -> Any:
    if wire.kind == "boolean":
        return values.chance(50)
    if wire.kind == "string":
        return values.text()
    if wire.kind in ("bytes", "records"):
        return values.octets()
    if wire.kind == "float64":
        return values.integer(-(2**53), 2**53) / 2
    if wire.kind == "uuid":
        return bytes(16) if values.chance(20) else values.octets(16)
    return values.integer(*_RANGES[wire.kind])


def project(struct: S, version: int) -> S:
    """Return the instance with all fields that a version does not carry at their defaults.

    A null that the version cannot carry becomes the empty value, as in the encoder.
    """
    values = {}
    for field in fields_of(type(struct)):
        value = getattr(struct, field.name)
        if not field.present(version):
            value = field.default
        elif value is None:
            absent = field.declared.nullable_since == ABSENT_ONLY
            value = None if absent or field.nullable(version) else _empty(field.type)
        else:
            value = _project_value(field.type, value, version)
        values[field.name] = value
    return type(struct)(**values)


def _project_value(kind: FieldType, value: Any, version: int) -> Any:
    if kind.struct is not None:
        return project(value, version)
    if kind.element is not None and kind.element.struct is not None:
        return [project(item, version) for item in value]
    return value


def _empty(kind: FieldType) -> Any:
    if kind.element is not None:
        return []
    assert kind.wire is not None
    return kind.wire.zero
