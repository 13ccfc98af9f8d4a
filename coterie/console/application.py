"""The console as an ASGI application: who may ask, the rows of the API, the files of the page.

Invariants: without the token nothing but the files of the page is answered, and they have no data;
a request with a foreign Host or of a page of another origin is refused; what changes something is
refused unless the console was started with --allow-changes; every answer has a content security
policy without exceptions; a stream ends when its reader is gone, and a reader that does not read is
not waited for by anybody else.
"""

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl

from coterie.client.errors import ClientError
from coterie.console.api import CONTROL_ROUTES, ROUTES
from coterie.console.document import document
from coterie.console.event import Event, encoded
from coterie.console.hub import Subscription, client_failure, failure_event
from coterie.console.places import Place
from coterie.console.routes import File, Request, Route, values_of
from coterie.console.threads import Threads
from coterie.console.values import check_value
from coterie.server.network.http_application import HttpApplication, json_answer
from coterie.server.network.http_errors import Refused, not_served
from coterie.server.network.http_exchange import (
    Answer,
    Headers,
    Receive,
    Scope,
    Send,
    json_body,
    path_segments,
    unless_disconnected,
)
from coterie.web.modules import COMPONENTS, components

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SECURITY: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
# Neither "." and ".." nor what a file system reads as a separator, a drive or an end.
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    *_SECURITY,
]
# So many requests block at once; a search occupies one while it runs.
THREADS = 40
_SHARED = COMPONENTS.removeprefix("/")


class ConsoleApplication(HttpApplication):
    """The application."""

    remedies = {
        "BadRequest": "correct the request; /openapi.json describes each address",
        "MethodNotAllowed": "use a method of the header Allow",
        "NotFound": "open the address that was printed at the start",
    }
    more_headers = _SECURITY

    def __init__(
        self, place: Place, token: str, report_failure: Callable[[BaseException], None]
    ) -> None:
        """Serve a console.

        Args:
            place: what it looks at.
            token: what the page sends.
            report_failure: called with errors that are bugs of ours.
        """
        super().__init__(token, report_failure)
        self._place = place
        self._threads = Threads(THREADS)
        self._routes = ROUTES if place.control is None else (*ROUTES, *CONTROL_ROUTES)
        self._document = json.dumps(document(self._routes)).encode()

    async def _serve(
        self, scope: Scope, headers: Headers, receive: Receive, send: Send
    ) -> Answer | None:
        segments = path_segments(scope)
        if segments[0] not in ("api", "openapi.json"):
            return _file(scope["method"], "/".join(segments))
        self._check_token(headers)
        if segments == ["openapi.json"]:
            return Answer(200, self._document)
        route, path = _found(self._routes, scope["method"], segments)
        if route.changes and not self._place.allows_changes:
            raise Refused("ReadOnly", "this console is read-only")
        body = await json_body(headers, receive)
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        _check_parameters(route, body if route.method == "POST" else query)
        request = Request(self._place, path, query, body)
        if route.streams:
            await self._stream(route.answer(request), receive, send)
            return None
        waiting = self._threads.run(route.answer, request)
        found = await unless_disconnected(waiting, receive)
        return _saved(found) if isinstance(found, File) else json_answer(found)

    def _failed(self, error: Exception) -> Answer:
        if isinstance(error, ClientError):
            return json_answer(client_failure(error), 502)
        return super()._failed(error)

    async def _stream(
        self, events: Subscription | Iterator[Event], receive: Receive, send: Send
    ) -> None:
        """Send events as they come, until there are no more or the reader is gone."""
        chunks = events if isinstance(events, Subscription) else self._encoded(events)
        start = {"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS}

        async def send_events() -> None:
            await send(start)
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

        try:
            await unless_disconnected(send_events(), receive)
        finally:
            await chunks.aclose()

    async def _encoded(self, events: Iterator[Event]) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(self._threads.iterate(events)) as found:
                async for event in found:
                    yield encoded(event)
        except Exception as error:  # noqa: BLE001 - the reader gets it
            yield encoded(failure_event(error, self._report_failure))


def _saved(file: File) -> Answer:
    disposition = f'attachment; filename="{file.name}"'.encode("ascii")
    return Answer(200, file.body, file.content_type, ((b"content-disposition", disposition),))


def _file(method: str, name: str) -> Answer:
    """Return a file of the page; names are those of the package, so nothing else can be read."""
    if method not in ("GET", "HEAD"):
        raise Refused("MethodNotAllowed", f"{method} is not served", (b"allow", b"GET, HEAD"))
    if name.startswith(_SHARED):
        found, rest = components(), name.removeprefix(_SHARED)
    else:
        found, rest = files("coterie.console") / "assets", name or "index.html"
    for part in rest.split("/"):
        if not _FILE_NAME.fullmatch(part):
            raise Refused("NotFound", f"there is no /{name}")
        found = found / part
    kind = _TYPES.get(name.rpartition(".")[2] or "html") if name else _TYPES["html"]
    if kind is None or not found.is_file():
        raise Refused("NotFound", f"there is no /{name}")
    return Answer(200, found.read_bytes(), kind)


def _found(
    routes: Iterable[Route], method: str, segments: list[str]
) -> tuple[Route, dict[str, str]]:
    allowed: list[str] = []
    for route in routes:
        values = values_of(route, segments)
        if values is None:
            continue
        if route.method == method:
            return route, values
        allowed.append(route.method)
    raise not_served(method, "/" + "/".join(segments), allowed)


def _check_parameters(route: Route, given: Mapping[str, Any]) -> None:
    known = {each.name for each in route.parameters}
    for name in given:
        if name not in known:
            raise Refused("BadRequest", f"{name}: there is no such parameter")
    for each in route.parameters:
        if each.is_required and each.name not in given:
            raise Refused("BadRequest", f"{each.name}: missing")
        # A query has texts only, which its row reads.
        if route.method == "POST" and each.name in given:
            check_value(each.name, given[each.name], each.schema)
