"""Transcript files: commands and their expected output, as text that people read.

    # One behaviour, and the rule it shows.
    needs: core

    c1> JoinGroup v9 member=""
    ----
    c1< JoinGroup v9 error=MEMBER_ID_REQUIRED member=c1-1

    tick 3s
    ----
    00:03.000 orders PreparingRebalance -> CompletingRebalance generation=1 leader=c1-1

Blank lines separate paragraphs. A paragraph with a `----` line is a block: the commands are above
that line, their expected output is below it, and `#` lines at its top are its comment. The first
paragraph is the comment of the file. A `needs:` line at the end of it names what a driver must be
able to do. docs/transcripts.md describes the commands and the output.

Invariant: `rewritten(actual)` changes only lines below `----`, so rewriting a transcript that holds
gives the same bytes.
"""

import re
from pathlib import Path
from typing import NamedTuple

from coterie.conformance.releases import Release, parse_release
from coterie.conversation.syntax import TranscriptError

SEPARATOR = "----"

# The requirements of a file. "core": it inspects or breaks what no client can (the log, timers,
# a failing append), or would leave something on a broker that others use. "time": it lets hours
# pass. "ours": it pins a choice that Kafka leaves open, so another broker may respond otherwise.
NEEDS = frozenset({"core", "time", "ours"})

_HEAD_LINE = re.compile(r"(needs|since|until): *(.*)")


class ResponseError(TranscriptError):
    """A broker has not responded as the story needs it, so that the transcript cannot go on."""


class Command(NamedTuple):
    """One command line: its text and its line number."""

    text: str
    line: int


class Block(NamedTuple):
    """Commands and their expected output.

    Attributes:
        commands: at least one.
        expected: the lines below the separator.
        separator: index of the separator in the lines of the file.
    """

    commands: list[Command]
    expected: list[str]
    separator: int


class Transcript(NamedTuple):
    """One file.

    Attributes:
        path: where it was read from.
        comment: its first paragraph, without the `#`.
        needs: a subset of NEEDS.
        since, until: the first and the last release of Kafka that behaves so; None without limit.
        blocks: in order.
        lines: the whole file.
    """

    path: Path
    comment: str
    needs: frozenset[str]
    blocks: list[Block]
    lines: list[str]
    since: Release | None = None
    until: Release | None = None

    def rewritten(self, actual: list[list[str]]) -> str:
        """Return the text of the file with these lines as expected output, one list per block."""
        out: list[str] = []
        at = 0
        for block, lines in zip(self.blocks, actual, strict=True):
            out += self.lines[at : block.separator + 1]
            out += lines
            at = block.separator + 1 + len(block.expected)
        out += self.lines[at:]
        return "\n".join(out) + "\n"


def all_paths() -> list[Path]:
    """Return the paths of all transcripts in the package, sorted."""
    return sorted(Path(__file__).parent.rglob("*.txt"))


def read(path: Path) -> Transcript:
    """Read one file.

    Raises:
        TranscriptError: it is not a transcript.
    """
    return parse(path.read_text(encoding="utf-8"), path)


def parse(text: str, path: Path) -> Transcript:
    """Parse the text of a file; `path` is for messages.

    Raises:
        TranscriptError: it is not a transcript.
    """
    lines = text.splitlines()
    comment: list[str] = []
    needs: set[str] = set()
    limits: dict[str, Release] = {}
    blocks: list[Block] = []
    for start, paragraph in _paragraphs(lines):
        where = f"{path}:{start + 1}"
        if SEPARATOR in paragraph:
            blocks.append(_block(start, paragraph, where))
            continue
        while start == 0 and (match := _HEAD_LINE.fullmatch(paragraph[-1])) is not None:
            if match[1] == "needs":
                needs = _needs(paragraph.pop(), where)
            else:
                limits[match[1]] = _release(match[2], where)
                paragraph.pop()
        if not all(line.startswith("#") for line in paragraph):
            raise TranscriptError(f"{where}: a block needs a {SEPARATOR} line")
        if start == 0:
            comment = [line[1:].strip() for line in paragraph]
    if not comment:
        raise TranscriptError(f"{path}: the first paragraph must be a comment")
    if not blocks:
        raise TranscriptError(f"{path}: there is no block")
    return Transcript(
        path,
        "\n".join(comment),
        frozenset(needs),
        blocks,
        lines,
        limits.get("since"),
        limits.get("until"),
    )


def _paragraphs(lines: list[str]) -> list[tuple[int, list[str]]]:
    paragraphs: list[tuple[int, list[str]]] = []
    start = 0
    for index, line in enumerate([*lines, ""]):
        if line.strip():
            continue
        if index > start:
            paragraphs.append((start, lines[start:index]))
        start = index + 1
    return paragraphs


def _block(start: int, paragraph: list[str], where: str) -> Block:
    separator = paragraph.index(SEPARATOR)
    commands = [
        Command(line, start + offset + 1)
        for offset, line in enumerate(paragraph[:separator])
        if not line.startswith("#")
    ]
    if not commands:
        raise TranscriptError(f"{where}: there is no command in the block")
    expected = paragraph[separator + 1 :]
    if SEPARATOR in expected:
        raise TranscriptError(f"{where}: two {SEPARATOR} lines in a block; a blank line is missing")
    return Block(commands, expected, start + separator)


def _release(text: str, where: str) -> Release:
    try:
        return parse_release(text)
    except ValueError as error:
        raise TranscriptError(f"{where}: {error}") from error


def _needs(line: str, where: str) -> set[str]:
    named = set(line.removeprefix("needs:").replace(",", " ").split())
    if not named or not named <= NEEDS:
        raise TranscriptError(f"{where}: needs must be among {', '.join(sorted(NEEDS))}")
    return named
