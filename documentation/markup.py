"""Markdown of the repository as the generator takes it.

The text stays as it is, with these exceptions: links lead to places of the site, names of rules and
decisions and commands that open a page become links, diagrams become the drawings that were made of
them, and a list has a blank line before it, which the forge does not need and the generator does.
"""

import os.path
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from documentation import ROOT
from tests.spec_references import rules

_MARKDOWN = MarkdownIt("commonmark").enable("table")
DRAWINGS = Path(__file__).parent / "drawings"
# Where links lead to pages that are made from the code.
GENERATED = ROOT / "docs" / "reference"
# The parts of a text that may hold a link: code and links come first, so that neither is changed
# inside. The groups are: a page that a command opens, text and target of a link, a rule, a
# decision.
_PARTS = re.compile(
    r"`coterie docs --page (?P<page>[a-z/-]+)`"
    r"|`+[^`]*`+"
    r"|(?P<text>!?\[(?:[^\[\]]|\[[^\]]*\])*\])\((?P<target>[^)\s]+)\)"
    r"|\[(?P<rule>[a-z][a-z-]*/[a-z0-9][a-z0-9-]*)\](?!\()"
    r"|\bADR (?P<decision>\d+)\b"
)
_OUTSIDE = re.compile(r"[a-z]+:|#|//")


class Links:
    """Where links of the repository lead to on the site.

    Attributes:
        shown: files and directories that are no pages and were linked to, with their places.
    """

    def __init__(self, pages: Mapping[Path, str]) -> None:
        """Take the Markdown files that are pages, with their places."""
        self._pages = pages
        self._rules = set(rules())
        self._decisions = {int(path.name[:4]): path for path in pages if path.parent.name == "adr"}
        self.shown: dict[Path, str] = {}

    def target(self, path: Path, place: str, link: str) -> str:
        """Return the target of a link on the site.

        Args:
            path: the file that has the link.
            place: where that file is on the site.
            link: the target in the repository.
        """
        if _OUTSIDE.match(link):
            return link
        name, hash_, anchor = link.partition("#")
        linked = Path(os.path.normpath(path.parent / name))
        return f"{_relative(self._place(linked), place)}{hash_}{anchor}"

    def rule(self, name: str, place: str) -> str | None:
        """Return the link to a rule, "subject/name"; None if there is none."""
        if name not in self._rules:
            return None
        subject, _, anchor = name.partition("/")
        return f"{_relative(f'spec/{subject}.md', place)}#{anchor}"

    def decision(self, number: int, place: str) -> str | None:
        """Return the link to a decision; None if there is none."""
        path = self._decisions.get(number)
        return None if path is None else _relative(self._pages[path], place)

    def _place(self, linked: Path) -> str:
        if linked in self._pages:
            return self._pages[linked]
        relative = linked.relative_to(ROOT).as_posix()
        if linked.suffix == ".svg":
            return relative.removeprefix("docs/")
        if linked in (ROOT / "docs" / "spec", ROOT / "docs" / "adr"):
            return f"{linked.name}/index.md"
        if linked.is_relative_to(GENERATED):
            return relative.removeprefix("docs/")
        # A link to what does not exist is left to the check of links.
        return (
            self.shown.setdefault(linked, f"files/{relative}.md") if linked.exists() else relative
        )


def written(text: str, path: Path, place: str, links: Links) -> str:
    """Return the text of a Markdown file for a place of the site."""
    tokens = parsed(text)
    lines = text.splitlines(keepends=True)
    drawn = {begin: end for begin, end, is_drawn in code_lines(tokens) if is_drawn}
    code = {begin: end for begin, end, is_drawn in code_lines(tokens) if not is_drawn}
    lists = {token.map[0] for token in tokens if token.type.endswith("list_open") and token.map}
    result: list[str] = []
    prose: list[str] = []
    replace = partial(_replaced, path=path, place=place, links=links)
    number = 0
    while number < len(lines):
        if number in code or number in drawn:
            result += [_linked("".join(prose), replace)]
            prose.clear()
            end = code.get(number) or drawn[number]
            block = "".join(lines[number:end])
            result.append(_drawing(block, place) if number in drawn else block)
            number = end
            continue
        if number in lists and number and lines[number - 1].strip() and lines[number][0] in "*-1":
            prose.append("\n")
        prose.append(lines[number])
        number += 1
    return "".join(result) + _linked("".join(prose), replace)


@cache
def parsed(text: str) -> list[Token]:
    """Return the parts of a Markdown text, as the forge understands it."""
    return _MARKDOWN.parse(text)


def code_lines(tokens: list[Token]) -> list[tuple[int, int, bool]]:
    """Return the first line and the end of each block of code, and whether it is a diagram."""
    return [
        (token.map[0], token.map[1], token.info.strip() == "mermaid")
        for token in tokens
        if token.type in ("fence", "code_block") and token.map
    ]


def title_of(text: str) -> str:
    """Return the first heading of a text, without marks."""
    heading = next(line for line in text.splitlines() if line.startswith("# "))
    return heading[2:].replace("`", "").strip()


def drawing_name(diagram: str) -> str:
    """Return the name of the drawing of a diagram: the text decides, so none is out of date."""
    return f"{sha256(diagram.strip().encode()).hexdigest()[:16]}.svg"


def diagrams(text: str) -> list[str]:
    """Return the diagrams of a Markdown text."""
    return [
        token.content
        for token in parsed(text)
        if token.type == "fence" and token.info.strip() == "mermaid"
    ]


def _drawing(block: str, place: str) -> str:
    (diagram,) = diagrams(block)
    name = drawing_name(diagram)
    source = _relative(f"drawings/{name}", place)
    return f'<div class="drawing" markdown>\n\n![Diagram]({source})\n\n</div>\n'


def _linked(text: str, replace: Callable[[re.Match[str]], str]) -> str:
    return _PARTS.sub(replace, text)


def _replaced(found: re.Match[str], path: Path, place: str, links: Links) -> str:
    """Return a part of a text as it is on the site."""
    if found["target"] is not None:
        return f"{found['text']}({links.target(path, place, found['target'])})"
    link = None
    if found["page"] is not None:
        link = _relative(f"{found['page']}.md", place)
    elif found["rule"] is not None:
        link = links.rule(found["rule"], place)
    elif found["decision"] is not None:
        link = links.decision(int(found["decision"]), place)
    if link is None or link == os.path.basename(place):
        return found[0]
    return f"[{found['rule'] or found[0]}]({link})"


def _relative(target: str, place: str) -> str:
    return os.path.relpath(target, os.path.dirname(place) or ".")
