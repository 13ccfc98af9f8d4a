"""A place in JSON, as people write it: `customer.id`, `items[0].sku`, `$.items[*]['unit price']`.

It is the part of RFC 9535 that names members, elements by their number, and all of either; the
beginning `$` may be left out. A wildcard visits each value once, so a search costs no more than the
document is long.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

# Deeper documents exist; nobody writes a longer path.
_MOST_STEPS = 32
_STEP = re.compile(
    r"""\.?(?P<name>[^\s.\[\]'"*$]+) | \.?(?P<every>\*) | \[(?P<index>\d{1,9})\] | \[(?P<all>\*)\]
    | \['(?P<single>[^']*)'\] | \["(?P<double>[^"]*)"\]""",
    re.VERBOSE,
)
# Names that JSON can write in one way only, but for \u.
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


class BadPath(ValueError):  # noqa: N818 - the name says what is wrong
    """A text is no path."""


class Wildcard:
    """All members of an object, or all elements of a list."""


Step = str | int | Wildcard


class JsonPath(NamedTuple):
    """A path, as its steps."""

    steps: tuple[Step, ...]

    @classmethod
    def of(cls, text: str) -> "JsonPath":
        """Return the path in a text.

        Raises:
            BadPath: it is none.
        """
        rest = text.strip().removeprefix("$")
        steps: list[Step] = []
        position = 0
        while position < len(rest):
            found = _STEP.match(rest, position)
            if found is None:
                raise BadPath(f"no path: {rest[position:][:40]!r} cannot be read")
            position = found.end()
            if found["index"] is not None:
                steps.append(int(found["index"]))
            elif found["every"] or found["all"]:
                steps.append(Wildcard())
            else:
                names = (found["name"], found["single"], found["double"])
                steps.append(next(each for each in names if each is not None))
        if not steps or len(steps) > _MOST_STEPS:
            raise BadPath(f"no path: it has {len(steps)} steps, and 1 to {_MOST_STEPS} are wanted")
        return cls(tuple(steps))

    @property
    def plain_names(self) -> list[bytes]:
        """The names in it that stand in the bytes of a document as they are, but for \\u."""
        return [
            each.encode() for each in self.steps if isinstance(each, str) and _PLAIN.fullmatch(each)
        ]

    def values(self, document: Any) -> Iterator[Any]:
        """Yield what is at this place of a document."""
        return _values(document, self.steps)


def _values(value: Any, steps: tuple[Step, ...]) -> Iterator[Any]:
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if isinstance(step, Wildcard):
        below = value.values() if isinstance(value, dict) else value
        if isinstance(value, dict | list):
            for each in below:
                yield from _values(each, rest)
    elif isinstance(step, int):
        if isinstance(value, list) and step < len(value):
            yield from _values(value[step], rest)
    elif isinstance(value, dict) and step in value:
        yield from _values(value[step], rest)


class Wanted:
    """A value that a place has to have: a text, or the number or word that the text is in JSON."""

    def __init__(self, text: str) -> None:
        """Take the text, such as `Köln`, `42`, `true` or `null`."""
        self._text = text
        try:
            read = json.loads(text)
        except (ValueError, RecursionError):
            read = text
        # Lists and objects are compared as texts only, which never match.
        self._read = text if isinstance(read, dict | list) else read

    def is_equal(self, value: Any) -> bool:
        """Return whether a value is the wanted one."""
        if isinstance(value, str):
            return value in (self._text, self._read)
        # True is no number in JSON.
        if isinstance(value, bool) or isinstance(self._read, bool):
            return value is self._read
        return type(value) in (int, float, type(None)) and bool(value == self._read)
