"""The console as an ASGI application: who may ask, the rows of the API, the files of the page.

Invariants: without the token nothing but the files of the page is answered, and they have no data;
a request with a foreign Host or of a page of another origin is refused; what changes something is
refused unless the console was started with --allow-changes; every answer has a content security
policy without exceptions; a stream ends when its reader is gone, and a reader that does not read is
not waited for by anybody else.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl

from coterie.client.errors import ClientError
from coterie.console.api import ROUTES
from coterie.console.document import document
from coterie.console.places import Place
from coterie.console.routes import Event, Request, Route, values_of
from coterie.console.values import check_value
from coterie.server.network.http_errors import Refused, failure_of
from coterie.server.network.http_exchange import (
    JSON_TYPE,
    Answer,
    Disconnected,
    Receive,
    Scope,
    Send,
    check_host,
    check_origin,
    check_token,
    headers_of,
    json_body,
    path_segments,
    send_answer,
    unless_disconnected,
)

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
# So many requests block at once; a stream occupies one while its page is open.
THREADS = 40
_END = object()


class ConsoleApplication:
    """The ASGI application (ASGI 3)."""

    def __init__(
        self, place: Place, token: str, report_failure: Callable[[BaseException], None]
    ) -> None:
        """Serve a console.

        Args:
            place: what it looks at.
            token: what the page sends.
            report_failure: called with errors that are bugs of ours.
        """
        self._place = place
        self._token = token.encode()
        self._report_failure = report_failure
        self._threads = ThreadPoolExecutor(THREADS, "coterie-console")
        self._document = json.dumps(document(ROUTES)).encode()

    def close(self) -> None:
        """End the threads; streams have been cut by then."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            answer = await self._answer(scope, receive, send)
        except Disconnected:
            return
        if answer is not None:
            headers = (*answer.headers, *_SECURITY)
            await send_answer(send, answer._replace(headers=headers))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> Answer | None:
        try:
            return await self._permitted(scope, receive, send)
        except (Disconnected, asyncio.CancelledError):
            raise
        except ClientError as error:
            return _json(502, _client_failure(error))
        except Exception as error:  # noqa: BLE001 - every error is an answer
            status, body = failure_of(error, {})
            if status == 500:
                self._report_failure(error)
            headers = error.headers if isinstance(error, Refused) else ()
            return _json(status, body, headers)

    async def _permitted(self, scope: Scope, receive: Receive, send: Send) -> Answer | None:
        headers = headers_of(scope)
        check_host(headers)
        check_origin(headers)
        segments = path_segments(scope)
        if segments[0] not in ("api", "openapi.json"):
            return _file(scope["method"], "/".join(segments))
        check_token(headers, self._token)
        if segments == ["openapi.json"]:
            return Answer(200, self._document)
        route, path = _found(scope["method"], segments)
        if route.changes and not self._place.allows_changes:
            raise Refused("ReadOnly", "this console is read-only")
        body = await json_body(headers, receive)
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        _check_parameters(route, body if route.method == "POST" else query)
        request = Request(self._place, path, query, body)
        if route.streams:
            await self._stream(route.answer(request), receive, send)
            return None
        loop = asyncio.get_running_loop()
        waiting = loop.run_in_executor(self._threads, route.answer, request)
        return _json(200, await unless_disconnected(waiting, receive))

    async def _stream(self, events: Iterator[Event], receive: Receive, send: Send) -> None:
        """Send events as they come, until there are no more or the reader is gone."""
        head = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
            *_SECURITY,
        ]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        try:
            await unless_disconnected(self._send_events(events, send), receive)
        except Disconnected:
            return
        await send({"type": "http.response.body", "body": b""})

    async def _send_events(self, events: Iterator[Event], send: Send) -> None:
        async for each in self._in_thread(events):
            text = f"event: {each.name}\ndata: {json.dumps(each.data)}\n\n"
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})

    async def _in_thread(self, events: Iterator[Event]) -> AsyncIterator[Event]:
        loop = asyncio.get_running_loop()
        try:
            while True:
                waiting = loop.run_in_executor(self._threads, next, events, _END)
                event = await waiting
                if event is _END:
                    return
                assert isinstance(event, Event)
                yield event
        except ClientError as error:
            yield Event("error", _client_failure(error))
        except Exception as error:  # noqa: BLE001 - every error is an answer
            self._report_failure(error)
            yield Event("error", failure_of(error, {}).body)


def _json(status: int, body: Any, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Answer:
    return Answer(status, json.dumps(body).encode(), JSON_TYPE, headers)


def _client_failure(error: ClientError) -> Mapping[str, Any]:
    return {"error": error.cause, "remedy": error.remedy, "kind": type(error).__name__}


def _file(method: str, name: str) -> Answer:
    """Return a file of the page; names are those of the package, so nothing else can be read."""
    if method not in ("GET", "HEAD"):
        raise Refused("MethodNotAllowed", f"{method} is not served", (b"allow", b"GET, HEAD"))
    found = files("coterie.console") / "assets"
    for part in (name or "index.html").split("/"):
        if not _FILE_NAME.fullmatch(part):
            raise Refused("NotFound", f"there is no /{name}")
        found = found / part
    kind = _TYPES.get(name.rpartition(".")[2] or "html") if name else _TYPES["html"]
    if kind is None or not found.is_file():
        raise Refused("NotFound", f"there is no /{name}")
    return Answer(200, found.read_bytes(), kind)


def _found(method: str, segments: list[str]) -> tuple[Route, dict[str, str]]:
    allowed: list[str] = []
    for route in ROUTES:
        values = values_of(route, segments)
        if values is None:
            continue
        if route.method == method:
            return route, values
        allowed.append(route.method)
    shown = "/" + "/".join(segments)
    if not allowed:
        raise Refused("NotFound", f"there is no {shown}")
    names = ", ".join(allowed)
    text = f"{method} is not served at {shown}, only {names}"
    raise Refused("MethodNotAllowed", text, (b"allow", names.encode()))


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
