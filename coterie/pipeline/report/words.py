"""Names and numbers as the page writes them.

Names come from whoever ran the clients: what is not printable (control characters, marks that turn
the direction of writing) is written as an escape, what is very long is cut in its middle, and
everything is escaped for HTML.
"""

from html import escape
from typing import Any

UNKNOWN = "not known"
# What fits into a column; the whole name shows when the pointer rests on it.
_LETTERS = 48
# Browsers show no more in a hint than that either.
_HINT_LETTERS = 500


def printable(text: str) -> str:
    """Text in which every character can be seen."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def cut(text: str, letters: int = _LETTERS) -> str:
    """Printable text of at most so many letters: the beginning and the end of a longer one."""
    text = printable(text)
    if len(text) <= letters:
        return text
    head = (letters - 1) // 2
    return f"{text[:head]}…{text[head + 1 - letters :]}"


def name(text: str | None, letters: int = _LETTERS) -> str:
    """A name as HTML; one that is cut has the whole in its hint."""
    if text is None:
        return ""
    whole, short = printable(text), cut(text, letters)
    # Isolated, or a name in Arabic would turn the words around it.
    if short == whole:
        return f"<bdi>{escape(short)}</bdi>"
    return f"<bdi title='{escape(whole[:_HINT_LETTERS], quote=True)}'>{escape(short)}</bdi>"


def plain(text: str | None) -> str:
    """Words as HTML."""
    return "" if text is None else escape(printable(text))


def grouped(value: Any) -> str:
    """A number with commas; other things as they are."""
    return f"{value:,}" if isinstance(value, int) else escape(str(value))


def known(value: Any) -> str:
    """A number, or a mark that it is not known."""
    return "?" if value is None else grouped(value)


def counted(count: int, what: str) -> str:
    """1 member, 2 members."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
