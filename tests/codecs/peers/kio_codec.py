"""kio's codec: data classes generated from Kafka's schemas, decoded in Rust.

It aborts the process on oversized counts, so it gets well-formed bytes only.
"""

import dataclasses
import datetime
import io
import re
import uuid
from collections.abc import Iterator
from typing import Any, Literal, TypeVar, get_args

from kio.index import UnknownEntity, load_entity_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta, i64Timedelta

from coterie.protocol.fields import Declaration
from coterie.protocol.schema import FieldType, WireField, fields_of
from coterie.protocol.wire import ABSENT_ONLY, ZERO_UUID, Message
from tests.codecs.peers import SHORTER_NAMES

M = TypeVar("M", bound=Message)
S = TypeVar("S", bound=Declaration)

_MILLISECOND = datetime.timedelta(milliseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
# Python's times end in the year 9999, and kio converts times and durations by floating point.
_LAST_TIME_S = 10**11
_LONGEST_MS = 10**12
_UNITS = re.compile("_ms$")
_KINDS: dict[str, Literal[EntityType.request, EntityType.response]] = {
    "Request": EntityType.request,
    "Response": EntityType.response,
}


class Kio:
    """Field names equal ours except for units, which kio expresses as types."""

    name = "kio"

    def supports(self, cls: type[Message], version: int) -> bool:
        return self._class(cls, version) is not None

    def adapt(self, message: M, version: int) -> M:
        return _adapt(self._class(type(message), version), message, version)

    def encode(self, message: Message, version: int) -> bytes:
        cls = self._class(type(message), version)
        out = io.BytesIO()
        entity_writer(cls)(out, _to(cls, message, version))
        return out.getvalue()

    def decode(self, cls: type[M], data: bytes, version: int) -> M:
        theirs, size = entity_reader(self._class(cls, version))(data, 0)
        assert size == len(data), "kio left bytes over"
        return _from(cls, theirs, version)

    def _class(self, cls: type[Message], version: int) -> Any:
        match = re.fullmatch("(.*?)(Request|Response|)", cls.__name__)
        assert match is not None
        stem, kind = match.groups()
        name = re.sub("(?<!^)([A-Z])", r"_\1", stem).lower()
        try:
            if kind:
                return load_entity_schema(name, version, _KINDS[kind])
            return load_entity_schema(name, version, EntityType.data)
        except UnknownEntity:
            return None


def _matched(
    theirs: Any, ours: type[Declaration], version: int
) -> Iterator[tuple[WireField, "dataclasses.Field[Any]"]]:
    """Pair our fields of a version with theirs, which must be the same in the same order."""
    present = [field for field in fields_of(ours) if field.present(version)]
    fields = dataclasses.fields(theirs)
    names = [SHORTER_NAMES.get(field.name, field.name) for field in fields]
    assert [_UNITS.sub("", field.name) for field in present] == names
    return zip(present, fields, strict=True)


def _inner(field: "dataclasses.Field[Any]") -> Any:
    """Return the data class in a field's type: an array's, an optional's, or the type itself."""
    found, kind = [], [field.type]
    while kind:
        candidate = kind.pop()
        if dataclasses.is_dataclass(candidate):
            found.append(candidate)
        kind += get_args(candidate)
    (inner,) = found
    return inner


def _adapt(cls: Any, struct: S, version: int) -> S:
    """Limit values to the ranges of kio's types; kio treats a structure of defaults as absent."""
    values = {name: getattr(struct, name) for name in struct.fields_}
    for field, theirs in _matched(cls, type(struct), version):
        value = values[field.name]
        kafka_type = theirs.metadata.get("kafka_type")
        if kafka_type == "error_code":
            value = value % 134
        elif kafka_type == "datetime_i64":
            may_be_absent = type(None) in get_args(theirs.type)
            value = -1 if value < 0 and may_be_absent else value % _LAST_TIME_S * 1000
        elif kafka_type == "timedelta_i64":
            value = value % _LONGEST_MS
        elif field.type.element is not None and field.type.element.struct is not None and value:
            value = [_adapt(_inner(theirs), item, version) for item in value]
        elif field.type.struct is not None and value is not None:
            value = _adapt(_inner(theirs), value, version)
            absent = field.declared.nullable_since == ABSENT_ONLY and value == type(value)()
            value = None if absent else value
        values[field.name] = value
    return type(struct)(**values)


def _to(cls: Any, struct: Declaration, version: int) -> Any:
    values = {}
    for field, theirs in _matched(cls, type(struct), version):
        value = getattr(struct, field.name)
        if value is None and field.declared.nullable_since == ABSENT_ONLY:
            continue
        values[theirs.name] = _value_to(field.type, theirs, value, version)
    return cls(**values)


def _value_to(kind: FieldType, theirs: "dataclasses.Field[Any]", value: Any, version: int) -> Any:
    kafka_type = theirs.metadata.get("kafka_type")
    if kafka_type == "datetime_i64":
        return None if value == -1 else _EPOCH + value * _MILLISECOND
    if value is None:
        return None
    if kind.element is not None:
        if kind.element.struct is None:
            return tuple(value)
        return tuple(_to(_inner(theirs), item, version) for item in value)
    if kind.struct is not None:
        return _to(_inner(theirs), value, version)
    if kafka_type == "error_code":
        return ErrorCode(value)
    if kafka_type == "timedelta_i32":
        return i32Timedelta.parse(value * _MILLISECOND)
    if kafka_type == "timedelta_i64":
        return i64Timedelta.parse(value * _MILLISECOND)
    if kafka_type == "uuid":
        return None if value == ZERO_UUID else uuid.UUID(bytes=value)
    return value


def _from(cls: type[S], theirs: Any, version: int) -> S:
    values = {
        field.name: _value_from(field, getattr(theirs, their_field.name), version)
        for field, their_field in _matched(theirs, cls, version)
    }
    return cls(**{f.name: f.default for f in fields_of(cls) if f.name not in values}, **values)


def _value_from(field: WireField, value: Any, version: int) -> Any:
    kind = field.type
    if kind.wire is not None and kind.wire.kind == "uuid":
        return ZERO_UUID if value is None else value.bytes
    if kind.wire is not None and kind.wire.kind == "int64" and value is None:
        return -1
    if value is None:
        return None
    if kind.element is not None:
        struct = kind.element.struct
        return list(value) if struct is None else [_from(struct, item, version) for item in value]
    if kind.struct is not None:
        made = _from(kind.struct, value, version)
        absent = field.declared.nullable_since == ABSENT_ONLY and made == kind.struct()
        return None if absent else made
    if isinstance(value, datetime.timedelta):
        return value // _MILLISECOND
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // _MILLISECOND
    return value
