"""Records: a page of them, one as a whole, and those with a text."""

from collections.abc import Iterator
from typing import Any

from coterie.console.api.parameters import (
    choice,
    choice_of,
    flag,
    flag_of,
    number_in,
    number_of,
    whole_number,
)
from coterie.console.event import Event
from coterie.console.records.matching import PARTS, Matcher, Query
from coterie.console.records.page import (
    DEFAULT_ROWS,
    MOST_ROWS,
    Wanted,
    parsed_cursor,
    records_page,
    whole_record,
)
from coterie.console.records.search import DEFAULT_FINDINGS, MOST_FINDINGS, Scope, Search
from coterie.console.records.tail import MOST_TAILS, Tail
from coterie.console.routes import Parameter, Request, Route
from coterie.server.network.http_errors import Refused

_PARTITION = whole_number("partition", "Only this partition.", (1 << 31) - 1)
_ORDER = choice("order", "The newest first, or the oldest.", ("newest", "oldest"))
_OFFSET = whole_number("offset", "Records from this offset of the partition on, the oldest first.")
_AT = whole_number(
    "at_ms", "Records from this time on, the oldest first; before it, the newest first."
)
_CURSOR = Parameter("cursor", "The cursor of the page before; the order has to be the same.")
_LIMIT = whole_number("limit", "The most records.", MOST_ROWS, DEFAULT_ROWS)
_ISOLATION = choice(
    "isolation",
    "Whether records of aborted and undecided transactions, and markers, are left out.",
    ("read_uncommitted", "read_committed"),
)

_TEXT = Parameter("text", "A text that keys, values or headers have.")
_PATH = Parameter("path", "A place in the JSON of keys or values, such as items[0].sku.")
_EQUALS = Parameter("equals", "What is at that place: a text, a number, true, false or null.")
_FIRST = choice("order", "Which of a partition are found first.", ("oldest", "newest"))
_IN = Parameter("in", "Where, with commas: key, value, headers.", {"type": "string"})
_PATTERN = flag("pattern", "Whether the text is a regular expression of RE2.")
_IGNORE_CASE = flag("ignore_case", "Whether the case of letters does not matter.")
_SINCE = whole_number("since_ms", "Only records from this time on.")
_FINDINGS = whole_number("limit", "The most records.", MOST_FINDINGS, DEFAULT_FINDINGS)
_SOUGHT = (_TEXT, _PATH, _EQUALS, _IN, _PATTERN, _IGNORE_CASE)


def _records(request: Request) -> dict[str, Any]:
    query = request.query
    order, cursor = choice_of(query, _ORDER), query.get(_CURSOR.name)
    partition, offset = number_of(query, _PARTITION), number_of(query, _OFFSET)
    at_ms = number_of(query, _AT)
    if sum(each is not None for each in (offset, at_ms, cursor)) > 1:
        raise Refused("BadRequest", "offset, at_ms, cursor: give one of them")
    positions = None if cursor is None else parsed_cursor(cursor)
    if offset is not None:
        if partition is None:
            raise Refused("BadRequest", "offset: it needs a partition")
        positions, order = {partition: offset}, "oldest"
    wanted = Wanted(
        topic=request.path["topic"],
        partition=partition,
        newest_first=order == "newest",
        positions=positions,
        at_ms=at_ms,
        only_committed=choice_of(query, _ISOLATION) == "read_committed",
        limit=max(1, number_of(query, _LIMIT) or 0),
    )
    with request.place.cluster() as cluster:
        return records_page(cluster, wanted, request.place.registry)


def _record(request: Request) -> dict[str, Any]:
    path = request.path
    partition = number_in("partition", path["partition"], _PARTITION.schema["maximum"])
    offset = number_in("offset", path["offset"])
    with request.place.cluster() as cluster:
        return whole_record(cluster, path["topic"], partition, offset, request.place.registry)


def _matcher(request: Request) -> Matcher:
    query = request.query
    given = query.get(_IN.name, ",".join(PARTS)).split(",")
    if not set(given) <= set(PARTS):
        raise Refused("BadRequest", f"in: parts of a record are {', '.join(PARTS)}")
    for each in (_TEXT, _PATH):
        if query.get(each.name) == "":
            raise Refused("BadRequest", f"{each.name}: it is empty")
    path, equals = query.get(_PATH.name, ""), query.get(_EQUALS.name)
    if equals is not None and not path:
        raise Refused("BadRequest", "equals: it needs a path")
    found = Query(
        text=query.get(_TEXT.name, ""),
        is_pattern=flag_of(query, _PATTERN),
        ignores_case=flag_of(query, _IGNORE_CASE),
        parts=tuple(given),
        path=path,
        equals=equals,
        only_committed=choice_of(query, _ISOLATION) == "read_committed",
    )
    return Matcher(found, request.place.registry)


def _search(request: Request) -> Iterator[Event]:
    query, matcher = request.query, _matcher(request)
    if not (matcher.query.text or matcher.query.path):
        raise Refused("BadRequest", "text, path: give one of them")
    scope = Scope(
        topic=request.path["topic"],
        partition=number_of(query, _PARTITION),
        since_ms=number_of(query, _SINCE),
        limit=max(1, number_of(query, _FINDINGS) or 0),
        newest_first=choice_of(query, _FIRST) == "newest",
    )
    return _events(request, Search(matcher, scope))


def _tail(request: Request) -> Iterator[Event]:
    partition = number_of(request.query, _PARTITION)
    return _watched(request, Tail(request.path["topic"], partition, _matcher(request)))


def _watched(request: Request, tail: Tail) -> Iterator[Event]:
    tails = request.place.tails
    if not tails.acquire(blocking=False):
        raise Refused("TooMany", f"{MOST_TAILS} readers watch records already")
    try:
        yield from _events(request, tail)
    finally:
        tails.release()


def _events(request: Request, found: Search | Tail) -> Iterator[Event]:
    with request.place.cluster() as cluster:
        for name, data in found.events(cluster):
            yield Event(name, data)


ROUTES = (
    Route(
        "GET",
        "/api/topics/{topic}/records",
        "A page of the records of a topic, with the cursor of the next one.",
        _records,
        (_PARTITION, _ORDER, _OFFSET, _AT, _CURSOR, _LIMIT, _ISOLATION),
    ),
    Route(
        "GET",
        "/api/topics/{topic}/records/{partition}/{offset}",
        "One record with all of its bytes.",
        _record,
    ),
    Route(
        "GET",
        "/api/topics/{topic}/search",
        "Records with a text or a field: events `records`, `progress` and at last `end`.",
        _search,
        (*_SOUGHT, _PARTITION, _SINCE, _FIRST, _ISOLATION, _FINDINGS),
        streams=True,
    ),
    Route(
        "GET",
        "/api/topics/{topic}/tail",
        "Records as they are written: events `records` (with `skipped`, those that came too fast),"
        " `progress`, and `end` after ten minutes.",
        _tail,
        (*_SOUGHT, _PARTITION, _ISOLATION),
        streams=True,
    ),
)
