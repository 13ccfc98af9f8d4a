"""The control port as an ASGI application: who may ask, which operation, its answer.

Invariants: without the token nothing but health, readiness and the documentation is answered; a
request with a foreign Host header is refused, so that no web page reaches the port through a name
of its own (DNS rebinding); a body has at most `BODY_BYTES`; when a client goes away its wait ends.
"""

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from coterie.control.control import ProcessControl
from coterie.control.errors import RAISED
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
from coterie.control.shapes import decode_fields
from coterie.control.special_shapes import new_shapes
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
from coterie.server.network.json_values import BadValue

# No number of the API has more digits than one of 64 bits; Python refuses some that are very long.
_INTEGER = re.compile(r"-?[0-9]{1,20}")


class ControlApplication(HttpApplication):
    """The application."""

    raised = RAISED

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
        super().__init__(token, report_failure, is_local=is_local)
        self._control = control
        self._when_closed = when_closed
        shapes = new_shapes()
        self.operations = operations_of(shapes, table)
        self.document = document(self.operations, shapes)
        self._pages = {
            "/openapi.json": Answer(200, json.dumps(self.document).encode()),
            "/docs": _html(page(self.operations)),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await super().__call__(scope, receive, send)
        if self._control.is_closed:
            self._when_closed()

    async def _serve(
        self,
        scope: Scope,
        headers: Headers,
        receive: Receive,
        send: Send,  # noqa: ARG002 - answers have one part
    ) -> Answer:
        found = self._pages.get(scope["path"])
        if found is not None and scope["method"] == "GET":
            return found
        path = path_segments(scope)
        operation = self._find(scope["method"], path, scope["path"])
        if not operation.row.is_open:
            self._check_token(headers)
        body = await json_body(headers, receive)
        values = [
            value for value, name in zip(path, operation.segments, strict=True) if name is None
        ]
        arguments = _arguments(operation, values, scope["query_string"].decode("latin-1"), body)
        return await self._perform(operation, arguments, receive)

    def _find(self, method: str, path: list[str], shown: str) -> ControlOperation:
        matching = [each for each in self.operations if _matches(each, path)]
        for operation in matching:
            if operation.row.method == method:
                return operation
        raise not_served(method, shown, [each.row.method for each in matching])

    async def _perform(
        self, operation: ControlOperation, arguments: dict[str, Any], receive: Receive
    ) -> Answer:
        """Call the method of an operation; wait for its end, unless the client goes away."""
        subject = self._control.subject(operation.subject, arguments)
        if operation.waits:
            result = await unless_disconnected(operation.calls(subject, arguments), receive)
        else:
            result = await asyncio.to_thread(operation.calls, subject, arguments)
        return json_answer(await asyncio.to_thread(operation.shown, self._control, result))


def _html(shown: Page) -> Answer:
    policy = (b"content-security-policy", shown.policy.encode())
    return Answer(200, shown.html.encode(), "text/html; charset=utf-8", (policy,))


def _matches(operation: ControlOperation, path: list[str]) -> bool:
    segments = operation.segments
    return len(segments) == len(path) and all(
        wanted in (None, given) and given for wanted, given in zip(segments, path, strict=True)
    )


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
