"""The comparison of a response with what a transcript expects of it, field by field.

An expectation names the fields that its check is about; other fields may have any value. The
elements of a list may come in any order, and none may be missing or additional. In place of a
value it may state

    *         anything                     >=1, <5, !=0    a number of that kind
    ok|NONE   one of several               ~text           a text that contains this one
    $id       the value of an earlier response, or a name for this value
    ...       in a list: further elements of any kind
"""

import operator
import re
from typing import NamedTuple

from coterie.conversation.structures import Tree, tree_text
from coterie.conversation.syntax import parse_arguments, parse_list, parse_map, unquote

_MORE = "..."
_COMPARISON = re.compile(r"(>=|<=|!=|>|<)(\S+)")
_OPERATORS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_ABSENT = "(absent)"

Variables = dict[str, str]
"""The values that responses have given to names."""


class FieldDifference(NamedTuple):
    """One field that is not as expected: where it is, and both values."""

    path: str
    expected: str
    received: str


def parse_fields(text: str) -> dict[str, Tree]:
    """Return the expected fields of a response line."""
    return {name: _parsed(value) for name, value in parse_arguments(text).named.items()}


def _parsed(text: str) -> Tree:
    if text.startswith("{") and text.endswith("}"):
        return {name: _parsed(value) for name, value in parse_map(text).items()}
    if text.startswith("[") and text.endswith("]"):
        return [_parsed(item) for item in parse_list(text)]
    return unquote(text)


def compare(
    expected: Tree, received: Tree, variables: Variables, path: str = ""
) -> list[FieldDifference]:
    """Return the fields that differ; name the values that `$name` stands for.

    Args:
        expected: from `parse_fields`.
        received: from `structures.tree_of`.
        variables: the names so far; new ones are added.
        path: where both values are in the response.
    """
    if isinstance(expected, dict) and isinstance(received, dict):
        differences = []
        for name, value in expected.items():
            where = f"{path}.{name}" if path else name
            differences += compare(value, received.get(name, _ABSENT), variables, where)
        return differences
    if isinstance(expected, list) and isinstance(received, list):
        return _compare_lists(expected, received, variables, path)
    if isinstance(expected, str) and _fits(expected, received, variables):
        return []
    return [FieldDifference(path, tree_text(expected), tree_text(received))]


def _compare_lists(
    expected: list[Tree], received: list[Tree], variables: Variables, path: str
) -> list[FieldDifference]:
    left = list(received)
    unmatched: list[Tree] = []
    is_open = _MORE in expected
    for item in expected:
        if item == _MORE:
            continue
        for candidate in left:
            names = dict(variables)
            if not compare(item, candidate, names, path):
                variables.update(names)
                left.remove(candidate)
                break
        else:
            unmatched.append(item)
    if len(unmatched) == 1 and len(left) == 1:
        return compare(unmatched[0], left[0], variables, f"{path}[]")
    differences = [FieldDifference(f"{path}[]", tree_text(item), _ABSENT) for item in unmatched]
    if not is_open:
        differences += [FieldDifference(f"{path}[]", _ABSENT, tree_text(item)) for item in left]
    return differences


def _fits(expected: str, received: Tree, variables: Variables) -> bool:
    if expected == "*":
        return bool(received != _ABSENT)
    if not isinstance(received, str):
        return False
    if expected.startswith("$"):
        return variables.setdefault(expected, received) == received
    if expected.startswith("~"):
        return expected[1:].lower() in received.lower()
    match = _COMPARISON.fullmatch(expected)
    if match is not None:
        if match[1] == "!=":
            return received != match[2]
        return received.lstrip("-").isdigit() and bool(
            _OPERATORS[match[1]](int(received), int(match[2]))
        )
    return received in expected.split("|") if "|" in expected else received == expected


def substitute(text: str, variables: Variables) -> str:
    """Return a command with the values of its variables; `$id+1` is the next number."""

    def value(match: re.Match[str]) -> str:
        known = variables.get(f"${match[1]}")
        if known is None:
            return match[0]
        return str(int(known) + int(match[2])) if match[2] else known

    return re.sub(r"\$([a-z_]+)([+-]\d+)?", value, text)
