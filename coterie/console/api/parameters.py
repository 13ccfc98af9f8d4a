"""Parameters of queries as values: their schemas, and what is answered to those that are wrong."""

from collections.abc import Mapping, Sequence

from coterie.console.routes import Parameter
from coterie.server.network.http_errors import Refused

# Numbers of the protocol are int64, and so are offsets.
_HIGHEST = (1 << 63) - 1


def whole_number(
    name: str, about: str, most: int = _HIGHEST, default: int | None = None
) -> Parameter:
    """Declare a whole number from 0 on."""
    schema: dict[str, object] = {"type": "integer", "minimum": 0, "maximum": most}
    if default is not None:
        schema["default"] = default
    return Parameter(name, about, schema)


def choice(name: str, about: str, choices: Sequence[str]) -> Parameter:
    """Declare a word of some; the first one is the default."""
    return Parameter(name, about, {"type": "string", "enum": list(choices), "default": choices[0]})


def flag(name: str, about: str) -> Parameter:
    """Declare what is true or false; false is the default."""
    return Parameter(name, about, {"type": "boolean", "default": False})


def number_of(query: Mapping[str, str], parameter: Parameter) -> int | None:
    """Return a whole number; its default, or None, if it is not given.

    Raises:
        Refused: it is none, or too large.
    """
    text = query.get(parameter.name)
    if text is None:
        return parameter.schema.get("default")
    return number_in(parameter.name, text, parameter.schema["maximum"])


def number_in(name: str, text: str, most: int = _HIGHEST) -> int:
    """Return the whole number in a text.

    Raises:
        Refused: it is none, or too large.
    """
    # int() reads signs, spaces, underscores, and digits of other scripts, too.
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_HIGHEST)):
        raise Refused("BadRequest", f"{name}: {text!r} is no whole number")
    if int(text) > most:
        raise Refused("BadRequest", f"{name}: {text} is more than {most}")
    return int(text)


def choice_of(query: Mapping[str, str], parameter: Parameter) -> str:
    """Return a word of some.

    Raises:
        Refused: it is another one.
    """
    choices: list[str] = parameter.schema["enum"]
    found = query.get(parameter.name, choices[0])
    if found not in choices:
        raise Refused("BadRequest", f"{parameter.name}: {found!r} is none of {', '.join(choices)}")
    return found


def flag_of(query: Mapping[str, str], parameter: Parameter) -> bool:
    """Return what is true or false.

    Raises:
        Refused: it is neither.
    """
    found = query.get(parameter.name, "false")
    if found not in ("true", "false"):
        raise Refused("BadRequest", f"{parameter.name}: {found!r} is neither true nor false")
    return found == "true"
