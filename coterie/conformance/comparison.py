"""The comparison of what clients received with what a block of a transcript expects.

Every client must get the expected responses in their order; responses to different clients may
come in any order. Responses of the group APIs are compared as text, with lists and maps without
order; those of the other APIs field by field, see `patterns`. Lines that only the core has are
left out.
"""

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from coterie.conformance.core_broker import Output
from coterie.conformance.core_lines import is_core_line
from coterie.conformance.patterns import FieldDifference, Variables, compare, parse_fields
from coterie.conformance.transcript import Block
from coterie.conversation.names import Names
from coterie.conversation.responses import is_structure
from coterie.conversation.structures import tree_of
from coterie.conversation.syntax import TranscriptError, parse_arguments

DELAYED = "  (delayed)"
# A response of an API, `c1< API vN fields`.
_RESPONSE = re.compile(
    r"(?P<client>[a-z]\w*(?:\.\d+)?)< (?P<api>[A-Z]\w+) v(?P<version>\d+)(?: |$)"
)
_NOTHING = "(nothing)"
_LIST = re.compile(r"([\[{])([^\[\]{}]*)([\]}])")
# The internal topics that a streams group misses: Kafka names them in the order of a hash map.
_NAMED = re.compile(r"(topics are missing: )([^\";]*)([\";])")


class Deviation(NamedTuple):
    """One response that is not as expected.

    Attributes:
        expected: its lines; empty if none was expected.
        received: the lines that came; empty if none came.
        fields: the fields that differ.
    """

    expected: list[str]
    received: list[str]
    fields: list[FieldDifference]


class Response(NamedTuple):
    """One response: its lines, and the message if there is one."""

    lines: list[str]
    output: Output | None = None


def expected_responses(lines: Sequence[str]) -> dict[str, list[Response]]:
    """Return the responses that a block expects, by client."""
    view: dict[str, list[Response]] = {}
    for line in lines:
        if not is_core_line(line) and not line.endswith(DELAYED):
            _add(view, line, None)
    return view


def received_responses(outputs: Sequence[Output]) -> dict[str, list[Response]]:
    """Return the responses that came, by client."""
    view: dict[str, list[Response]] = {}
    for output in outputs:
        for line in output.lines:
            if not is_core_line(line) and not line.endswith(DELAYED):
                _add(view, line, output)
    return view


def _add(view: dict[str, list[Response]], line: str, output: Output | None) -> None:
    """Add a line: the first of a response, or one more of the latest response of its client."""
    client = line.partition("<")[0] if "< " in line else ""
    responses = view.setdefault(client, [])
    if client and line.startswith(f"{client}<   ") and responses:
        responses[-1].lines.append(line)
    else:
        responses.append(Response([line], output))


def deviations(
    block: Block, outputs: Sequence[Output], names: Names, variables: Variables
) -> list[Deviation]:
    """Return the responses that are not as a block expects.

    Args:
        block: with the expected lines.
        outputs: what came.
        names: the names of the run.
        variables: the values that earlier responses have named; new ones are added.
    """
    expected, received = expected_responses(block.expected), received_responses(outputs)
    found = []
    for client in dict.fromkeys([*expected, *received]):
        pairs = zip_longest(expected.get(client, []), received.get(client, []))
        for wanted, came in pairs:
            fields = _differing_fields(wanted, came, names, variables)
            if fields:
                found.append(
                    Deviation(wanted.lines if wanted else [], came.lines if came else [], fields)
                )
    return found


def _differing_fields(
    wanted: Response | None, came: Response | None, names: Names, variables: Variables
) -> list[FieldDifference]:
    if wanted is None or came is None:
        return [
            FieldDifference(
                "response",
                wanted.lines[0].strip() if wanted else _NOTHING,
                came.lines[0].strip() if came else _NOTHING,
            )
        ]
    head, text = _RESPONSE.match(wanted.lines[0]), came.lines[0]
    message = came.output.message if came.output else None
    if head is not None and message is not None and is_structure(message):
        if not text.startswith(head[0].strip()):
            return [FieldDifference("response", head[0].strip(), text.split(" ", 3)[1])]
        tree = tree_of(message, int(head["version"]), names)
        return compare(parse_fields(wanted.lines[0][head.end() :]), tree, variables)
    if _normal(wanted.lines) == _normal(came.lines):
        return []
    if head is not None and len(wanted.lines) == len(came.lines) == 1:
        return _text_fields(wanted.lines[0], text)
    return [
        FieldDifference(f"line {number}", one or _NOTHING, other or _NOTHING)
        for number, (one, other) in enumerate(
            zip_longest(_normal(wanted.lines), _normal(came.lines)), 1
        )
        if one != other
    ]


def _normal(lines: Sequence[str]) -> list[str]:
    """Return the lines of a response with sorted lists; further lines sorted."""
    texts = [_LIST.sub(_sorted_items, _NAMED.sub(_sorted_items, line)) for line in lines]
    return [texts[0], *sorted(texts[1:])]


def _sorted_items(match: re.Match[str]) -> str:
    return match[1] + ", ".join(sorted(match[2].split(", "))) + match[3]


def _text_fields(expected: str, received: str) -> list[FieldDifference]:
    """Return the differing fields of two lines of the group APIs."""
    sides = []
    for line in (_normal([expected])[0], _normal([received])[0]):
        try:
            arguments = parse_arguments(line.partition("< ")[2])
        except TranscriptError:
            return [FieldDifference("response", expected, received)]
        sides.append({"": " ".join(arguments.positional), **arguments.named})
    return [
        FieldDifference(name or "response", *(side.get(name, _NOTHING) for side in sides))
        for name in dict.fromkeys([*sides[0], *sides[1]])
        if sides[0].get(name) != sides[1].get(name)
    ]
