"""The commands and requests of transcripts, from the tables that read them."""

import inspect

from coterie.conformance.commands import CLIENT_COMMANDS, COMMANDS, INSPECTION_COMMANDS
from coterie.conversation.requests import declared_arguments
from documentation.reference.tables import code, prose, table

_HEAD = """# Commands and requests of transcripts

[Transcripts](../transcripts.md) describes the language.

## Requests

Arguments of requests that have a form of their own, with the text that stands for one that is left
out. A request of another API has the fields of its declaration.

"""
_COMMANDS = """## Commands

A file with a command that needs the core `needs: core`; a driver for a running broker skips those
that show it.

"""


def transcripts_page() -> str:
    """Return the page."""
    requests = [
        (code(api), " ".join(code(f"{name}={default}") for name, default in arguments))
        for api, arguments in declared_arguments().items()
    ]
    commands = [
        (prose(inspect.getdoc(command) or "").partition("\n\n")[0], _needs(name))
        for name, command in COMMANDS.items()
    ]
    return (
        _HEAD
        + table(("request", "arguments"), requests)
        + _COMMANDS
        + table(("command", "needs"), commands)
    )


def _needs(name: str) -> str:
    if name in INSPECTION_COMMANDS:
        return "the core, which it shows"
    return "" if name in CLIENT_COMMANDS else "the core"
