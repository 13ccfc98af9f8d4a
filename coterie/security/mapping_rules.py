r"""From the name of a certificate to the name of a user: ssl.principal.mapping.rules (KIP-371).

[security/mapping-rules] Rules are a list with commas. The first that applies counts:

    DEFAULT                         the name as it is
    RULE:pattern/replacement/       a pattern for the whole name, and what replaces its matches
    RULE:pattern/replacement/L      the same in lower case; U is for upper case

A `/` inside of pattern or replacement is written as `\/`. The replacement may have $1, $2 and so on
for the groups of the pattern.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

_RULE = re.compile(r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)", re.DOTALL)
_SEPARATOR = re.compile(r"\s*(?:,\s*|$)")
# In a replacement: an escaped character, or the number of a group.
_PART = re.compile(r"\\(.)|\$([0-9]+)|(\$)", re.DOTALL)


class InvalidRule(ValueError):  # noqa: N818 - a setting is invalid, not our code
    """A mapping rule cannot be used; the text says why."""


class MappingRule(NamedTuple):
    """One rule.

    Attributes:
        pattern: matches whole names; None for DEFAULT.
        replacement: texts, and numbers of groups.
        case: "L" or "U" changes the case of the result, "" does not.
    """

    pattern: re.Pattern[str] | None
    replacement: tuple[str | int, ...] = ()
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the name of the user; None if the rule does not apply."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        # Every match is replaced, as in Java, also the empty one behind a match of everything.
        found = self.pattern.sub(self._replaced, name)
        return {"L": found.lower(), "U": found.upper()}.get(self.case, found)

    def _replaced(self, match: re.Match[str]) -> str:
        return "".join(
            each if isinstance(each, str) else match[each] or "" for each in self.replacement
        )


def parse_rules(text: str) -> list[MappingRule]:
    """Read the rules of a setting.

    Raises:
        InvalidRule: one cannot be read, or its pattern is none of Python's.
    """
    rules, position, text = list[MappingRule](), 0, text.strip()
    while position < len(text):
        matched = _RULE.match(text, position)
        separator = None if matched is None else _SEPARATOR.match(text, matched.end())
        if matched is None or separator is None:
            raise InvalidRule(
                f"{text[position:]!r} is not DEFAULT or RULE:pattern/replacement/ with an L or a U"
            )
        rules.append(MappingRule(None) if matched[1] else _rule(matched[2], matched[3], matched[4]))
        position = separator.end()
    return rules


def _rule(pattern: str, replacement: str, case: str) -> MappingRule:
    try:
        # In Java \w is ASCII, too.
        compiled = re.compile(pattern, re.ASCII)
    except re.error as error:
        raise InvalidRule(f"the pattern {pattern!r} cannot be used: {error}") from None
    return MappingRule(compiled, tuple(_parts(replacement, compiled.groups)), case)


def _parts(replacement: str, groups: int) -> list[str | int]:
    """Return a replacement as texts and numbers of groups.

    As in Java a number has as many digits as there are groups for; one beyond them is text.
    """
    parts, position = list[str | int](), 0
    for each in _PART.finditer(replacement):
        parts.append(replacement[position : each.start()])
        position = each.end()
        escaped, digits, _ = each.groups()
        if escaped is not None:
            parts.append(escaped)
        elif digits is None:
            raise InvalidRule(f"in {replacement!r} a $ is not followed by the number of a group")
        elif not groups and int(digits):
            # Kafka starts, and refuses each certificate that the rule is for.
            raise InvalidRule(f"in {replacement!r} is ${digits}, but the pattern has no group")
        else:
            parts += _group(digits, groups)
    return [*parts, replacement[position:]]


def _group(digits: str, groups: int) -> list[str | int]:
    for size in range(len(digits), 0, -1):
        if int(digits[:size]) <= groups:
            return [int(digits[:size]), digits[size:]]
    return [f"${digits}"]


def map_name(rules: Sequence[MappingRule], name: str) -> str | None:
    """Return the name of the user by the first rule that applies; None if none does."""
    for rule in rules:
        user = rule.apply(name)
        if user is not None:
            return user
    return None
