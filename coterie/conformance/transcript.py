"""A transcript: commands and what they lead to, as text that a person reads first.

    # What the file shows, and where the rule comes from.
    needs: core

    c1> JoinGroup v9 member=""
    ----
    c1< JoinGroup v9 error=MEMBER_ID_REQUIRED member=c1-1

    tick 3s
    ----
    00:03.000 orders PreparingRebalance -> CompletingRebalance generation=1 leader=c1-1

Paragraphs are parted by blank lines. One with a `----` line is a block: commands above it, what
they lead to below it; `#` lines on top of a block are its comment. The first paragraph is the
comment of the file; a `needs:` line that ends it names what a driver must be able to do. README.md
beside this file describes commands and answers.

Invariant: `rewritten(actual)` changes the lines below `----` and nothing else, so a rewrite of what
already holds gives the same bytes.
"""

import re
from pathlib import Path
from typing import NamedTuple

RULER = "----"

# What a file can ask of a driver. "core": it sees or breaks what no client can (the log, timers, a
# failing fsync). "time": it lets hours pass. "ours": it pins a choice that Kafka leaves open, so
# another broker may answer otherwise.
NEEDS = frozenset({"core", "time", "ours"})

_REQUEST = re.compile(r"(?P<client>[a-z]\w*(?:\.\d+)?)> (?P<api>[A-Z]\w+) v(?P<version>\d+)(?: |$)")


class TranscriptError(Exception):
    """A transcript that cannot be run as it is written; the text names file and line."""


class Command(NamedTuple):
    """One command: its text, and where it stands."""

    text: str
    line: int

    @property
    def client(self) -> str | None:
        """The client of a request; None for a command of the stage itself."""
        match = _REQUEST.match(self.text)
        return match["client"] if match else None


class Block(NamedTuple):
    """Commands and what they lead to.

    Attributes:
        commands: at least one.
        expected: the lines below the ruler.
        ruler: index of the ruler in the lines of the file.
    """

    commands: list[Command]
    expected: list[str]
    ruler: int


class Transcript(NamedTuple):
    """One file.

    Attributes:
        path: where it was read from.
        comment: its first paragraph, without the `#`.
        needs: see NEEDS.
        blocks: in order.
        lines: the whole file.
    """

    path: Path
    comment: str
    needs: frozenset[str]
    blocks: list[Block]
    lines: list[str]

    @property
    def title(self) -> str:
        """The first line of the comment."""
        return self.comment.partition("\n")[0]

    def rewritten(self, actual: list[list[str]]) -> str:
        """The file with these lines as expectations, one list a block."""
        out: list[str] = []
        at = 0
        for block, lines in zip(self.blocks, actual, strict=True):
            out += self.lines[at : block.ruler + 1]
            out += lines
            at = block.ruler + 1 + len(block.expected)
        out += self.lines[at:]
        return "\n".join(out) + "\n"


def all_paths() -> list[Path]:
    """Every transcript that comes with the package, by name."""
    return sorted(Path(__file__).parent.rglob("*.txt"))


def read(path: Path) -> Transcript:
    """Read one file.

    Raises:
        TranscriptError: it is not a transcript.
    """
    return parse(path.read_text(encoding="utf-8"), path)


def parse(text: str, path: Path) -> Transcript:
    """Take the text of a file apart; `path` is for messages."""
    lines = text.splitlines()
    comment: list[str] = []
    needs: set[str] = set()
    blocks: list[Block] = []
    for start, paragraph in _paragraphs(lines):
        where = f"{path}:{start + 1}"
        if RULER in paragraph:
            blocks.append(_block(start, paragraph, where))
            continue
        if start == 0 and paragraph[-1].startswith("needs:"):
            needs = _needs(paragraph.pop(), where)
        if not all(line.startswith("#") for line in paragraph):
            raise TranscriptError(f"{where}: a paragraph without {RULER} is no block")
        if start == 0:
            comment = [line[1:].strip() for line in paragraph]
    if not comment:
        raise TranscriptError(f"{path}: the first paragraph says what the file shows")
    if not blocks:
        raise TranscriptError(f"{path}: nothing happens in it")
    return Transcript(path, "\n".join(comment), frozenset(needs), blocks, lines)


def _paragraphs(lines: list[str]) -> list[tuple[int, list[str]]]:
    found: list[tuple[int, list[str]]] = []
    start = 0
    for index, line in enumerate([*lines, ""]):
        if line.strip():
            continue
        if index > start:
            found.append((start, lines[start:index]))
        start = index + 1
    return found


def _block(start: int, paragraph: list[str], where: str) -> Block:
    ruler = paragraph.index(RULER)
    commands = [
        Command(line, start + offset + 1)
        for offset, line in enumerate(paragraph[:ruler])
        if not line.startswith("#")
    ]
    if not commands:
        raise TranscriptError(f"{where}: a block without a command")
    expected = paragraph[ruler + 1 :]
    if RULER in expected:
        raise TranscriptError(f"{where}: two rulers in one block; a blank line is missing")
    return Block(commands, expected, start + ruler)


def _needs(line: str, where: str) -> set[str]:
    named = set(line.removeprefix("needs:").replace(",", " ").split())
    if not named or not named <= NEEDS:
        raise TranscriptError(f"{where}: needs are among {', '.join(sorted(NEEDS))}")
    return named


def request_parts(text: str) -> tuple[str, str, int, str] | None:
    """Client, API, version and the rest of a request line; None if it is none."""
    match = _REQUEST.match(text)
    if match is None:
        return None
    return match["client"], match["api"], int(match["version"]), text[match.end() :]
