"""A change of a console: its plan, and the plans that were shown and may be carried out.

Invariants: making a plan changes nothing; a plan is carried out at most once, as it was shown, and
only if its guard is as it was.
"""

import secrets
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from coterie.client.cluster import Cluster
from coterie.client.errors import ClientError
from coterie.console.routes import Parameter
from coterie.server.network.http_errors import Refused

Row = dict[str, Any]

# A person looks at one preview at a time; twenty pages may be open.
_KEPT_PREVIEWS = 100
_TOKEN_BYTES = 12


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


class Verb(NamedTuple):
    """A change that a console can make.

    Attributes:
        name: as in the address.
        about: what it does, in a sentence.
        parameters: the fields that describe the change.
        plan: makes the plan of a change that the fields describe.
        carry_out: carries out a plan; returns a row for each target, with an `error` or None.
    """

    name: str
    about: str
    parameters: tuple[Parameter, ...]
    plan: Callable[[Cluster, Mapping[str, Any]], Plan]
    carry_out: Callable[[Cluster, Plan], list[Row]]


class Shown(NamedTuple):
    """A plan that was shown, and the fields that it was made of."""

    verb: Verb
    fields: Mapping[str, Any]
    plan: Plan


class Previews:
    """The plans that were shown and may be carried out; the oldest ones are forgotten."""

    def __init__(self) -> None:
        """Start without any."""
        self._shown: dict[str, Shown] = {}
        self._lock = threading.Lock()

    def show(self, verb: Verb, fields: Mapping[str, Any], plan: Plan) -> Row:
        """Keep a plan, and return it as JSON; `token` is None if nothing can be carried out."""
        token = secrets.token_urlsafe(_TOKEN_BYTES) if plan.targets else None
        if token is not None:
            with self._lock:
                self._shown[token] = Shown(verb, fields, plan)
                while len(self._shown) > _KEPT_PREVIEWS:
                    del self._shown[next(iter(self._shown))]
        return {
            "verb": verb.name,
            "token": token,
            "title": plan.title,
            "rows": plan.rows,
            "refused": [each._asdict() for each in plan.refused],
            "warnings": plan.warnings,
            "confirm": plan.confirm,
            "command": plan.command,
        }

    def take(self, verb: Verb, token: str, confirmed: str | None) -> Shown:
        """Return a plan, which is forgotten.

        Raises:
            Refused: it is unknown, or what must be typed was not.
        """
        with self._lock:
            shown = self._shown.get(token)
            if shown is None or shown.verb is not verb:
                raise Refused("PreviewGone", f"there is no such preview of {verb.name}")
            wanted = shown.plan.confirm
            if wanted is not None and confirmed != wanted:
                raise Refused("BadRequest", f"confirm: {wanted!r} is wanted")
            return self._shown.pop(token)


def carry_out(cluster: Cluster, previews: Previews, shown: Shown) -> Row:
    """Carry out a plan that was shown, or return a new preview if what it stands on has changed."""
    verb, fields, plan = shown
    now = verb.plan(cluster, fields)
    if now.guard != plan.guard:
        return {
            "carried_out": False,
            "rows": [],
            "command": None,
            "preview": previews.show(verb, fields, now),
        }
    rows = verb.carry_out(cluster, plan)
    return {"carried_out": True, "rows": rows, "command": plan.command, "preview": None}


def command_line(*words: object) -> str:
    """Return a command line of `coterie`, quoted for a POSIX shell."""
    return shlex.join(["coterie", *map(str, words)])


def arguments(names: Sequence[str]) -> list[str]:
    """Return names as arguments of a command line: one that begins with a hyphen is no option."""
    return ["--", *names] if any(each.startswith("-") for each in names) else list(names)


def refusal_of(subject: str, error: ClientError) -> Refusal:
    """Return an error of the client as what a plan leaves out."""
    return Refusal(subject, error.cause, error.remedy)


def counted(count: int, noun: str) -> str:
    """Return a number with a noun: 1 offset, 3 offsets."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
