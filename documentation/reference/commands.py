"""A page for each command: usage, help and options, as `--help` has them, and keys of `--json`."""

import inspect
import re
from collections.abc import Iterator

import click

from coterie.cli.main import COMMANDS, main
from documentation.reference.json_keys import described as keys_described
from documentation.reference.tables import code, prose, table

_DIRECTORY = "reference/commands"
_PROGRAM = "coterie"
# click's mark of a paragraph that keeps its lines.
_VERBATIM = "\b"


def command_pages() -> dict[str, str]:
    """Return the pages, and a page that lists all commands."""
    found = {name: list(commands(name)) for name in COMMANDS}
    index = ["# Commands\n\nEvery command, from the code. `--help` prints the same.\n\n"]
    rows = []
    for name, inside in found.items():
        for path, command in inside:
            link = f"{name}.md" if path == name else f"{name}.md#{_anchor(path)}"
            summary = COMMANDS[name] if path == name else command.get_short_help_str(200)
            rows.append((f"[`{path}`]({link})", prose(summary)))
    index.append(table(("command", "what it does"), rows))
    return {
        f"{_DIRECTORY}/index.md": "".join(index),
        **{f"{_DIRECTORY}/{name}.md": _page(name, inside) for name, inside in found.items()},
    }


def commands(
    path: str, command: click.Command | None = None
) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and those below it, with what is typed after `coterie`."""
    context = click.Context(main, info_name=_PROGRAM)
    found = command or main.get_command(context, path)
    assert isinstance(found, click.Command), path
    yield path, found
    if isinstance(found, click.Group):
        for name in found.list_commands(context):
            yield from commands(f"{path} {name}", found.get_command(context, name))


def _page(name: str, inside: list[tuple[str, click.Command]]) -> str:
    parts = [f"# {_PROGRAM} {name}\n\n"]
    for path, command in inside:
        if path != name:
            parts.append(f"## {_PROGRAM} {path}\n\n")
        parts.append(_described(path, command))
    return "".join(parts)


def _described(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"{_PROGRAM} {path}")
    context.max_content_width = 100
    usage = command.get_usage(context).removeprefix("Usage: ")
    usage = "\n".join(line.removeprefix("       ") for line in usage.splitlines())
    records = [
        record
        for each in command.get_params(context)
        if isinstance(each, click.Option) and (record := each.get_help_record(context)) is not None
    ]
    rows = [(code(names), prose(text)) for names, text in records if "--help" not in names]
    return (
        f"```text\n{usage}\n```\n\n"
        + _help(command.help or "")
        + table(("option", "meaning"), rows)
        + keys_described(path)
        + _help(command.epilog or "")
    )


def _help(text: str) -> str:
    """Return the text of a help as Markdown."""
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        lines = paragraph.splitlines()
        if lines and lines[0].strip() == _VERBATIM:
            paragraphs.append("```text\n" + "\n".join(lines[1:]) + "\n```")
        elif lines:
            paragraphs.append(prose(" ".join(lines)))
    return "".join(f"{each}\n\n" for each in paragraphs)


def _anchor(path: str) -> str:
    return f"{_PROGRAM} {path}".replace(" ", "-")
