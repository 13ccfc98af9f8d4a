"""Changes: a preview of what each would do, and what is done once a person has seen that.

A preview has a token. A change is carried out for a token only, as it was shown, and not if the
state that it stands on has changed since: then the answer has the new preview.
"""

from functools import partial

from coterie.console.changes.fields import name, text
from coterie.console.changes.plan import Row
from coterie.console.changes.verb import Verb
from coterie.console.changes.verbs import VERBS
from coterie.console.routes import Request, Route

_FIELDS = (
    name("token", "That of the preview."),
    text("confirm", "What the preview wants to be typed."),
)


def _preview(verb: Verb, request: Request) -> Row:
    with request.place.cluster() as cluster:
        plan = verb.plan(cluster, request.body)
    return request.place.previews.show(verb.name, request.body, plan)


def _carry_out(verb: Verb, request: Request) -> Row:
    """Carry out a plan that was shown, or return a new preview if what it stands on has changed."""
    previews = request.place.previews
    shown = previews.take(verb.name, request.body["token"], request.body.get("confirm"))
    with request.place.cluster() as cluster:
        now = verb.plan(cluster, shown.fields)
        if now.guard != shown.plan.guard:
            again = previews.show(verb.name, shown.fields, now)
            return {"carried_out": False, "rows": [], "command": None, "preview": again}
        rows = verb.carry_out(cluster, shown.plan)
    command = shown.plan.command
    return {"carried_out": True, "rows": rows, "command": command, "preview": None}


def _rows_of(verb: Verb) -> tuple[Route, ...]:
    path = f"/api/changes/{verb.name}"
    before = f"What this would do, which changes nothing: {verb.about}"
    return (
        Route("POST", f"{path}/preview", before, partial(_preview, verb), verb.parameters),
        Route("POST", path, verb.about, partial(_carry_out, verb), _FIELDS, changes=True),
    )


ROUTES = tuple(row for verb in VERBS for row in _rows_of(verb))
