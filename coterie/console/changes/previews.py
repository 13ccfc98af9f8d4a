"""The plans that were shown and may be carried out.

Invariant: a plan is carried out at most once, as it was shown.
"""

import secrets
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from coterie.console.changes.plan import Plan, Row
from coterie.server.network.http_errors import Refused

# A person looks at one preview at a time; twenty pages may be open.
_KEPT_PREVIEWS = 100
_TOKEN_BYTES = 12


class Shown(NamedTuple):
    """A plan that was shown, the name of its verb, and the fields that it was made of."""

    verb: str
    fields: Mapping[str, Any]
    plan: Plan


class Previews:
    """The plans that were shown and may be carried out; the oldest ones are forgotten."""

    def __init__(self) -> None:
        """Start without any."""
        self._shown: dict[str, Shown] = {}
        self._lock = threading.Lock()

    def show(self, verb: str, fields: Mapping[str, Any], plan: Plan) -> Row:
        """Keep a plan, and return it as JSON; `token` is None if nothing can be carried out."""
        token = secrets.token_urlsafe(_TOKEN_BYTES) if plan.targets else None
        if token is not None:
            with self._lock:
                self._shown[token] = Shown(verb, fields, plan)
                while len(self._shown) > _KEPT_PREVIEWS:
                    del self._shown[next(iter(self._shown))]
        return {
            "verb": verb,
            "token": token,
            "title": plan.title,
            "rows": plan.rows,
            "refused": [each._asdict() for each in plan.refused],
            "warnings": plan.warnings,
            "confirm": plan.confirm,
            "command": plan.command,
        }

    def take(self, verb: str, token: str, confirmed: str | None) -> Shown:
        """Return a plan, which is forgotten.

        Raises:
            Refused: it is unknown, or what must be typed was not.
        """
        with self._lock:
            shown = self._shown.get(token)
            if shown is None or shown.verb != verb:
                raise Refused("PreviewGone", f"there is no such preview of {verb}")
            wanted = shown.plan.confirm
            if wanted is not None and confirmed != wanted:
                raise Refused("BadRequest", f"confirm: {wanted!r} is wanted")
            return self._shown.pop(token)
