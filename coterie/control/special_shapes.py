"""The shapes of types that have a form of their own as JSON: APIs, errors, recorded requests."""

import base64
import binascii
from typing import Any

from coterie.control.docstrings import names_in, summary_of
from coterie.control.shapes import (
    Shape,
    Shapes,
    decode_fields,
    object_schema,
    simple,
)
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import request_class
from coterie.protocol.errors import ErrorCode
from coterie.protocol.fields import Declaration, uuid_text
from coterie.protocol.schema import FieldType, fields_of
from coterie.server.network.json_values import BadValue
from coterie.testing.errors import WrongUse
from coterie.testing.requests import Request, api_named

_UUID_PADDING = "=="


def new_shapes() -> Shapes:
    """Return the shapes of the types of `coterie.testing`."""
    special = {ApiKey: _api(), ErrorCode: _error(), None: simple("null", type(None), "null")}
    shapes = Shapes(special)
    shapes.add(Request, _request(shapes))
    return shapes


def _api() -> Shape:
    """Return the shape of an API: Kafka's name of it."""

    def decode(data: Any, place: str) -> ApiKey:
        try:
            return api_named(str(data))
        except WrongUse as error:
            raise BadValue(place, str(error)) from None

    return Shape({"type": "string"}, lambda value: value.kafka_name, decode)


def _error() -> Shape:
    """Return the shape of an error: Kafka's name of it."""

    def decode(data: Any, place: str) -> ErrorCode:
        try:
            return ErrorCode[data]
        except (KeyError, TypeError):
            raise BadValue(place, f"{data!r} is no error of Kafka's protocol") from None

    return Shape({"enum": [each.name for each in ErrorCode]}, lambda value: value.name, decode)


def _request(shapes: Shapes) -> Shape:
    """Return the shape of a recorded request, whose fields depend on its API."""
    plain = [name for name in Request._fields if name != "message"]
    kinds = Request.__annotations__
    fields = {name: shapes.of(kinds[name]) for name in plain}
    texts = names_in(Request)
    properties = {name: {**fields[name].schema, "description": texts[name]} for name in plain}
    message = {"type": "object", "description": texts["message"]}
    all_fields = {**properties, "message": message}
    schema = object_schema(summary_of(Request)[0], all_fields, list(all_fields))
    messages = Messages(shapes)

    def encode(value: Request) -> Any:
        head = {name: fields[name].encode(getattr(value, name)) for name in plain}
        return {**head, "message": messages.encode(value.message)}

    def decode(data: Any, place: str) -> Request:
        rest = dict(data)
        body = rest.pop("message", {})
        head = decode_fields(rest, place, fields, plain)
        cls = request_class(api_named(head["api"]))
        return Request(**head, message=messages.decode(cls, body, f"{place}.message"))

    return shapes.component("Request", Shape(schema, encode, decode))


class Messages:
    """Declared messages as JSON: objects with Kafka's fields."""

    def __init__(self, shapes: Shapes) -> None:
        """Write bytes as these shapes do."""
        self._bytes = shapes.of(bytes)

    def encode(self, message: Declaration) -> Any:
        """Return a message or structure as JSON."""
        return {
            field.name: self._encode(getattr(message, field.name), field.type)
            for field in fields_of(type(message))
        }

    def _encode(self, value: Any, kind: FieldType) -> Any:
        if value is None:
            return None
        if kind.element is not None:
            return [self._encode(each, kind.element) for each in value]
        if kind.struct is not None:
            return self.encode(value)
        if not isinstance(value, bytes | bytearray | memoryview):
            return value
        data = bytes(value)
        is_uuid = kind.wire is not None and kind.wire.kind == "uuid"
        return uuid_text(data) if is_uuid else self._bytes.encode(data)

    def decode(self, cls: type[Any], data: Any, place: str) -> Any:
        """Return a message or structure from JSON."""
        fields = {field.name: field.type for field in fields_of(cls)}
        return cls(
            **{
                name: self._decode(value, fields[name], f"{place}.{name}")
                for name, value in data.items()
                if name in fields
            }
        )

    def _decode(self, data: Any, kind: FieldType, place: str) -> Any:
        if data is None:
            return None
        if kind.element is not None:
            return [self._decode(each, kind.element, place) for each in data]
        if kind.struct is not None:
            return self.decode(kind.struct, data, place)
        wire = "" if kind.wire is None else kind.wire.kind
        if wire == "uuid":
            return _uuid(data, place)
        return self._bytes.decode(data, place) if wire in ("bytes", "records") else data


def _uuid(data: str, place: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(data + _UUID_PADDING)
    except (binascii.Error, TypeError) as error:
        raise BadValue(place, f"no UUID: {error}") from None
