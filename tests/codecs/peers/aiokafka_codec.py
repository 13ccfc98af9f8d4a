"""aiokafka's codec: hand-written schemas of the older versions, with field names of its own.

Values are matched by position. It neither decodes nor encodes tagged fields, so these stay at their
defaults here.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import aiokafka.protocol
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import Schema, TaggedFields

from coterie.protocol.fields import Declaration
from coterie.protocol.schema import FieldType, WireField, fields_of
from coterie.protocol.wire import Message

# Its ListOffsets v4 and v5 are marked "not yet supported"; their leader epoch has a wrong width.
# Its DescribeAcls v2 is not flexible.
_UNFINISHED = {(2, True, 4), (2, True, 5), (29, True, 2), (29, False, 2)}

M = TypeVar("M", bound=Message)
S = TypeVar("S", bound=Declaration)


def _classes() -> dict[tuple[int, bool, int], Any]:
    """Return all classes by API key, whether it is a request, and the version in the class name.

    The name is used because ListGroupsRequest_v2 declares version 1.
    """
    for module in pkgutil.iter_modules(aiokafka.protocol.__path__, "aiokafka.protocol."):
        importlib.import_module(module.name)
    found: dict[tuple[int, bool, int], Any] = {}
    for base in (RequestStruct, Response):
        for cls in base.__subclasses__():
            version = re.search(r"_v(\d+)$", cls.__name__)
            if version is not None:
                found[cls.API_KEY, base is RequestStruct, int(version[1])] = cls
    return {key: cls for key, cls in found.items() if key not in _UNFINISHED}


class Aiokafka:
    """The codec of aiokafka 0.14, up to the versions that it uses."""

    name = "aiokafka"

    def __init__(self) -> None:
        self._classes = _classes()

    def supports(self, cls: type[Message], version: int) -> bool:
        return self._class(cls, version) is not None

    def adapt(self, message: M, version: int) -> M:
        return _without_tags(message, version)

    def encode(self, message: Message, version: int) -> bytes:
        cls = self._class(type(message), version)
        encoded: bytes = cls(*_to(cls.SCHEMA, message, version)).encode()
        return encoded

    def decode(self, cls: type[M], data: bytes, version: int) -> M:
        theirs = self._class(cls, version)
        made = theirs.decode(data)
        return _from(cls, theirs.SCHEMA, [getattr(made, n) for n in theirs.SCHEMA.names], version)

    def _class(self, cls: type[Message], version: int) -> Any:
        if cls.api_key is None:
            return None
        return self._classes.get((cls.api_key, cls.__name__.endswith("Request"), version))


def _in_line(cls: type[Declaration], version: int) -> list[WireField]:
    return [f for f in fields_of(cls) if f.present(version) and f.declared.tag is None]


def _without_tags(struct: S, version: int) -> S:
    values = {}
    for field in fields_of(type(struct)):
        value = getattr(struct, field.name)
        if field.declared.tag is not None:
            value = field.default
        elif field.type.element is not None and field.type.element.struct is not None and value:
            value = [_without_tags(item, version) for item in value]
        values[field.name] = value
    return type(struct)(**values)


def _to(schema: Schema, struct: Declaration, version: int) -> tuple[Any, ...]:
    fields = iter(_in_line(type(struct), version))
    made = _fill(schema, fields, struct, version)
    assert next(fields, None) is None, "aiokafka has fewer fields"
    return made


def _fill(
    schema: Schema, fields: Iterator[WireField], struct: Declaration, version: int
) -> tuple[Any, ...]:
    """Return the values of a schema in order; a nested schema has no bytes of its own."""
    values: list[Any] = []
    for kind in schema.fields:
        if kind is TaggedFields:
            values.append({})
        elif isinstance(kind, Schema):
            values.append(_fill(kind, fields, struct, version))
        else:
            field = next(fields)
            values.append(_value_to(field.type, kind, getattr(struct, field.name), version))
    return tuple(values)


def _value_to(kind: FieldType, schema: Any, value: Any, version: int) -> Any:
    if kind.element is None or kind.element.struct is None or value is None:
        return value
    if isinstance(schema.array_of, Schema):
        return [_to(schema.array_of, item, version) for item in value]
    # A structure of one field is only that field in its schemas.
    (only,) = _in_line(kind.element.struct, version)
    return [_value_to(only.type, schema.array_of, getattr(v, only.name), version) for v in value]


def _from(cls: type[S], schema: Schema, theirs: Any, version: int) -> S:
    values = {field.name: field.default for field in fields_of(cls)}
    flat = _flat(schema, theirs)
    for field, (kind, value) in zip(_in_line(cls, version), flat, strict=True):
        values[field.name] = _value_from(field.type, kind, value, version)
    return cls(**values)


def _flat(schema: Schema, values: Any) -> Iterator[tuple[Any, Any]]:
    for kind, value in zip(schema.fields, values, strict=True):
        if isinstance(kind, Schema):
            yield from _flat(kind, value)
        elif kind is not TaggedFields:
            yield kind, value


def _value_from(kind: FieldType, schema: Any, value: Any, version: int) -> Any:
    if kind.element is None or kind.element.struct is None or value is None:
        return value
    struct = kind.element.struct
    if isinstance(schema.array_of, Schema):
        return [_from(struct, schema.array_of, item, version) for item in value]
    (only,) = _in_line(struct, version)
    bare = [_value_from(only.type, schema.array_of, item, version) for item in value]
    absent = {field.name: field.default for field in fields_of(struct) if field is not only}
    return [struct(**absent, **{only.name: item}) for item in bare]
