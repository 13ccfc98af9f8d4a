"""The fields that describe changes, with their schemas."""

from collections.abc import Mapping
from typing import Any

from coterie.console.routes import Parameter

INT32 = (1 << 31) - 1
INT64 = (1 << 63) - 1

_NAME: Mapping[str, Any] = {"type": "string", "minLength": 1}
_NAMES: Mapping[str, Any] = {"type": "array", "items": _NAME, "minItems": 1}


def name(field: str, about: str, *, is_required: bool = True) -> Parameter:
    """Return a field that is a name."""
    return Parameter(field, about, _NAME, is_required)


def names(field: str, about: str, *, is_required: bool = True) -> Parameter:
    """Return a field that is a list of names; one that is required is not empty."""
    schema = _NAMES if is_required else {**_NAMES, "minItems": 0}
    return Parameter(field, about, schema, is_required)


def number(
    field: str, about: str, least: int = 0, most: int = INT64, *, is_required: bool = False
) -> Parameter:
    """Return a field that is a whole number."""
    schema = {"type": "integer", "minimum": least, "maximum": most}
    return Parameter(field, about, schema, is_required)


def choice(field: str, about: str, *values: str, is_required: bool = False) -> Parameter:
    """Return a field that is one of some words."""
    return Parameter(field, about, {"type": "string", "enum": list(values)}, is_required)


def text(field: str, about: str) -> Parameter:
    """Return a field that is any text."""
    return Parameter(field, about)


def texts_by_name(field: str, about: str) -> Parameter:
    """Return a field that is an object of texts."""
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    return Parameter(field, about, schema)
