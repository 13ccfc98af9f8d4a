"""Values of the JSON that HTTP ports are sent: of which type they are, and what is wrong with them.

Control port and console check each value here, one by the types of the API and the other by the
schemas of its rows, and say the same about a wrong one.
"""

from collections.abc import Mapping
from typing import Any

# Of a value that is refused, an error shows so many characters.
_SHOWN = 40
# By the name of JSON Schema: the types of Python, and how sentences name them.
JSON_TYPES: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "string": (str, "text"),
    "integer": (int, "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": (bool, "true or false"),
    "array": (list, "a list"),
    "object": (dict, "an object"),
}


class BadValue(ValueError):  # noqa: N818 - the name says what is wrong
    """A JSON value that does not have the shape that is wanted; the text begins with its place."""

    def __init__(self, place: str, reason: str) -> None:
        """Name the place, such as `action.seconds`, and the reason."""
        super().__init__(f"{place}: {reason}" if place else reason)


def shortened(value: Any) -> str:
    """Return a value as text, which ends early if it is very long."""
    try:
        text = repr(value)
    except ValueError:
        # Python does not print whole numbers of more than 4,300 digits.
        return "a number of thousands of digits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def of_type(data: Any, wanted: type | tuple[type, ...], name: str, place: str) -> Any:
    """Return a value that has a type.

    Args:
        data: the value.
        wanted: the type.
        name: how a sentence names it.
        place: where the value is, for the error.

    Raises:
        BadValue: it has another type.
    """
    # JSON's true is no number.
    if not isinstance(data, wanted) or (isinstance(data, bool) and wanted is not bool):
        raise BadValue(place, f"{name} is wanted, not {shortened(data)}")
    return data
