"""Command lines in documents: whether the commands and options that they name exist."""

import re
import shlex
from collections.abc import Iterator

import click

from coterie.cli.main import main

PROGRAM = "coterie"
# A line that shows what may be typed, and cannot be typed itself.
_SYNOPSIS = re.compile(r"[\[\]|(]|\.\.\.|…|\b[A-Z]{2,}\b(?!=)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
# After the program's name; variables, a prompt or a path may stand before it.
_CALL = re.compile(rf"^\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\S*/)?{PROGRAM} ([a-z-].*)$")


class Wrong(Exception):  # noqa: N818 - the document is wrong
    """A command line that does not work."""


def calls(text: str) -> Iterator[str]:
    """Yield what follows `coterie` in each command line of a block."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        found = _CALL.match(line)
        if found:
            yield found[1]


def check(call: str, *, is_whole: bool = True) -> None:
    """Check a command line.

    Args:
        call: what follows `coterie`.
        is_whole: False if it stands in a sentence and may lack the value of an option.

    Raises:
        Wrong: it names a command or an option that does not exist, or does not fit.
    """
    text = re.sub(r"(?:^|\s)#.*|\s{2,}\(see .*\)$", "", call).strip()
    synopsis = not is_whole or bool(_SYNOPSIS.search(text))
    words = text.split() if synopsis else shlex.split(text)
    command, group, rest = _command(words)
    if synopsis:
        # One line may have several commands of a group: `stop NODE | start NODE`.
        others = [group.get_command(click.Context(group), word) for word in rest]
        known = {
            name
            for each in (command, *filter(None, others))
            for parameter in each.params
            for name in (*parameter.opts, *parameter.secondary_opts)
        }
        missing = set(_OPTION.findall(text)) - known - {"--help"}
        if missing:
            raise Wrong(f"{command.name} has no {', '.join(sorted(missing))}")
        return
    stop = next((at for at, word in enumerate(rest) if word in ("|", ">", "&&", "&", ";")), None)
    context = click.Context(command, info_name=command.name)
    try:
        # The parser knows options and their number of values; nothing is converted or called.
        command.make_parser(context).parse_args(rest[:stop])
    except click.UsageError as error:
        raise Wrong(error.format_message()) from error


def _command(words: list[str]) -> tuple[click.Command, click.Group, list[str]]:
    """Return the command that words begin with, the group it is in, and the words after it."""
    command: click.Command = main
    assert isinstance(main, click.Group)
    group: click.Group = main
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            # Several commands in one line of a synopsis: `run | report`.
            if re.fullmatch(r"[A-Z.|<>\[(]+.*", words[0]):
                break
            raise Wrong(f"{command.name} has no command {words[0]!r}")
        group, command, words = command, found, words[1:]
    return command, group, words
