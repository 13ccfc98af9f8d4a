"""One group: what it is now, live, its history under another protocol, and exports."""

import json
import re

from coterie.client.cluster import Cluster
from coterie.client.fact_rows import fact_row
from coterie.client.history import journal_of, read_history
from coterie.console.group.look import GroupMemory
from coterie.console.group.past import (
    ASSIGNORS_SHOWN,
    MACHINES_SHOWN,
    Json,
    Past,
    history_data,
    past_of,
    replayed,
    report_page,
    script_text,
)
from coterie.console.group.rows import group_json
from coterie.console.group.source import GroupSource
from coterie.console.hub import Subscription
from coterie.console.places import Place
from coterie.console.routes import File, Parameter, Request, Route
from coterie.lab.errors import WrongInput
from coterie.server.network.http_errors import Refused

# A group id may have any character; a file name has these.
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_LETTERS = 80
_NAMES = (*ASSIGNORS_SHOWN, *MACHINES_SHOWN)


def _group(request: Request) -> Json:
    group_id = request.path["group"]
    with request.place.cluster() as cluster:
        memory = GroupMemory(group_id, request.place.recent_past, request.place.present)
        memory.recorded.read(cluster)
        seen = memory.look(cluster)
        if seen is None:
            raise _no_group(group_id)
        past = _past(request.place, cluster, memory)
    return group_json(seen) | {"history": history_data(past)}


def _events(request: Request) -> Subscription:
    place, group_id = request.place, request.path["group"]
    return place.hub.subscribe(("group", group_id), lambda: GroupSource(place, group_id))


def _replay(request: Request) -> Json:
    name = request.query["assignor"]
    if name not in _NAMES:
        raise Refused("BadRequest", f"assignor: '{name}' is not one of {', '.join(_NAMES)}")
    with request.place.cluster() as cluster:
        past = _read_past(request.place, cluster, request.path["group"])
    try:
        return replayed(past, name)
    except WrongInput as error:
        raise Refused("NothingToReplay", str(error)) from None


def _export(request: Request) -> File:
    group_id, kind = request.path["group"], request.path["kind"]
    with request.place.cluster() as cluster:
        if kind == "records":
            return _records(request.place, cluster, group_id)
        past = _read_past(request.place, cluster, group_id)
    if kind == "report":
        page = report_page(past, f"Group {group_id}")
        name = file_name(group_id, "report.html")
        return File(page.encode(errors="replace"), "text/html; charset=utf-8", name)
    if kind == "script":
        try:
            text = script_text(past)
        except WrongInput as error:
            raise Refused("NothingToReplay", str(error)) from None
        return File(text.encode(), "application/toml", file_name(group_id, "script.toml"))
    raise Refused("NotFound", f"there is no export '{kind}': report, script and records are")


def _records(place: Place, cluster: Cluster, group_id: str) -> File:
    """Return the facts of the journal, an object a line, as `groups history --json` has them."""
    facts = read_history(cluster, journal_of(cluster, group_id)).facts
    if not facts and GroupMemory(group_id, place.recent_past).describe(cluster) is None:
        raise _no_group(group_id)
    lines = [json.dumps(fact_row(group_id, each), ensure_ascii=False) for each in facts]
    body = "".join(f"{each}\n" for each in lines).encode()
    return File(body, "application/x-ndjson", file_name(group_id, "records.jsonl"))


def _read_past(place: Place, cluster: Cluster, group_id: str) -> Past:
    """Return the history of a group.

    Raises:
        Refused: it neither exists nor is anything recorded of it.
    """
    memory = GroupMemory(group_id, place.recent_past)
    is_known = memory.recorded.read(cluster)
    if not is_known and memory.describe(cluster) is None:
        raise _no_group(group_id)
    return _past(place, cluster, memory)


def _past(place: Place, cluster: Cluster, memory: GroupMemory) -> Past:
    return past_of(memory.recorded, cluster, place.bootstrap)


def _no_group(group_id: str) -> Refused:
    return Refused("NoSuchGroup", f"there is no group '{group_id}'")


def file_name(group_id: str, ending: str) -> str:
    """Return a file name for an export that is one on every system, and no path.

    Args:
        group_id: any text.
        ending: what it is, and its type.
    """
    name = _NOT_IN_A_NAME.sub("-", group_id).strip(".-")[:_NAME_LETTERS]
    return f"{name or 'group'}-{ending}"


_ASSIGNOR = Parameter(
    "assignor",
    "An assignor, as for `coterie pipeline replay`, or a protocol of the lab.",
    {"type": "string", "enum": list(_NAMES)},
    is_required=True,
)

ROUTES = (
    Route("GET", "/api/groups/{group}", "A group now, with its history.", _group),
    Route(
        "GET",
        "/api/groups/{group}/events",
        "Events `group`, `history` when more has happened, and `cluster` as in `/api/events`.",
        _events,
        streams=True,
    ),
    Route(
        "GET",
        "/api/groups/{group}/replay",
        "What the same history would have been under another assignor or protocol.",
        _replay,
        (_ASSIGNOR,),
    ),
    Route(
        "GET",
        "/api/groups/{group}/export/{kind}",
        "A file: `report` (a page), `script` (for `coterie lab`) or `records` (of the journal).",
        _export,
        is_file=True,
    ),
)
