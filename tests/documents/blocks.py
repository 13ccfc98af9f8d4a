"""Blocks of code in Markdown files: fenced ones, and commands in indented ones."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from documentation.markup import parsed

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_REASON = re.compile(r"<!-- not run: (.+?) -->")
_TITLE = re.compile(r'title="([^"]+)"')


class Block(NamedTuple):
    """A block of code.

    Attributes:
        page: the file it is in, from the root.
        line: the number of its first line.
        language: what follows the fence; empty if the block is indented.
        text: the code.
        title: the name of the file that it is, if the page gives one.
        reason: why it does not run, if the page says so.
    """

    page: str
    line: int
    language: str
    text: str
    title: str = ""
    reason: str = ""

    @property
    def place(self) -> str:
        """Where it is, as editors take it."""
        return f"{self.page}:{self.line}"


def blocks(path: Path) -> Iterator[Block]:
    """Yield the blocks of a file, in order."""
    reason = ""
    for token in parsed(path.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block"):
            assert token.map is not None
            page = path.relative_to(ROOT).as_posix()
            language, _, rest = token.info.strip().partition(" ")
            if token.type == "fence" and not language:
                language = "text"
            title = _TITLE.search(rest)
            # The fence itself is a line.
            line = token.map[0] + (2 if token.type == "fence" else 1)
            yield Block(page, line, language, token.content, title[1] if title else "", reason)
        if token.type == "html_block":
            found = _REASON.search(token.content)
            reason = found[1] if found else ""
        else:
            reason = ""


def code_in_sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the code that stands in sentences, and the number of the line its paragraph begins."""
    for token in parsed(path.read_text(encoding="utf-8")):
        if token.type == "inline" and token.map is not None:
            for part in token.children or ():
                if part.type == "code_inline":
                    yield token.map[0] + 1, " ".join(part.content.split())


def all_blocks() -> list[Block]:
    """Return the blocks of all pages."""
    return [block for path in PAGES for block in blocks(path)]
