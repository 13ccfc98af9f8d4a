"""The syntax of values in transcripts: `name=value` pairs, lists, maps, durations, partitions.

    session=10s  member=""  members=[c1-1, /i1]  offsets={sales-0: 42, sales-1: 7 "a note"}

A value ends at the next space outside of brackets and quotes. The items of a list or map are
separated by commas and may contain spaces.
"""

import re
from typing import NamedTuple

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d{1,15})(ms|s|m|h|d)")
_ENTRY = re.compile(r'("[^"]*"|[^:]*):(.*)', re.DOTALL)
_PARTITION = re.compile(r"(.+)-(\d+)")
_OPENING, _CLOSING = "[{(", "]})"
_REQUEST = re.compile(r"(?P<client>[a-z]\w*(?:\.\d+)?)> (?P<api>[A-Z]\w+) v(?P<version>\d+)(?: |$)")


class TranscriptError(Exception):
    """A transcript that cannot be run as it is written; the text names file and line."""


class RequestLine(NamedTuple):
    """A command that sends a request; `arguments` is the text after the version."""

    client: str
    api: str
    version: int
    arguments: str


def parse_request_line(text: str) -> RequestLine | None:
    """Return the parts of a request; None for any other command."""
    match = _REQUEST.match(text)
    if match is None:
        return None
    return RequestLine(match["client"], match["api"], int(match["version"]), text[match.end() :])


class Arguments(NamedTuple):
    """The arguments of a command line.

    Attributes:
        positional: the words without a name, in order.
        named: the text of each named value. Taking a value removes it, so that `reject_unknown`
            sees the names that no command has.
    """

    positional: list[str]
    named: dict[str, str]

    def take(self, name: str, default: str) -> str:
        """Remove a named value and return it without its quotes."""
        return unquote(self.named.pop(name, default))

    def reject_unknown(self) -> None:
        """Raise TranscriptError for named values that are left: they may be misspelt."""
        if self.named:
            raise TranscriptError(f"unknown here: {', '.join(self.named)}")


def parse_arguments(text: str) -> Arguments:
    """Split the arguments of a command line."""
    positional: list[str] = []
    named: dict[str, str] = {}
    for word in _split(text, " "):
        match = re.match(r"([a-z_]+)=", word)
        if match is None:
            positional.append(word)
        elif match[1] in named:
            raise TranscriptError(f"{match[1]} is given twice")
        else:
            named[match[1]] = word[match.end() :]
    return Arguments(positional, named)


def fields_of_line(line: RequestLine) -> Arguments:
    """Return the fields of a request, without the options of its frame.

    Raises:
        TranscriptError: a word has no name.
    """
    arguments = parse_arguments(line.arguments)
    if arguments.positional:
        raise TranscriptError(f"{' '.join(arguments.positional)!r}: fields are name=value")
    arguments.named.pop("wire", None)
    return arguments


def _split(text: str, separator: str) -> list[str]:
    """Split outside of brackets and quotes; empty pieces are dropped."""
    pieces: list[str] = []
    depth, in_quotes, start = 0, False, 0
    for index, char in enumerate(text):
        if char == '"':
            in_quotes = not in_quotes
        elif in_quotes:
            continue
        elif char in _OPENING:
            depth += 1
        elif char in _CLOSING:
            depth -= 1
        elif char == separator and not depth:
            pieces.append(text[start:index])
            start = index + 1
    if depth or in_quotes:
        raise TranscriptError(f"a bracket or quote is not closed in {text!r}")
    pieces.append(text[start:])
    return [piece.strip() for piece in pieces if piece.strip()]


def unquote(value: str) -> str:
    """Return the value without surrounding quotes. There are no escapes: no value needs them."""
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return value[1:-1]
    return value


def quote(value: str) -> str:
    """Return the value in quotes if it is empty or contains a space or a bracket."""
    if value and not re.search(r'[\s"\[\]{},:=]', value):
        return value
    return f'"{value}"'


def parse_list(value: str) -> list[str]:
    """Return the items of `[a, b]`; a value without brackets is a list of one item."""
    if value.startswith("[") and value.endswith("]"):
        return _split(value[1:-1], ",")
    return [value]


def parse_map(value: str) -> dict[str, str]:
    """Return the entries of `{a: 1, b: 2}`."""
    if not (value.startswith("{") and value.endswith("}")):
        raise TranscriptError(f"{value!r} is not a map: {{key: value, ...}}")
    entries: dict[str, str] = {}
    for item in _split(value[1:-1], ","):
        match = _ENTRY.fullmatch(item)
        if match is None:
            raise TranscriptError(f"{item!r} is not an entry of a map: key: value")
        key = match[1].strip()
        if unquote(key) in entries:
            raise TranscriptError(f"{key} is in the map twice")
        entries[unquote(key)] = match[2].strip()
    return entries


def format_list(items: list[str]) -> str:
    """Return `[a, b]`."""
    return f"[{', '.join(items)}]"


def format_map(entries: list[tuple[str, str]]) -> str:
    """Return `{a: 1, b: 2}`."""
    return "{" + ", ".join(f"{key}: {value}" for key, value in entries) + "}"


def parse_duration_ms(text: str) -> int:
    """Return the milliseconds of `1h30m`, `10s` or `2999ms`; `-1` and `0` have no unit.

    Raises:
        TranscriptError: it is not a duration.
    """
    if text in ("-1", "0"):
        return int(text)
    total, position = 0, 0
    for match in _DURATION.finditer(text):
        if match.start() != position:
            break
        total += int(match[1]) * _UNITS_MS[match[2]]
        position = match.end()
    if not text or position != len(text):
        raise TranscriptError(f"{text!r} is not a duration: 10s, 1h30m, 2999ms")
    return total


def duration_text(duration_ms: int) -> str:
    """Return a duration as `10s`, `1m`, `2999ms`, `0` or `-1`."""
    if duration_ms in (0, -1):
        return str(duration_ms)
    for unit in ("h", "m", "s"):
        if duration_ms % _UNITS_MS[unit] == 0:
            return f"{duration_ms // _UNITS_MS[unit]}{unit}"
    return f"{duration_ms}ms"


def format_time(elapsed_ms: int) -> str:
    """Return a moment of virtual time as `MM:SS.mmm`, with hours in front from one hour on."""
    minutes, rest_ms = divmod(elapsed_ms, 60_000)
    seconds = f"{rest_ms // 1000:02}.{rest_ms % 1000:03}"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds}" if hours else f"{minutes:02}:{seconds}"


def parse_partition(text: str) -> tuple[str, int]:
    """Return topic and index of `sales-0`.

    Raises:
        TranscriptError: it is not a partition.
    """
    match = _PARTITION.fullmatch(text)
    if match is None:
        raise TranscriptError(f"{text!r} is not a partition: topic-index")
    return match[1], int(match[2])


def group_by_topic(texts: list[str]) -> dict[str, list[int]]:
    """Return partition indexes by topic, topics in order of first mention."""
    topics: dict[str, list[int]] = {}
    for text in texts:
        topic, index = parse_partition(text)
        topics.setdefault(topic, []).append(index)
    return topics
