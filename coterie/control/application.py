"""The control port as an ASGI application: who may ask, which operation, its answer.

Invariants: without the token nothing but health, readiness and the documentation is answered; a
request with a foreign Host header is refused, so that no web page reaches the port through a name
of its own (DNS rebinding); a body has at most `BODY_BYTES`; when a client goes away its wait ends.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, NoReturn
from urllib.parse import parse_qsl, unquote

from coterie.control.control import ProcessControl
from coterie.control.errors import Refused, failure_of
from coterie.control.openapi import document
from coterie.control.operations import (
    BROKER,
    MAX_WAIT_S,
    WAIT_PARAMETER,
    ControlOperation,
    Parameter,
    Table,
    operations_of,
)
from coterie.control.page import Page, page
from coterie.control.shapes import BadValue, decode_fields
from coterie.control.special_shapes import new_shapes
from coterie.server.network.http_access import has_token

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

# A thousand records of some kilobytes.
BODY_BYTES = 8 * 1024 * 1024
# So much of a body that is too large is still read, and dropped: clients such as curl read the
# answer only when they have sent all, and a connection that is closed before gives them no reason.
_DROPPED_BYTES = 16 * BODY_BYTES

_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_JSON = "application/json"
# No number of the API has more digits than one of 64 bits; Python refuses some that are very long.
_INTEGER = re.compile(r"-?[0-9]{1,20}")


class Answer(NamedTuple):
    """A response.

    Attributes:
        status: its HTTP status.
        body: its body.
        content_type: of the body.
        headers: further headers.
    """

    status: int
    body: bytes
    content_type: str = _JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class _Disconnected(Exception):  # noqa: N818 - the client does not wait any more
    pass


class ControlApplication:
    """The ASGI application (ASGI 3)."""

    def __init__(
        self,
        control: ProcessControl,
        token: str,
        table: Table = BROKER,
        *,
        is_local: bool = True,
        when_closed: Callable[[], None] = lambda: None,
        report_failure: Callable[[BaseException], None] = lambda _: None,
    ) -> None:
        """Serve the operations of a broker.

        Args:
            control: the broker, or several.
            token: what clients send to be served.
            table: the operations.
            is_local: whether the port is that of the loopback, so that the Host header is checked.
            when_closed: called after the answer to the request that closed the broker.
            report_failure: called with errors that are bugs of ours.
        """
        self._control = control
        self._token = token.encode()
        self._is_local = is_local
        self._when_closed = when_closed
        self._report_failure = report_failure
        shapes = new_shapes()
        self.operations = operations_of(shapes, table)
        self.document = document(self.operations, shapes)
        self._pages = {
            "/openapi.json": Answer(200, json.dumps(self.document).encode()),
            "/docs": _html(page(self.operations)),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            answer = await self._answer(scope, receive)
        except _Disconnected:
            return
        head = [
            (b"content-type", answer.content_type.encode()),
            (b"content-length", b"%d" % len(answer.body)),
            (b"connection", b"close"),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
            *answer.headers,
        ]
        await send({"type": "http.response.start", "status": answer.status, "headers": head})
        await send({"type": "http.response.body", "body": answer.body})
        if self._control.is_closed:
            self._when_closed()

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        try:
            return await self._permitted(scope, receive)
        except (_Disconnected, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - every error is an answer
            status, body = failure_of(error)
            if status == 500:
                self._report_failure(error)
            headers = error.headers if isinstance(error, Refused) else ()
            return Answer(status, json.dumps(body).encode(), headers=headers)

    async def _permitted(self, scope: Scope, receive: Receive) -> Answer:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if self._is_local:
            _check_host(headers.get(b"host", b"").decode("latin-1"))
        found = self._pages.get(scope["path"])
        if found is not None and scope["method"] == "GET":
            return found
        path = [unquote(each) for each in _raw_path(scope).strip("/").split("/")]
        operation = self._find(scope["method"], path, scope["path"])
        if not operation.row.is_open:
            self._check_token(headers.get(b"authorization", b""))
        body = await _body(headers, receive)
        values = [
            value for value, name in zip(path, operation.segments, strict=True) if name is None
        ]
        arguments = _arguments(operation, values, scope["query_string"].decode("latin-1"), body)
        return await self._perform(operation, arguments, receive)

    def _check_token(self, given: bytes) -> None:
        if not has_token(given, self._token):
            text = "the token is missing" if not given else "the token is wrong"
            raise Refused("Unauthorized", text, (b"www-authenticate", b"Bearer"))

    def _find(self, method: str, path: list[str], shown: str) -> ControlOperation:
        matching = [each for each in self.operations if _matches(each, path)]
        for operation in matching:
            if operation.row.method == method:
                return operation
        if not matching:
            raise Refused("NotFound", f"there is no {shown}")
        allowed = ", ".join(each.row.method for each in matching)
        text = f"{method} is not served at {shown}, only {allowed}"
        raise Refused("MethodNotAllowed", text, (b"allow", allowed.encode()))

    async def _perform(
        self, operation: ControlOperation, arguments: dict[str, Any], receive: Receive
    ) -> Answer:
        """Call the method of an operation; wait for its end, unless the client goes away."""
        subject = self._control.subject(operation.subject, arguments)
        if operation.waits:
            result = await _unless_disconnected(operation.calls(subject, arguments), receive)
        else:
            result = await asyncio.to_thread(operation.calls, subject, arguments)
        show = operation.row.show
        if show is not None:
            result = await asyncio.to_thread(show, self._control, result)
        return Answer(200, json.dumps(operation.result.encode(result)).encode())


def _html(shown: Page) -> Answer:
    policy = (b"content-security-policy", shown.policy.encode())
    return Answer(200, shown.html.encode(), "text/html; charset=utf-8", (policy,))


def _check_host(host: str) -> None:
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    if name.lower() not in _HOSTS:
        raise Refused("HostRefused", f"the host '{host}' is not this machine's own address")


def _raw_path(scope: Scope) -> str:
    """Return the path without decoding, in which a group id may have an escaped slash."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.decode("latin-1")


