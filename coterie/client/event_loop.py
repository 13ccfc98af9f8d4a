"""Connections of an event loop that are secured as those of the blocking client.

For what has its own ideas of requests: checks, replays and the proxy [client/mechanisms].
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from coterie.address import Address
from coterie.client.security import PLAINTEXT, Security
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.frames import FrameBuffer, decode_response, encode_request

P = TypeVar("P", bound=asyncio.Protocol)

_CLIENT_ID = "coterie"


async def connect(factory: Callable[[], P], address: Address, security: Security) -> P:
    """Return the protocol of a new connection that has logged in.

    Args:
        factory: makes the protocol, as for `create_connection`.
        address: of the broker.
        security: how the connection is secured.

    Raises:
        OSError: the broker cannot be reached, or its certificate is not accepted.
        ClientError: the login fails.
    """
    loop = asyncio.get_running_loop()
    context = security.context
    host = None if context is None else address.host
    if not security.mechanism:
        _, made = await loop.create_connection(
            factory, address.host, address.port, ssl=context, server_hostname=host
        )
        return made
    transport, login = await loop.create_connection(
        _Login, address.host, address.port, ssl=context, server_hostname=host
    )
    try:
        await login.run(transport, address, security)
    except BaseException:
        transport.abort()
        raise
    protocol = factory()
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    return protocol


async def open_streams(
    address: Address, security: Security = PLAINTEXT
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return the streams of a new connection that has logged in; see `connect`."""
    if security is PLAINTEXT:
        return await asyncio.open_connection(*address)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    transports: list[asyncio.BaseTransport] = []

    class Streams(asyncio.StreamReaderProtocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transports.append(transport)
            super().connection_made(transport)

    protocol = await connect(lambda: Streams(reader, loop=loop), address, security)
    transport = transports[0]
    assert isinstance(transport, asyncio.WriteTransport), transport
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class _Login(asyncio.Protocol):
    """The protocol of a connection until it has logged in."""

    def __init__(self) -> None:
        self._frames = FrameBuffer()
        self._arrived: asyncio.Queue[bytes | None] = asyncio.Queue()

    def data_received(self, data: bytes) -> None:
        self._frames.append(data)
        try:
            while (frame := self._frames.next_frame()) is not None:
                self._arrived.put_nowait(frame)
        except MalformedFrame:
            self._arrived.put_nowait(None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._arrived.put_nowait(None)

    async def run(self, transport: asyncio.Transport, address: Address, security: Security) -> None:
        """Log in.

        Raises:
            ConnectionError: the broker closed the connection.
            ClientError: the login fails.
        """
        # Imported here, because plain connections do without.
        from coterie.client.client_properties import credentials_of
        from coterie.client.login import requests

        if security.token_endpoint:
            credentials = await asyncio.to_thread(credentials_of, security)
        else:
            credentials = credentials_of(security)
        login = requests(credentials, f"The broker at {address}")
        number = 0
        try:
            step = next(login)
            while True:
                number += 1
                transport.write(encode_request(step.message, step.version, number, _CLIENT_ID))
                frame = await self._arrived.get()
                if frame is None:
                    raise ConnectionResetError("the broker closed the connection at the login")
                step = login.send(decode_response(step.response, frame, step.version)[1])
        except StopIteration:
            return
