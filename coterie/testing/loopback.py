"""Requests of a test to its broker, over a connection in memory.

They meet the same handlers as those of clients. Faults do not apply to them, and they are not among
the recorded requests.
"""

import asyncio
from typing import Any, TypeVar

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.frames import FrameBuffer, decode_response, encode_request
from coterie.protocol.wire import Message
from coterie.server.broker import Broker
from coterie.server.network.routes import Routes

R = TypeVar("R", bound=Message)

CLIENT_ID = "coterie-testing"
_CORRELATION_ID = 1


class _Transport(asyncio.Transport):
    """The test's end of a connection: keeps the frames that the broker writes."""

    def __init__(self, answered: "asyncio.Future[bytes]") -> None:
        super().__init__()
        self._answered = answered
        self._frames = FrameBuffer()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 0) if name == "peername" else default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._frames.append(bytes(data))
        frame = self._frames.next_frame()
        if frame is not None:
            self._answered.set_result(frame)

    def close(self) -> None:
        if not self._answered.done():
            self._answered.set_exception(ConnectionError("the broker has closed the connection"))
        self._protocol.connection_lost(None)

    abort = close


async def ask(broker: Broker, request: Message, response_class: type[R]) -> R:
    """Return the broker's response to a request, in the highest version that it serves."""
    api_key = type(request).api_key
    assert api_key is not None, "a request has an API key"
    version = SERVED_VERSIONS[ApiKey(api_key)][1]
    answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    connection = broker.accept(_Transport(answered))
    # Without the faults that are laid over the broker's table.
    connection.routes = Routes()
    connection.data_received(encode_request(request, version, _CORRELATION_ID, CLIENT_ID))
    try:
        return decode_response(response_class, await answered, version)[1]
    finally:
        connection.close_quietly()