def _matches(operation: ControlOperation, path: list[str]) -> bool:
    segments = operation.segments
    return len(segments) == len(path) and all(
        wanted in (None, given) and given for wanted, given in zip(segments, path, strict=True)
    )


async def _body(headers: Mapping[bytes, bytes], receive: Receive) -> dict[str, Any]:
    """Return the JSON object in the body of a request; no body is an empty object."""
    data, size = bytearray(), 0
    while size <= _DROPPED_BYTES:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise _Disconnected
        part = event.get("body", b"")
        size += len(part)
        if size <= BODY_BYTES:
            data += part
        if not event.get("more_body"):
            break
    if size > BODY_BYTES:
        raise Refused("BodyTooLarge", f"a body has at most {BODY_BYTES} bytes")
    if not data:
        return {}
    if headers.get(b"content-type", b"").split(b";")[0].strip().lower() != _JSON.encode():
        raise Refused("NotJson", "the body is not declared as JSON")
    try:
        parsed = json.loads(bytes(data), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Refused("BadRequest", f"the body is no JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise Refused("BadRequest", "the body is no JSON object")
    return parsed


def _arguments(
    operation: ControlOperation, path: list[str], query: str, body: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a request, decoded.

    Raises:
        Refused: a field is unknown, missing or wrong; the text names it.
    """
    given: dict[str, Any] = dict(zip(operation.variables, path, strict=True))
    fields = {each.name: each for each in operation.all_parameters}
    asked = dict(parse_qsl(query, keep_blank_values=True))
    sources = {"path": given, "query": asked, "body": body}
    found: dict[str, Any] = {}
    try:
        for place, source in sources.items():
            here = {name: each for name, each in fields.items() if each.place == place}
            if place != "body":
                source = {
                    name: _from_text(here[name], value) if name in here else value
                    for name, value in source.items()
                }
            shapes = {name: each.shape for name, each in here.items()}
            required = [name for name, each in here.items() if each.is_required]
            found |= decode_fields(source, "", shapes, required)
    except BadValue as error:
        raise Refused("BadRequest", str(error)) from None
    if found.get(WAIT_PARAMETER, 0) > MAX_WAIT_S:
        text = f"{WAIT_PARAMETER}: at most {MAX_WAIT_S:g}; ask again to wait longer"
        raise Refused("BadRequest", text)
    return found


def _from_text(parameter: Parameter, text: str) -> Any:
    """Return a value of the path or query as JSON: a number where one is wanted."""
    is_text = any(part == {"type": "string"} for part in parameter.shape.alternatives)
    if is_text or not _INTEGER.fullmatch(text):
        return text
    return int(text)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


async def _unless_disconnected(waiting: Awaitable[Any], receive: Receive) -> Any:
    """Return the result of a wait; end the wait if the client does not wait any more."""

    async def wait() -> Any:
        return await waiting

    wanted = asyncio.ensure_future(wait())
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({wanted, gone}, return_when=asyncio.FIRST_COMPLETED)
        if wanted.done():
            return wanted.result()
        raise _Disconnected
    finally:
        wanted.cancel()
        gone.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
