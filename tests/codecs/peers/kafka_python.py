"""kafka-python 3's codec: classes generated from Kafka's own JSON schemas."""

import importlib
import pkgutil
import uuid
from collections.abc import Iterator
from typing import Any, TypeVar

import kafka.protocol
from kafka.protocol.api_data import ApiData
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.schemas.fields.codecs.types import BitField

from coterie.protocol.authorized_operations import AUTHORIZED_OPERATIONS_OMITTED
from coterie.protocol.fields import Declaration
from coterie.protocol.messages.api_versions import ApiVersionsResponse
from coterie.protocol.schema import FieldType, WireField, fields_of
from coterie.protocol.wire import ZERO_UUID, Message
from tests.codecs.peers import SHORTER_NAMES

M = TypeVar("M", bound=Message)
S = TypeVar("S", bound=Declaration)


def _classes() -> dict[str, Any]:
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "generate_stubs" not in module.name:
            importlib.import_module(module.name)
    return {cls.__name__: cls for base in (ApiMessage, ApiData) for cls in base.__subclasses__()}


# kafka-python names both "authorized_operations" and represents them as a set of bits.
_RENAMED = SHORTER_NAMES | {
    "cluster_authorized_operations": "authorized_operations",
    "topic_authorized_operations": "authorized_operations",
}


def _bit_field() -> Any:
    """Return its codec of bit sets, whose annotations are incomplete."""
    return BitField


class KafkaPython:
    """Field names are Kafka's, as ours are, so they are compared as well."""

    name = "kafka-python"

    def __init__(self) -> None:
        self._classes = _classes()

    def supports(self, cls: type[Message], version: int) -> bool:
        theirs = self._classes.get(cls.__name__)
        return theirs is not None and theirs.valid_versions[0] <= version <= theirs.max_version

    def adapt(self, message: M, version: int) -> M:
        if isinstance(message, ApiVersionsResponse):
            # It decodes every response with an error as v0, the version of UNSUPPORTED_VERSION.
            message.error_code = 0
        return message

    def encode(self, message: Message, version: int) -> bytes:
        cls = self._classes[type(message).__name__]
        made = _to(cls, cls._struct, message, version)
        extra = {"header": False} if issubclass(cls, ApiData) else {}
        encoded: bytes = made.encode(version=version, **extra)
        return encoded

    def decode(self, cls: type[M], data: bytes, version: int) -> M:
        theirs = self._classes[cls.__name__]
        extra = {"header": False} if issubclass(theirs, ApiData) else {}
        return _from(cls, theirs._struct, theirs.decode(data, version=version, **extra), version)

    def fields(self, cls: type[Message], version: int) -> Iterator[tuple[str, WireField, Any]]:
        """Every field of a version, nested ones too: (path, our field, theirs)."""
        return _fields(cls, self._classes[cls.__name__]._struct, version, cls.__name__)


def _fields(
    ours: type[Declaration], schema: Any, version: int, path: str
) -> Iterator[tuple[str, WireField, Any]]:
    for field, theirs in _matched(ours, schema, version):
        yield f"{path}.{field.name}", field, theirs
        element = field.type.element
        if element is not None and element.struct is not None:
            yield from _fields(element.struct, theirs.array_of, version, f"{path}.{field.name}")
        elif field.type.struct is not None:
            yield from _fields(field.type.struct, theirs, version, f"{path}.{field.name}")


def _matched(ours: type[Declaration], schema: Any, version: int) -> Iterator[tuple[WireField, Any]]:
    """Our fields of a version beside theirs; they must be the same ones in the same order."""
    present = [field for field in fields_of(ours) if field.present(version)]
    theirs = [field for field in schema._fields if field.for_version_q(version)]
    names = [_RENAMED.get(field.name, field.name) for field in present]
    assert names == [_RENAMED.get(field.name, field.name) for field in theirs]
    return zip(present, theirs, strict=True)


def _to(cls: Any, schema: Any, struct: Declaration, version: int) -> Any:
    values = {
        theirs.name: _value_to(field.type, theirs, getattr(struct, field.name), version)
        for field, theirs in _matched(type(struct), schema, version)
    }
    return cls(version=version, **values)


def _value_to(kind: FieldType, schema: Any, value: Any, version: int) -> Any:
    if value is None:
        return None
    if kind.element is not None and kind.element.struct is not None:
        return [_to(schema.data_class, schema.array_of, item, version) for item in value]
    if kind.struct is not None:
        return _to(schema.data_class, schema, value, version)
    if kind.wire is not None and kind.wire.kind == "uuid":
        return None if value == ZERO_UUID else uuid.UUID(bytes=value)
    if getattr(schema, "_type", None) is BitField:
        omitted = value == AUTHORIZED_OPERATIONS_OMITTED
        return None if omitted else _bit_field().from_32_bit_field(value & 0xFFFFFFFF)
    return value


def _from(cls: type[S], schema: Any, theirs: Any, version: int) -> S:
    values = {
        field.name: _value_from(field.type, their_field, getattr(theirs, their_field.name), version)
        for field, their_field in _matched(cls, schema, version)
    }
    return cls(**{f.name: f.default for f in fields_of(cls) if f.name not in values}, **values)


def _value_from(kind: FieldType, schema: Any, value: Any, version: int) -> Any:
    if kind.wire is not None and kind.wire.kind == "uuid":
        return ZERO_UUID if value is None else value.bytes
    if getattr(schema, "_type", None) is BitField:
        if value is None:
            return AUTHORIZED_OPERATIONS_OMITTED
        bits = _bit_field().to_32_bit_field(value)
        return bits - 2**32 if bits >= 2**31 else bits
    if value is None:
        return None
    if kind.element is not None and kind.element.struct is not None:
        return [_from(kind.element.struct, schema.array_of, item, version) for item in value]
    if kind.struct is not None:
        return _from(kind.struct, schema, value, version)
    return value
