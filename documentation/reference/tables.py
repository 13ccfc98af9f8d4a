"""Markdown tables of values that come from the code, and the files that say more of them."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_CODE = "`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, or nothing if there are no rows."""
    lines = [_row(row) for row in rows]
    return "\n".join([_row(head), "|---" * len(head) + "|", *lines]) + "\n\n" if lines else ""


def lines_of(path: Path, columns: int) -> Iterator[list[str]]:
    """Yield the columns of each line of a file, which tabs separate; the last may be left out."""
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = line.split("\t")
        yield cells + [""] * (columns - len(cells))


def code(text: str) -> str:
    """Return text as code, which may hold backticks and pipes; nothing for no text."""
    if not text:
        return ""
    marks = _CODE * 2 if _CODE in text else _CODE
    return f"{marks}{text}{marks}"


def prose(text: str) -> str:
    """Return text of a docstring or a help as Markdown that shows just these characters."""
    return text.replace("<", "&lt;").replace("*", r"\*").replace("__", r"\_\_")


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", r"\|") for cell in cells) + " |"
