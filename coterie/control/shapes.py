"""Values of `coterie.testing` as JSON: a codec and a JSON Schema for each annotation.

Both ends of the control port use these, and its OpenAPI document has the schemas, so a type of the
API is written as JSON in one way. The rules:

* A named tuple is an object with its fields; an action of a fault also has its `kind`.
* A partition is a string, such as "orders-0", also as a key of an object.
* Bytes are text where they are UTF-8, and else an object {"base64": "..."}.
"""

import base64
import binascii
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from coterie.control.docstrings import names_in, summary_of
from coterie.server.network.json_values import JSON_TYPES, BadValue, of_type, shortened
from coterie.testing.members import Partition

Schema = dict[str, Any]

_KIND = "kind"
_BASE64 = "base64"
# A number of 32 bits has at most ten digits.
_PARTITION_NUMBER = re.compile("[0-9]{1,10}")


class Shape(NamedTuple):
    """How values of a type are written as JSON.

    Attributes:
        schema: the JSON Schema of what `encode` returns and `decode` takes.
        encode: returns a value as JSON.
        decode: returns a value from JSON and the place of that, for errors.
    """

    schema: Schema
    encode: Callable[[Any], Any]
    decode: Callable[[Any, str], Any]

    @property
    def alternatives(self) -> list[Schema]:
        """The schemas of which a value has one."""
        found: list[Schema] = self.schema.get("anyOf", [self.schema])
        return found


class Shapes:
    """The shapes of types, each made once.

    Attributes:
        components: the schemas of named types, to which other schemas refer.
    """

    def __init__(self, special: Mapping[Any, Shape]) -> None:
        """Start with the shapes of the types that the rules of this module do not cover."""
        self.components: dict[str, Schema] = {}
        self._known: dict[Any, Shape] = {**_SIMPLE, **special}

    def of(self, annotation: Any) -> Shape:
        """Return the shape of a type, as an annotation names it."""
        found = self._known.get(annotation)
        if found is None:
            found = self._known[annotation] = self._make(annotation)
        return found

    def add(self, annotation: Any, shape: Shape) -> None:
        """Give a type a shape of its own."""
        self._known[annotation] = shape

    def component(self, name: str, shape: Shape) -> Shape:
        """Name the schema of a shape; return the shape with a reference to that."""
        self.components[name] = shape.schema
        return shape._replace(schema={"$ref": f"#/components/schemas/{name}"})

    def _make(self, annotation: Any) -> Shape:
        origin, parts = get_origin(annotation), get_args(annotation)
        if origin in (Union, types.UnionType):
            return self._union(parts)
        if origin in (dict, Mapping):
            return self._map(self.of(parts[0]), self.of(parts[1]))
        if origin is tuple and parts[-1] is not Ellipsis:
            return _row([self.of(part) for part in parts])
        if origin in (list, tuple, Sequence, Iterable):
            return _list(self.of(parts[0]), tuple if origin is tuple else list)
        if isinstance(annotation, type) and issubclass(annotation, Enum):
            return _enum(annotation)
        if not hasattr(annotation, "_fields"):
            raise TypeError(f"{annotation!r} has no form as JSON; give it one in SPECIAL")
        return self._object(annotation)

    # --- objects ----------------------------------------------------------------------------------

    def _object(self, cls: type[Any]) -> Shape:
        """Return the shape of a named tuple."""
        hints, defaults = get_type_hints(cls), cls._field_defaults
        fields = {name: self.of(hints[name]) for name in cls._fields}
        texts = names_in(cls)
        properties = {
            name: {**shape.schema, **({"description": texts[name]} if name in texts else {})}
            for name, shape in fields.items()
        }
        required = [name for name in fields if name not in defaults]
        schema = object_schema(summary_of(cls)[0], properties, required)

        def encode(value: Any) -> Any:
            return {name: shape.encode(getattr(value, name)) for name, shape in fields.items()}

        def decode(data: Any, place: str) -> Any:
            return cls(**decode_fields(data, place, fields, required))

        return self.component(cls.__name__, Shape(schema, encode, decode))

    def _tagged(self, classes: Sequence[type[Any]]) -> Shape:
        """Return the shape of a choice of named tuples: objects with the name of their class."""
        shapes = {cls.__name__: self.of(cls) for cls in classes}
        for name in shapes:
            schema = self.components[name]
            schema["properties"] = {_KIND: {"const": name}, **schema["properties"]}
            schema["required"] = [_KIND, *schema["required"]]

        def encode(value: Any) -> Any:
            name = type(value).__name__
            return {_KIND: name, **shapes[name].encode(value)}

        def decode(data: Any, place: str) -> Any:
            fields = dict(of_type(data, dict, "an object", place))
            kind = fields.pop(_KIND, None)
            if kind not in shapes:
                raise BadValue(_below(place, _KIND), f"one of {', '.join(shapes)}, not {kind!r}")
            return shapes[kind].decode(fields, place)

        return Shape({"oneOf": [shape.schema for shape in shapes.values()]}, encode, decode)

    def _map(self, keys: Shape, values: Shape) -> Shape:
        def encode(value: Any) -> Any:
            return {keys.encode(key): values.encode(each) for key, each in value.items()}

        def decode(data: Any, place: str) -> Any:
            return {
                keys.decode(key, place): values.decode(each, _below(place, key))
                for key, each in of_type(data, dict, "an object", place).items()
            }

        schema: Schema = {"type": "object", "additionalProperties": values.schema}
        if keys.schema.get("pattern"):
            schema["propertyNames"] = {"pattern": keys.schema["pattern"]}
        return Shape(schema, encode, decode)

    # --- choices ----------------------------------------------------------------------------------

    def _union(self, parts: Sequence[Any]) -> Shape:
        if {bytes, str} <= set(parts):
            return _SIMPLE[Any]
        some = [part for part in parts if part is not type(None)]
        if len(some) > 1 and all(hasattr(part, "_fields") for part in some):
            return self._tagged(some)
        shapes = [(part, self.of(part)) for part in parts]

        def encode(value: Any) -> Any:
            for part, shape in shapes:
                kind = (int, float) if part is float else get_origin(part) or part
                if isinstance(value, kind):
                    return shape.encode(value)
            raise TypeError(f"{value!r} is none of {parts}")

        def decode(data: Any, place: str) -> Any:
            reasons = []
            for part, shape in shapes:
                if (data is None) is not (part is type(None)):
                    continue
                try:
                    return shape.decode(data, place)
                except BadValue as error:
                    reasons.append(error)
            if reasons:
                raise reasons[0]
            raise BadValue(place, "not null")

        return Shape({"anyOf": [shape.schema for _, shape in shapes]}, encode, decode)


