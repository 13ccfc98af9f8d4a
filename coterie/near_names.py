"""The known names that are most like a name that does not exist."""

import difflib
from collections.abc import Iterable

# More are no help to somebody who has mistyped a name.
_MOST = 3
_LISTED = 8


def did_you_mean(name: str, known: Iterable[str], what: str) -> str:
    """Return the end of an error: the names that are nearest, or all of them if none is near.

    Args:
        name: the name that does not exist.
        known: the names that do.
        what: what they are the names of, in the plural.
    """
    names = {each.lower(): each for each in sorted(known)}
    near = [names[each] for each in difflib.get_close_matches(name.lower(), names, _MOST)]
    if near:
        return f"; did you mean {' or '.join(near)}?"
    if not names:
        return f"; there are no {what}"
    listed = list(names.values())
    rest = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return f"; the {what} are {', '.join(listed[:_LISTED])}{rest}"
