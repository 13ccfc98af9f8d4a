"""Requests to a console as bytes, so that a test can send what no client library sends."""

import json
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple

from coterie.address import Address
from coterie.console.routes import Route
from coterie.console.serving import ConsoleServer

# A console answers in milliseconds; a machine that is busy takes longer.
LIMIT_S = 30.0


class Answered(NamedTuple):
    """A response; the names of its headers are in lower case, and `lines` are all of them."""

    status: int
    lines: list[tuple[str, str]]
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        """Its headers by name."""
        return dict(self.lines)

    @property
    def json(self) -> Any:
        """Its body."""
        return json.loads(self.body)


def head(method: str, path: str, headers: Mapping[str, str]) -> bytes:
    """Return the first bytes of a request; a header with an empty value is left out."""
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {each}" for name, each in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def ask(
    console: ConsoleServer,
    method: str,
    path: str,
    body: Any = None,
    *,
    headers: Mapping[str, str | None] | None = None,
) -> Answered:
    """Return the answer to a request, which has the token unless `headers` replaces it.

    Args:
        console: the console.
        method, path: of the request.
        body: JSON, or bytes as they are.
        headers: further ones, or others; None leaves one out.
    """
    content = (
        b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    )
    sent: dict[str, str | None] = {
        "Host": str(console.address),
        "Authorization": f"Bearer {console.token}",
        "Content-Length": str(len(content)),
        "Content-Type": "application/json" if content else None,
        **(headers or {}),
    }
    given = {name: each for name, each in sent.items() if each is not None}
    return exchange(console.address, head(method, path, given) + content)


def exchange(address: Address, request: bytes) -> Answered:
    """Send bytes, and return the answer."""
    with socket.create_connection(address, timeout=LIMIT_S) as connection:
        connection.sendall(request)
        return answer_of(received(connection))


def received(connection: socket.socket) -> bytes:
    """Return all bytes until the console closes the connection."""
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def answer_of(data: bytes) -> Answered:
    """Return a response that is complete."""
    first, _, body = data.partition(b"\r\n\r\n")
    status, *lines = first.decode("latin-1").split("\r\n")
    pairs = [line.partition(":") for line in lines]
    named = [(name.lower(), value.strip()) for name, _, value in pairs]
    return Answered(int(status.split()[1]), named, body)


def path_of(route: Route) -> str:
    """Return an address of a row, with a name in each brace."""
    return "/".join("x" if part.startswith("{") else part for part in route.path.split("/"))


def body_of(route: Route) -> dict[str, Any] | None:
    """Return a body with what a row requires."""
    if route.method != "POST":
        return None
    return {each.name: "x" for each in route.parameters if each.is_required}
