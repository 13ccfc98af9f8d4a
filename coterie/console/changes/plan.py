"""The plan of a change: what it would do, what it leaves out, and the command line for the same."""

import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

from coterie.client.errors import ClientError

Row = dict[str, Any]


class Refusal(NamedTuple):
    """Something that a plan leaves out.

    Attributes:
        subject: what it is: the name of a group, a topic or a partition.
        cause: why it is left out.
        remedy: what helps; "" if nothing is known.
    """

    subject: str
    cause: str
    remedy: str = ""


class Plan(NamedTuple):
    """What a change would do.

    Attributes:
        title: a sentence.
        rows: what would change, with the keys of `--json` of the command.
        command: the command line that does the same; None if there is none.
        guard: what must still be the same when it is carried out, as JSON.
        targets: what `Verb.carry_out` takes; nothing is carried out without any.
        refused: what is left out.
        warnings: what is lost, in sentences.
        confirm: what a person types before it is carried out; None for nothing.
    """

    title: str
    rows: list[Row]
    command: str | None
    guard: Any
    targets: list[Any]
    refused: list[Refusal] = []
    warnings: list[str] = []
    confirm: str | None = None


def command_line(*words: object) -> str:
    """Return a command line of `coterie`, quoted for a POSIX shell."""
    return shlex.join(["coterie", *map(str, words)])


def arguments(names: Sequence[str]) -> list[str]:
    """Return names as arguments of a command line: one that begins with a hyphen is no option."""
    return ["--", *names] if any(each.startswith("-") for each in names) else list(names)


def refusal_of(subject: str, error: ClientError) -> Refusal:
    """Return an error of the client as what a plan leaves out."""
    return Refusal(subject, error.cause, error.remedy)
