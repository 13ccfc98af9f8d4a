"""A proxy between clients and any Kafka broker, which records what passes [recording/proxy].

Clients stay on the proxy: where a response names a broker, the proxy listens for it on a port of
its own and puts that address there. Everything else passes unchanged, also what it cannot decode.
"""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections import deque
from typing import TYPE_CHECKING

from coterie.address import LOOPBACK, Address
from coterie.client.errors import ClientError
from coterie.client.event_loop import open_streams
from coterie.client.security import PLAINTEXT, Security
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.frames import MAX_FRAME_BYTES
from coterie.recording.addresses import (
    address_of,
    addressed_response,
    capped_versions,
    node_id_of,
)
from coterie.recording.recorder import Recorder
from coterie.recording.redaction import RequestStart, request_start

if TYPE_CHECKING:
    from coterie.server.logging import Logger

_LENGTH_BYTES = 4
_CONNECT_LIMIT_S = 10.0
# Requests that may have no response, such as Produce with acks=0, are forgotten at last.
_AWAITED_REQUESTS = 10_000


class Proxy:
    """A proxy for all brokers of one cluster."""

    def __init__(
        self,
        upstream: Address,
        recorder: Recorder | None,
        log: "Logger",
        security: Security = PLAINTEXT,
    ) -> None:
        """Prepare.

        Args:
            upstream: the broker that clients of the first port reach.
            recorder: what records; None to record nothing.
            log: the logger.
            security: how connections to brokers are secured; the proxy logs in for its clients.
        """
        self._upstream = upstream
        self._security = security
        self._recorder = recorder
        self._log = log
        self._listen = Address("", 0)
        self._servers: list[asyncio.Server] = []
        # The address of each other broker, and the port on which the proxy listens for it.
        self._ports: dict[Address, int] = {}
        self._opening = asyncio.Lock()
        self._links: set[asyncio.Task[None]] = set()

    async def start(self, listen: Address) -> Address:
        """Listen for clients; return the address with its real port.

        Raises:
            OSError: the address cannot be used.
        """
        port = await self._serve(listen.host, listen.port, self._upstream)
        self._listen = Address(listen.host, port)
        return self._listen

    async def stop(self) -> None:
        """Stop listening and close all connections."""
        for server in self._servers:
            server.close()
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    async def port_for(self, broker: Address) -> int:
        """Return the port of the proxy that leads to a broker; it listens there from now on."""
        if _are_same(broker, self._upstream):
            return self._listen.port
        async with self._opening:
            if broker not in self._ports:
                self._ports[broker] = await self._open(broker)
                self._log.info("broker found", broker=str(broker), port=self._ports[broker])
            return self._ports[broker]

    async def _open(self, broker: Address) -> int:
        """Listen on the next port; on any other one if it is taken."""
        host = self._listen.host
        try:
            return await self._serve(host, self._listen.port + len(self._ports) + 1, broker)
        except (OSError, OverflowError):
            return await self._serve(host, 0, broker)

    async def _serve(self, host: str, port: int, broker: Address) -> int:
        async def accepted(reader: StreamReader, writer: StreamWriter) -> None:
            link = asyncio.current_task()
            assert link is not None, "a connection is served by a task"
            self._links.add(link)
            try:
                await self._connect(reader, writer, broker)
            finally:
                self._links.discard(link)
                writer.close()

        server = await asyncio.start_server(accepted, host, port)
        self._servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def _connect(self, reader: StreamReader, writer: StreamWriter, broker: Address) -> None:
        try:
            async with asyncio.timeout(_CONNECT_LIMIT_S):
                upstream_reader, upstream_writer = await open_streams(broker, self._security)
        except (OSError, ClientError) as error:
            # A timeout is an OSError, too.
            reason = getattr(error, "strerror", None) or str(error) or "it does not answer"
            self._log.error("broker not reached", broker=str(broker), reason=reason)
            return
        link = _Link(self, self._recorder, writer, upstream_writer)
        pumps = [
            asyncio.create_task(link.pass_requests(reader)),
            asyncio.create_task(link.pass_responses(upstream_reader)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            for found in await asyncio.gather(*pumps, return_exceptions=True):
                if isinstance(found, Exception) and not isinstance(found, ConnectionError):
                    self._log.error("connection failed", peer=link.peer, reason=str(found))
            upstream_writer.close()
            link.end()


class _Link:
    """A client, the proxy and a broker."""

    def __init__(
        self,
        proxy: Proxy,
        recorder: Recorder | None,
        client: StreamWriter,
        broker: StreamWriter,
    ) -> None:
        self._proxy = proxy
        self._recorder = recorder
        self._client = client
        self._broker = broker
        self._host: str = client.get_extra_info("sockname")[0]
        self.peer = str(Address(*client.get_extra_info("peername")[:2]))
        self._number = 0 if recorder is None else recorder.opened(self.peer)
        # The requests that may still be answered; None for a token of SASL.
        self._awaited: deque[RequestStart | None] = deque(maxlen=_AWAITED_REQUESTS)

    def end(self) -> None:
        """Note the end of the connection."""
        if self._recorder is not None:
            self._recorder.closed(self._number)

    async def pass_requests(self, reader: StreamReader) -> None:
        """Pass requests on until the client ends the connection."""
        while (frame := await _next_frame(reader)) is not None:
            self._record(frame, by_client=True)
            self._awaited.append(request_start(frame))
            await _send(self._broker, frame)

    async def pass_responses(self, reader: StreamReader) -> None:
        """Pass responses on, with other addresses, until the broker ends the connection."""
        while (frame := await _next_frame(reader)) is not None:
            request = self._request_of(frame)
            if request is not None:
                frame = await self._with_own_addresses(frame, request)
            self._record(frame, by_client=False)
            await _send(self._client, frame)

    def _record(self, frame: bytes, *, by_client: bool) -> None:
        if self._recorder is not None:
            data = len(frame).to_bytes(_LENGTH_BYTES) + frame
            self._recorder.sent(self._number, data, by_client=by_client)

    def _request_of(self, frame: bytes) -> RequestStart | None:
        correlation_id = int.from_bytes(frame[:_LENGTH_BYTES], signed=True)
        while self._awaited:
            request = self._awaited.popleft()
            if request is None or request.correlation_id == correlation_id:
                return request
        return None

    async def _with_own_addresses(self, frame: bytes, request: RequestStart) -> bytes:
        if request.api_key == ApiKey.API_VERSIONS:
            return capped_versions(frame, request)
        response = addressed_response(frame, request)
        if response is None:
            return frame
        brokers = {node_id_of(each): address_of(each) for each in response.nodes}
        for node in response.nodes:
            node.port = await self._proxy.port_for(brokers[node_id_of(node)])
            node.host = self._host
        return response.encode()


async def _next_frame(reader: StreamReader) -> bytes | None:
    """Return the next frame without its length; None at the end of the connection."""
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), signed=True)
        if not 0 <= length <= MAX_FRAME_BYTES:
            raise ValueError(f"a frame of {length} bytes; at most {MAX_FRAME_BYTES} are passed on")
        return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def _send(writer: StreamWriter, frame: bytes) -> None:
    writer.write(len(frame).to_bytes(_LENGTH_BYTES) + frame)
    await writer.drain()


def _are_same(one: Address, other: Address) -> bool:
    """Return whether two addresses are the same, as far as names can tell."""
    if one.port != other.port:
        return False
    return one.host == other.host or {one.host, other.host}.issubset(LOOPBACK)
