"""Names of groups, topics and members as people read them.

Names come from clients. Characters that cannot be seen (control characters, marks that change the
direction of writing) are written as escapes, and long names are cut in the middle.
"""

import re

# The letters that fit into a column.
COLUMN_LETTERS = 48
CLIENT_LETTERS = 32
# The letters of a member id that distinguish the members of one client.
ID_LETTERS = 8
# A member id of a classic group: the client id and a UUID, made by the coordinator.
_MADE_BY_COORDINATOR = re.compile(
    r"(.*)-([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f-]{17}", re.DOTALL
)
# At most so many that Python converts them quickly.
_DIGITS = re.compile(r"([0-9]{1,18})")


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
        return f"{cut(client_id, CLIENT_LETTERS)} {printable(rest)}"
    if made is not None:
        return f"{cut(made[1], CLIENT_LETTERS)} {made[2]}"
    return cut(member_key)


def natural_order(text: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts numbers in names by their value: 0, 1, 2, 10."""
    parts = _DIGITS.split(text)
    # Digits and other text alternate; digits have a place before text at the same position.
    return [
        (0, int(part), part) if number % 2 else (1, 0, part) for number, part in enumerate(parts)
    ]


def counted(number: int, noun: str, one: str = "", many: str = "") -> str:
    """Return a number with its noun and verb: 1 member is, 2,500 members are.

    Args:
        number: the number.
        noun: a noun whose plural ends with s.
        one, many: the verb, or another addition, after one and after several.
    """
    noun, verb = (noun, one) if number == 1 else (f"{noun}s", many)
    return f"{number:,} {noun} {verb}".rstrip()
