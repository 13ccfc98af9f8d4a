"""The error for wrong input: one sentence that names what is wrong and what would be right."""

from collections.abc import Iterable


class WrongInput(ValueError):  # noqa: N818 - what the user gave, not a failure
    """The user named something that does not exist or cannot be."""


def closest(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the known name that is most like a wrong one."""
    # Imported here because only a wrong name needs it.
    from difflib import get_close_matches

    found = get_close_matches(name, list(known), 1)
    return f" (did you mean '{found[0]}'?)" if found else ""
