"""Java's properties files, read and written exactly as `java.util.Properties` does it.

Kafka keeps its settings and `meta.properties` in this format. The rules are those of `load` and
`store` [settings/properties-format]: comments, continued lines, three separators and escapes.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

_BLANKS = " \t\f"
_SEPARATORS = "=:"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


class PropertiesError(ValueError):
    """A `\\u` escape that is not followed by four hexadecimal digits."""


class Entry(NamedTuple):
    """A name, its value, and the number of the line where the name begins."""

    line: int
    name: str
    value: str


def parse_properties(text: str) -> list[Entry]:
    """Return the entries of a properties file in their order, repeated names included.

    Raises:
        PropertiesError: an escape is malformed.
    """
    return [_entry(number, line) for number, line in _logical_lines(text)]


def read_properties(text: str) -> dict[str, str]:
    """Return names and values of a properties file; the last of equal names counts.

    Raises:
        PropertiesError: an escape is malformed.
    """
    return {entry.name: entry.value for entry in parse_properties(text)}


def properties_text(properties: Mapping[str, str]) -> str:
    """Return a properties file that `parse_properties` and Java read as `properties`."""
    text = "".join(
        f"{_escape(name, is_name=True)}={_escape(value, is_name=False)}\n"
        for name, value in properties.items()
    )
    assert text.count("\n") == len(properties), "a property is one line"
    return text


def _natural_lines(text: str) -> list[str]:
    """Return the lines of `text`. Unlike str.splitlines, only CR, LF and CRLF end a line."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines without comments and blank ones, continued lines joined, with their numbers."""
    logical, first = "", 0
    is_continued = False
    for number, natural in enumerate(_natural_lines(text), start=1):
        line = natural.lstrip(_BLANKS)
        if not logical:
            # A comment after a line that holds only a backslash is a comment, too.
            if not line or line[0] in "#!":
                is_continued = False
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        is_continued = backslashes % 2 == 1
        logical += line[:-1] if is_continued else line
        if not is_continued:
            if logical:
                yield first, logical
            logical = ""
    # Java reads a lone backslash at the end as an empty name, except before CRLF.
    if logical or (is_continued and not text.endswith("\r\n")):
        yield first, logical


def _entry(number: int, line: str) -> Entry:
    end = 0
    while end < len(line) and line[end] not in _BLANKS + _SEPARATORS:
        end += 2 if line[end] == "\\" else 1
    value = line[end:].lstrip(_BLANKS)
    if value[:1] in _SEPARATORS:
        value = value[1:].lstrip(_BLANKS)
    return Entry(number, _unescape(line[:end], number), _unescape(value, number))


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            parts.append(character)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if len(digits) < 4 or not _HEX_DIGITS.issuperset(digits):
                raise PropertiesError(f"line {line}: \\u needs four hexadecimal digits")
            parts.append(chr(int(digits, 16)))
            position += 4
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    # Java escapes a character beyond U+FFFF as two UTF-16 surrogates.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _escape(text: str, *, is_name: bool) -> str:
    parts: list[str] = []
    for position, character in enumerate(text):
        if character == " ":
            # Trailing and inner blanks of a value need no escape; leading ones would be skipped.
            parts.append("\\ " if is_name or position == 0 else " ")
        elif character in _ESCAPED:
            parts.append(_ESCAPED[character])
        elif character in "=:#!\\":
            parts.append("\\" + character)
        elif " " < character <= "~":
            parts.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            parts += [f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2)]
    return "".join(parts)
