"""How values are written in transcripts: `name=value` pairs, lists, maps, durations, partitions.

    session=10s  member=""  members=[c1-1, /i1]  offsets={sales-0: 42, sales-1: 7 "a note"}

A value ends at the next space outside of brackets and quotes. Items of a list or map are parted by
commas and may hold spaces.
"""

import re
from typing import NamedTuple

from coterie.conformance.transcript import TranscriptError

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")
_PARTITION = re.compile(r"(.+)-(\d+)")
_OPEN, _CLOSE = "[{(", "]})"


class Words(NamedTuple):
    """A command taken apart: its bare words in order, and its named values still as text."""

    bare: list[str]
    named: dict[str, str]

    def take(self, name: str, default: str) -> str:
        """A named value without its quotes, which thereby counts as used."""
        return unquoted(self.named.pop(name, default))

    def take_list(self, name: str, default: str = "[]") -> list[str]:
        """The items of a named list."""
        return items_of(self.named.pop(name, default))

    def take_map(self, name: str, default: str = "{}") -> dict[str, str]:
        """The entries of a named map."""
        return entries_of(self.named.pop(name, default))

    def done(self) -> None:
        """Complain about what nobody asked for: a misspelt name must not be ignored."""
        if self.named:
            raise TranscriptError(f"nobody knows {', '.join(self.named)} here")


def words_of(text: str) -> Words:
    """Take the rest of a command line apart."""
    bare: list[str] = []
    named: dict[str, str] = {}
    for word in _split(text, " "):
        match = re.match(r"([a-z_]+)=", word)
        if match is None:
            bare.append(word)
        elif match[1] in named:
            raise TranscriptError(f"{match[1]} is given twice")
        else:
            named[match[1]] = word[match.end() :]
    return Words(bare, named)


def _split(text: str, separator: str) -> list[str]:
    """Split outside of brackets and quotes; empty pieces are dropped."""
    pieces: list[str] = []
    depth, quoted, start = 0, False, 0
    for index, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
        elif char == separator and not depth:
            pieces.append(text[start:index])
            start = index + 1
    if depth or quoted:
        raise TranscriptError(f"a bracket or quote is not closed in {text!r}")
    pieces.append(text[start:])
    return [piece.strip() for piece in pieces if piece.strip()]


def unquoted(value: str) -> str:
    """The value without surrounding quotes. There are no escapes: no value needs them."""
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return value[1:-1]
    return value


def quoted(value: str) -> str:
    """The value as it can stand in a line: quoted where it is empty or has a space or bracket."""
    if value and not re.search(r'[\s"\[\]{},:=]', value):
        return value
    return f'"{value}"'


def items_of(value: str) -> list[str]:
    """The items of `[a, b]`; a value without brackets is a list of one."""
    if value.startswith("[") and value.endswith("]"):
        return _split(value[1:-1], ",")
    return [value]


def entries_of(value: str) -> dict[str, str]:
    """The entries of `{a: 1, b: 2}`."""
    if not (value.startswith("{") and value.endswith("}")):
        raise TranscriptError(f"{value!r} is no map: {{key: value, ...}}")
    entries: dict[str, str] = {}
    for item in _split(value[1:-1], ","):
        key, colon, text = item.partition(":")
        if not colon or unquoted(key.strip()) in entries:
            raise TranscriptError(f"{item!r} is no entry of its own: key: value")
        entries[unquoted(key.strip())] = text.strip()
    return entries


def duration_ms(text: str) -> int:
    """Milliseconds of `1h30m`, `10s`, `2999ms`; `-1` and `0` as they are.

    Raises:
        TranscriptError: it is no duration.
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
        raise TranscriptError(f"{text!r} is no duration: 10s, 1h30m, 2999ms")
    return total


def clock(elapsed_ms: int) -> str:
    """A moment of virtual time: `MM:SS.mmm`, with hours in front from the first hour on."""
    minutes, rest_ms = divmod(elapsed_ms, 60_000)
    seconds = f"{rest_ms // 1000:02}.{rest_ms % 1000:03}"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds}" if hours else f"{minutes:02}:{seconds}"


def partition_of(text: str) -> tuple[str, int]:
    """Topic and index of `sales-0`.

    Raises:
        TranscriptError: it is no partition.
    """
    match = _PARTITION.fullmatch(text)
    if match is None:
        raise TranscriptError(f"{text!r} is no partition: topic-index")
    return match[1], int(match[2])


def by_topic(texts: list[str]) -> dict[str, list[int]]:
    """Partition indexes by topic, topics in order of first mention."""
    topics: dict[str, list[int]] = {}
    for text in texts:
        topic, index = partition_of(text)
        topics.setdefault(topic, []).append(index)
    return topics


def listed(items: list[str]) -> str:
    """`[a, b]`."""
    return f"[{', '.join(items)}]"


def mapped(entries: list[tuple[str, str]]) -> str:
    """`{a: 1, b: 2}`."""
    return "{" + ", ".join(f"{key}: {value}" for key, value in entries) + "}"
