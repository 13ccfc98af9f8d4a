"""Single requests to a broker, for what no client library sends."""

import socket
from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import response_class
from coterie.protocol.frames import decode_response, encode_request

_LIMIT_S = 60.0


def ask(bootstrap: str, request: Any, version: int) -> Any:
    """Send one request on a connection of its own; return the response."""
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=_LIMIT_S) as connection:
        connection.sendall(encode_request(request, version, 1, "interop"))
        with connection.makefile("rb") as stream:
            size = int.from_bytes(stream.read(4))
            frame = stream.read(size)
    _, answer = decode_response(response_class(ApiKey(type(request).api_key)), frame, version)
    return answer
