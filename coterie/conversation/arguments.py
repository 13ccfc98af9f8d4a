"""What the tables of requests consist of: arguments, and kinds of values as text."""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from coterie.conversation.names import Names
from coterie.conversation.syntax import (
    duration_text,
    format_list,
    parse_duration_ms,
    parse_list,
    quote,
    unquote,
)
from coterie.protocol.schema import FieldType


class Place(NamedTuple):
    """What the text of an argument depends on.

    Attributes:
        type: the declared type of the field.
        version: of the message.
        names: the names on both sides.
        named: the other arguments of the line, when it is read.
    """

    type: FieldType
    version: int
    names: Names
    named: dict[str, str]


class Kind(NamedTuple):
    """How values of a kind are read and written."""

    read: Callable[[str, Place], Any]
    write: Callable[[Any, Place], str]


class Shown(Enum):
    """When an argument is written.

    IF_SET: if its value is not the default.
    IF_CARRIED: if the version carries it.
    IN_ITS_FORM: the same; and it is read only there, because other versions have another form.
    ALWAYS: in every version.
    """

    IF_SET = 1
    IF_CARRIED = 2
    IN_ITS_FORM = 3
    ALWAYS = 4


class Argument(NamedTuple):
    """An argument of a request line.

    Attributes:
        name: before the `=`.
        field: of the message.
        kind: of its text.
        default: the text that stands for an argument which is left out.
        shown: when it is written.
    """

    name: str
    field: str
    kind: Kind
    default: str
    shown: Shown = Shown.ALWAYS


# --- kinds ----------------------------------------------------------------------------------------


def text_kind(read: Callable[[str, Names], Any], write: Callable[[Any, Names], str]) -> Kind:
    """Return the kind of a value that is one text, perhaps in quotes."""
    return Kind(
        lambda text, place: read(unquote(text), place.names),
        lambda value, place: quote(write(value, place.names)),
    )


def list_kind(kind: Kind) -> Kind:
    """Return the kind of a list."""
    return Kind(
        lambda text, place: [kind.read(each, place) for each in parse_list(text)],
        lambda value, place: format_list([kind.write(each, place) for each in value]),
    )


def nullable_kind(write: Callable[[str], str]) -> Kind:
    """Return the kind of a text that may be null."""
    return optional_kind(Kind(lambda text, _: unquote(text), lambda value, _: write(value)))


def optional_kind(kind: Kind) -> Kind:
    """Return the kind of a value that may be null."""
    return Kind(
        lambda text, place: None if text == "null" else kind.read(text, place),
        lambda value, place: "null" if value is None else kind.write(value, place),
    )


def quoted(text: str) -> str:
    """Return a text in quotes; quotes and ends of lines within it cannot be written."""
    plain = " ".join(text.replace('"', "'").split())
    return f'"{plain}"'


TEXT = text_kind(lambda text, _: text, lambda value, _: str(value))
GROUP = text_kind(
    lambda text, names: names.group(text), lambda value, names: names.group_text(value)
)
MEMBER = text_kind(
    lambda text, names: names.member(text), lambda value, names: names.member_text(value)
)
OWN = text_kind(lambda text, names: names.own(text), lambda value, names: names.own_text(value))
INTEGER = Kind(lambda text, _: int(unquote(text)), lambda value, _: str(value))
FLAG = Kind(lambda text, _: unquote(text) == "true", lambda value, _: str(value).lower())
DURATION = Kind(
    lambda text, _: parse_duration_ms(unquote(text)), lambda value, _: duration_text(value)
)
NULLABLE, REASON = nullable_kind(quote), nullable_kind(quoted)
