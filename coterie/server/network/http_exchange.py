"""One request to an HTTP port, and its answer: what the ports of control and console share.

Both are ASGI applications (ASGI 3) that answer JSON. Invariants: a request with a foreign Host
header is refused, so that no web page reaches a port through a name of its own (DNS rebinding), and
so is one that a page of another origin has sent; a body has at most `BODY_BYTES`.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, NoReturn
from urllib.parse import unquote

from coterie.server.network.http_access import has_token
from coterie.server.network.http_errors import Refused

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Headers = Mapping[bytes, bytes]

# A thousand records of some kilobytes.
BODY_BYTES = 8 * 1024 * 1024
# So much of a body that is too large is still read, and dropped: clients such as curl read the
# answer only when they have sent all, and a connection that is closed before gives them no reason.
_DROPPED_BYTES = 16 * BODY_BYTES

# An address of the loopback with a port or without one, and nothing else.
_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
JSON_TYPE = "application/json"


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
    content_type: str = JSON_TYPE
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Disconnected(Exception):  # noqa: N818 - the client does not wait any more
    """The client is gone."""


async def send_answer(send: Send, answer: Answer) -> None:
    """Send an answer; the connection ends with it."""
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


def headers_of(scope: Scope) -> Headers:
    """Return the headers of a request; their names are in lower case."""
    return dict(scope["headers"])


def path_segments(scope: Scope) -> list[str]:
    """Return the parts of the path, decoded one by one: a group id may have an escaped slash."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return [unquote(each) for each in raw.decode("latin-1").strip("/").split("/")]


def check_host(headers: Headers) -> None:
    """Check that the Host header is an address of the loopback.

    Raises:
        Refused: it is not.
    """
    host = headers.get(b"host", b"").decode("latin-1")
    if not _HOST.fullmatch(host):
        raise Refused("HostRefused", f"the host '{host}' is not this machine's own address")


def check_origin(headers: Headers) -> None:
    """Check that no page of another origin has sent a request; programs send no Origin.

    Raises:
        Refused: a page has.
    """
    origin = headers.get(b"origin")
    if origin is None:
        return
    host = headers.get(b"host", b"")
    if origin not in (b"http://" + host, b"https://" + host):
        shown = origin.decode("latin-1")
        raise Refused("OriginRefused", f"a page of the origin '{shown}' may not use this port")


def check_token(headers: Headers, token: bytes) -> None:
    """Check the token of a request.

    Raises:
        Refused: it is missing or wrong.
    """
    given = headers.get(b"authorization", b"")
    if not has_token(given, token):
        text = "the token is missing" if not given else "the token is wrong"
        raise Refused("Unauthorized", text, (b"www-authenticate", b"Bearer"))


async def json_body(headers: Headers, receive: Receive) -> dict[str, Any]:
    """Return the JSON object in the body of a request; no body is an empty object.

    Raises:
        Disconnected: the client is gone.
        Refused: the body is too large, or no JSON object.
    """
    data, size = bytearray(), 0
    while size <= _DROPPED_BYTES:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise Disconnected
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
    if headers.get(b"content-type", b"").split(b";")[0].strip().lower() != JSON_TYPE.encode():
        raise Refused("NotJson", "the body is not declared as JSON")
    try:
        parsed = json.loads(bytes(data), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Refused("BadRequest", f"the body is no JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise Refused("BadRequest", "the body is no JSON object")
    return parsed


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


async def unless_disconnected(waiting: Awaitable[Any], receive: Receive) -> Any:
    """Return the result of a wait; end the wait if the client does not wait any more.

    Raises:
        Disconnected: it does not.
    """

    async def wait() -> Any:
        return await waiting

    wanted = asyncio.ensure_future(wait())
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({wanted, gone}, return_when=asyncio.FIRST_COMPLETED)
        if wanted.done():
            return wanted.result()
        raise Disconnected
    finally:
        wanted.cancel()
        gone.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
