"""Values of a request's JSON, checked by the schemas of the rows.

Only what those schemas use is known here: types, enumerations, bounds, lists, and maps of one type
or of any.
"""

from collections.abc import Mapping
from typing import Any

from coterie.server.network.http_errors import Refused
from coterie.server.network.json_values import JSON_TYPES, BadValue, of_type, shortened


def check_value(name: str, value: Any, schema: Mapping[str, Any]) -> None:
    """Check a value.

    Args:
        name: where it is, for the error.
        value: the value.
        schema: its JSON schema.

    Raises:
        Refused: it has another type, or is out of its bounds.
    """
    try:
        _check(name, value, schema)
    except BadValue as error:
        raise Refused("BadRequest", str(error)) from None


def _check(place: str, value: Any, schema: Mapping[str, Any]) -> None:
    kind = schema["type"]
    of_type(value, *JSON_TYPES[kind], place)
    if "enum" in schema and value not in schema["enum"]:
        raise BadValue(place, f"one of {', '.join(schema['enum'])} is wanted")
    if kind in ("integer", "number"):
        least, most = schema.get("minimum", value), schema.get("maximum", value)
        if not least <= value <= most:
            raise BadValue(place, f"{shortened(value)} is not between {least} and {most}")
    if kind == "string" and len(value) < schema.get("minLength", 0):
        raise BadValue(place, "it is empty")
    if kind == "array":
        if len(value) < schema.get("minItems", 0):
            raise BadValue(place, "it is empty")
        for number, each in enumerate(value):
            _check(f"{place}[{number}]", each, schema["items"])
    if kind == "object" and "additionalProperties" in schema:
        for key, each in value.items():
            _check(f"{place}.{key}", each, schema["additionalProperties"])
