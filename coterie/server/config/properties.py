"""Java properties files, as far as `server.properties` uses them.

`name=value`, `name:value` or `name value`; `#` and `!` begin a comment line; a backslash at the end
of a line continues it; `\\t \\n \\r \\f \\\\ \\uXXXX` are escapes. The file is UTF-8.
"""

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SEPARATORS = "=: \t"


def parse_properties(text: str) -> list[tuple[int, str, str]]:
    """The entries of a properties file: (number of its first line, name, value).

    Raises:
        ValueError: an escape is cut off.
    """
    entries = []
    for number, line in _logical_lines(text):
        end = _name_end(line)
        name, rest = line[:end], line[end:].lstrip(" \t")
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(" \t")
        entries.append((number, _unescape(name, number), _unescape(rest, number)))
    return entries


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines without comments and blanks, continued ones joined, each with the number of its first
    line.
    """
    lines: list[tuple[int, str]] = []
    pending: str | None = None
    first = 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.lstrip(" \t\f")
        if pending is None:
            if not line or line[0] in "#!":
                continue
            first, pending = number, ""
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        lines.append((first, pending + line))
        pending = None
    if pending is not None:
        lines.append((first, pending))
    return lines


def _name_end(line: str) -> int:
    position = 0
    while position < len(line):
        if line[position] == "\\":
            position += 2
        elif line[position] in _SEPARATORS:
            return position
        else:
            position += 1
    return len(line)


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    parts, position = [], 0
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
            if len(digits) < 4:
                raise ValueError(f"line {line}: \\u needs four hexadecimal digits")
            parts.append(chr(int(digits, 16)))
            position += 4
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    return "".join(parts)
