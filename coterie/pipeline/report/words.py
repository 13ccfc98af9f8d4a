"""Names as the page and the terminal write them.

Names come from clients. Characters that cannot be seen (control characters, marks that change the
direction of writing) are written as escapes, and long names are cut in the middle.
"""

import re

UNKNOWN = "unknown"
# The letters that fit into a column.
COLUMN_LETTERS = 48
# A full name in a tip is cut here: a client may choose one of 32 KB.
HINT_LETTERS = 500
# The letters of a member id that distinguish the members of one client.
ID_LETTERS = 8
_SECOND_MS = 1_000
# A member id of a classic group: the client id and a UUID, made by the coordinator.
_MADE_BY_COORDINATOR = re.compile(
    r"(.*)-([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f-]{17}", re.DOTALL
)


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
    """Return as much of a name as a tip shows."""
    return printable(text)[:HINT_LETTERS]


def short_member(
    member_key: str, member_id: str | None = None, client_id: str | None = None
) -> str:
    """Return the short name of a member [report/short-names].

    Args:
        member_key: the instance id of a static member, else the member id.
        member_id: the member id, if it is known.
        client_id: the client id, if it is known.
    """
    if member_id is not None and member_id != member_key:
        return cut(member_key)
    made = _MADE_BY_COORDINATOR.fullmatch(member_key)
    if client_id:
        rest = member_key.removeprefix(f"{client_id}-")
        if rest == client_id or not rest:
            return cut(client_id)
        # A short rest is readable whole.
        rest = rest if len(rest) <= 2 * ID_LETTERS else rest[:ID_LETTERS]
        return f"{cut(client_id, 32)} {printable(rest)}"
    if made is not None:
        return f"{cut(made[1], 32)} {made[2]}"
    return cut(member_key)


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
