"""The keys that `--json` prints, by command; tests compare them with what the commands print.

A line of `json_keys.tsv` has the command, which of its objects or options the keys are of, the
keys in their order, and what some of them mean. Releases only add keys.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from documentation.reference.tables import code, lines_of

_FILE = Path(__file__).parent / "json_keys.tsv"


class Keys(NamedTuple):
    """The keys of an object that a command prints."""

    command: str
    which: str
    names: list[str]
    about: str


def all_keys() -> Iterator[Keys]:
    """Yield the keys of all commands."""
    for command, which, names, about in lines_of(_FILE, 4):
        yield Keys(command, which, names.split(), about)


def keys_of(command: str, which: str = "") -> list[str]:
    """Return the keys that a command prints, in their order."""
    (found,) = (each for each in all_keys() if (each.command, each.which) == (command, which))
    return found.names


def described(command: str) -> str:
    """Return the keys of a command as Markdown; nothing if it has none."""
    lines = [
        f"* {' '.join([each.which, *map(code, each.names)]).strip()}"
        f"{': ' if each.names and each.about else ''}{each.about}\n"
        for each in all_keys()
        if each.command == command
    ]
    return "Keys of `--json`:\n\n" + "".join(lines) + "\n" if lines else ""
