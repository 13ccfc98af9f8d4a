"""Values of a request's JSON, checked by the schemas of the rows.

Only what those schemas use is known here: types, enumerations, bounds, lists, and maps of one type
or of any.
"""

from collections.abc import Mapping
from typing import Any

from coterie.server.network.http_errors import Refused

_TYPES: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "string": (str, "text"),
    "integer": (int, "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": (bool, "true or false"),
    "array": (list, "a list"),
    "object": (dict, "an object"),
}


def check_value(name: str, value: Any, schema: Mapping[str, Any]) -> None:
    """Check a value.

    Args:
        name: where it is, for the error.
        value: the value.
        schema: its JSON schema.

    Raises:
        Refused: it has another type, or is out of its bounds.
    """
    wanted, described = _TYPES[schema["type"]]
    # JSON's true is no number.
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise Refused("BadRequest", f"{name}: {described} is wanted")
    if "enum" in schema and value not in schema["enum"]:
        raise Refused("BadRequest", f"{name}: one of {', '.join(schema['enum'])} is wanted")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        least, most = schema.get("minimum", value), schema.get("maximum", value)
        if not least <= value <= most:
            raise Refused("BadRequest", f"{name}: {value} is not between {least} and {most}")
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        raise Refused("BadRequest", f"{name}: it is empty")
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            raise Refused("BadRequest", f"{name}: it is empty")
        for number, each in enumerate(value):
            check_value(f"{name}[{number}]", each, schema["items"])
    if isinstance(value, dict) and "additionalProperties" in schema:
        for key, each in value.items():
            check_value(f"{name}.{key}", each, schema["additionalProperties"])
