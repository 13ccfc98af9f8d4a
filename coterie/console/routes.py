"""The rows of the console's API: an address, what it answers, and the words of its document.

A row is data: the application finds it, decodes its parameters, and calls its function in a thread.
A row with `streams` has server-sent events for its answer: those of a source of the hub, which cost
no thread, or an iterator of events, which blocks one while it is read.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.console.event import Event

if TYPE_CHECKING:
    from coterie.console.places import Place

# A name in the path of a row: /api/groups/{group}.
_NAME = re.compile(r"\{([a-z_]+)\}")


class Request(NamedTuple):
    """A request for a row.

    Attributes:
        place: what the console looks at.
        path: the names in the path of the row, with their values.
        query: the parameters of the query.
        body: the JSON object of the body.
    """

    place: "Place"
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any]


class File(NamedTuple):
    """An answer that is a file, which a browser saves.

    Attributes:
        body: its bytes.
        content_type: what they are.
        name: its name; letters, digits, dots, dashes and underscores only.
    """

    body: bytes
    content_type: str
    name: str


class Parameter(NamedTuple):
    """A parameter of a query, or a field of a body.

    Attributes:
        name: its name.
        about: what it means, in a sentence.
        schema: its JSON schema.
        is_required: whether it must be given.
    """

    name: str
    about: str
    schema: Mapping[str, Any] = {"type": "string"}
    is_required: bool = False


class Route(NamedTuple):
    """A row.

    Attributes:
        method: GET, or POST for what changes something or previews a change.
        path: the address, with names in braces.
        about: what it answers, in a sentence.
        answer: returns the JSON of the answer; it runs in a thread and may block. With `streams`
            it returns at once, either a `Subscription` of the hub or an iterator of events, which
            runs in a thread and may block.
        parameters: those of the query, or the fields of the body of a POST.
        streams: whether it answers with events.
        changes: whether it changes something, so that it is refused without --allow-changes.
        is_file: whether it answers with a `File`.
    """

    method: str
    path: str
    about: str
    answer: Callable[[Request], Any]
    parameters: tuple[Parameter, ...] = ()
    streams: bool = False
    changes: bool = False
    is_file: bool = False


Events = Iterator[Event]


def names_of(route: Route) -> list[str]:
    """Return the names in a row's path."""
    return _NAME.findall(route.path)


def values_of(route: Route, segments: list[str]) -> dict[str, str] | None:
    """Return the values of the names in a row's path; None if it is another path."""
    wanted = route.path.strip("/").split("/")
    if len(wanted) != len(segments):
        return None
    found: dict[str, str] = {}
    for pattern, given in zip(wanted, segments, strict=True):
        name = _NAME.fullmatch(pattern)
        if name is not None and given:
            found[name[1]] = given
        elif pattern != given:
            return None
    return found
