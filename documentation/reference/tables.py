"""Markdown tables of values that come from the code."""

from collections.abc import Iterable, Sequence

_CODE = "`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, or nothing if there are no rows."""
    lines = [_row(row) for row in rows]
    return "\n".join([_row(head), "|---" * len(head) + "|", *lines]) + "\n\n" if lines else ""


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