def object_schema(text: str, properties: Mapping[str, Schema], required: Sequence[str]) -> Schema:
    """Return the schema of an object with these fields and no others."""
    return {
        "type": "object",
        **({"description": text} if text else {}),
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def decode_fields(
    data: Any, place: str, fields: Mapping[str, Shape], required: Iterable[str]
) -> dict[str, Any]:
    """Return the fields of an object.

    Raises:
        BadValue: a field is unknown, missing or wrong; the text names it.
    """
    given = of_type(data, dict, "an object", place)
    for name in given:
        if name not in fields:
            known = f"known: {', '.join(fields)}" if fields else "none is known"
            raise BadValue(_below(place, name), f"unknown field; {known}")
    for name in required:
        if name not in given:
            raise BadValue(_below(place, name), "missing")
    return {name: fields[name].decode(each, _below(place, name)) for name, each in given.items()}


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _list(element: Shape, make: Callable[[Iterable[Any]], Any]) -> Shape:
    def decode(data: Any, place: str) -> Any:
        items = of_type(data, list, "a list", place)
        return make(element.decode(each, f"{place}[{index}]") for index, each in enumerate(items))

    schema = {"type": "array", "items": element.schema}
    return Shape(schema, lambda value: [element.encode(each) for each in value], decode)


def _row(parts: Sequence[Shape]) -> Shape:
    """Return the shape of a tuple with so many parts."""

    def decode(data: Any, place: str) -> Any:
        if len(of_type(data, list, "a list", place)) != len(parts):
            raise BadValue(place, f"{len(parts)} parts are wanted, not {len(data)}")
        return tuple(
            part.decode(each, f"{place}[{index}]")
            for index, (part, each) in enumerate(zip(parts, data, strict=True))
        )

    schema = {
        "type": "array",
        "prefixItems": [part.schema for part in parts],
        "minItems": len(parts),
        "maxItems": len(parts),
    }

    def encode(value: Any) -> Any:
        return [part.encode(each) for part, each in zip(parts, value, strict=True)]

    return Shape(schema, encode, decode)


def _enum(cls: type[Enum]) -> Shape:
    values = [each.value for each in cls]

    def decode(data: Any, place: str) -> Any:
        if data not in values:
            raise BadValue(place, f"one of {values}, not {shortened(data)}")
        return cls(data)

    return Shape({"enum": values}, lambda value: value.value, decode)


def simple(name: str, wanted: type | tuple[type, ...], text: str) -> Shape:
    """Return the shape of a type that JSON has, too."""
    return Shape(
        {"type": name}, lambda value: value, lambda data, place: of_type(data, wanted, text, place)
    )


def _encode_bytes(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {_BASE64: base64.b64encode(value).decode()}


def _decode_value(data: Any, place: str) -> Any:
    """Return text, bytes or None."""
    if data is None or isinstance(data, str):
        return data
    if not isinstance(data, dict) or list(data) != [_BASE64]:
        raise BadValue(place, f'text, null or {{"base64": "..."}} is wanted, not {shortened(data)}')
    try:
        return base64.b64decode(data[_BASE64], validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise BadValue(f"{place}.{_BASE64}", f"no base64: {error}") from None


def _decode_bytes(data: Any, place: str) -> bytes:
    value = _decode_value(data, place)
    return value.encode() if isinstance(value, str) else of_type(value, bytes, "text", place)


def _decode_partition(data: Any, place: str) -> Partition:
    topic, _, index = str(data).rpartition("-")
    if not isinstance(data, str) or not topic or not _PARTITION_NUMBER.fullmatch(index):
        raise BadValue(place, f'a partition such as "orders-0" is wanted, not {shortened(data)}')
    return topic, int(index)


_BYTES: Schema = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {_BASE64: {"type": "string", "contentEncoding": "base64"}},
            "required": [_BASE64],
            "additionalProperties": False,
        },
    ]
}
_SIMPLE: dict[Any, Shape] = {
    str: simple("string", *JSON_TYPES["string"]),
    int: simple("integer", *JSON_TYPES["integer"]),
    float: simple("number", *JSON_TYPES["number"]),
    bool: simple("boolean", *JSON_TYPES["boolean"]),
    type(None): simple("null", type(None), "null"),
    bytes: Shape(_BYTES, _encode_bytes, _decode_bytes),
    # Keys and values of records: bytes, text or None.
    Any: Shape(
        {"anyOf": [*_BYTES["anyOf"], {"type": "null"}]},
        _encode_bytes,
        _decode_value,
    ),
    Partition: Shape(
        {"type": "string", "pattern": "^.+-[0-9]+$"},
        lambda value: f"{value[0]}-{value[1]}",
        _decode_partition,
    ),
}
