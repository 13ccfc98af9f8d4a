"""Names, numbers and times as the page writes them.

Names come from clients. Characters that cannot be seen (control characters, marks that change the
direction of writing) are written as escapes, and long names are cut in the middle.
"""

from datetime import UTC, datetime
from typing import Any

UNKNOWN = "unknown"
# The letters that fit into a column.
COLUMN_LETTERS = 48
# Browsers do not show more than this in a tool tip.
_HINT_LETTERS = 500
_SECOND_MS = 1_000


def printable(text: str) -> str:
    """Replace each character that cannot be seen by its escape."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def cut(text: str, letters: int = COLUMN_LETTERS) -> str:
    """Return printable text of at most `letters` letters: the beginning and end of a longer one."""
    text = printable(text)
    if len(text) <= letters:
        return text
    head = (letters - 1) // 2
    return f"{text[:head]}…{text[head + 1 - letters :]}"


def hint(text: str) -> str:
    """Return as much of a name as a tool tip shows."""
    return printable(text)[:_HINT_LETTERS]


def grouped(value: Any) -> str:
    """Return an integer with thousands separators, and other values as they are."""
    return f"{value:,}" if isinstance(value, int) else str(value)


def known(value: Any) -> str:
    """Return a number, or a question mark for None."""
    return "?" if value is None else grouped(value)


def took(duration_ms: int | None) -> str:
    """Return a duration in a table's cell, or a question mark for None."""
    return "?" if duration_ms is None else duration(duration_ms)


def counted(count: int, what: str) -> str:
    """Return a number with its noun: 1 member, 2 members."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def moment(at_ms: float | None) -> str:
    """Return a time in full, in UTC."""
    if at_ms is None:
        return UNKNOWN
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}"


def duration(ms: float | None) -> str:
    """Return a duration in words: 340 ms, 12.4 s, 3 min 05 s, 2 h 10 min."""
    if ms is None:
        return UNKNOWN
    if ms < _SECOND_MS:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"
