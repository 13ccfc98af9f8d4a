"""The proxy keeps clients on it: every broker that a response names has a port of the proxy."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from coterie.address import Address
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.frames import decode_request_header, decode_response, encode_request
from coterie.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiKey,
)
from coterie.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from coterie.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)
from coterie.protocol.wire import Message
from coterie.recording.files import RecordingOptions, read
from coterie.recording.format import Kind
from coterie.recording.proxy import Proxy
from coterie.recording.serving import begin_recording
from coterie.server.environment import Environment
from tests.unit.recording.written import LIMITS
from tests.unit.server.manual import RecordingLog

Ask = Callable[[int, Message, type[Message], int], Awaitable[Any]]


class Broker:
    """Answers every request with the next of its responses, or with raw bytes."""

    def __init__(self, *responses: Message | bytes) -> None:
        self.responses = list(responses)
        self.port = 0
        self.server: asyncio.Server | None = None

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while self.responses:
            try:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
            except asyncio.IncompleteReadError:
                break
            header, _ = decode_request_header(frame, 0, len(frame), flexible=False)
            response = self.responses.pop(0)
            if isinstance(response, bytes):
                body = header.correlation_id.to_bytes(4) + response
                writer.write(len(body).to_bytes(4) + body)
            else:
                writer.write(type(response).framer(header.version)(response, header.correlation_id))
        writer.close()


async def ask(port: int, request: Message, cls: type[Message], version: int) -> Any:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(encode_request(request, version, 7, "c1"))
    async with asyncio.timeout(5):
        frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
    writer.close()
    return decode_response(cls, frame, version)[1]


def metadata(*ports: int) -> MetadataResponse:
    brokers = [
        MetadataResponseBroker(node_id=number, host="127.0.0.1", port=port)
        for number, port in enumerate(ports)
    ]
    return MetadataResponse(brokers=brokers, topics=[])


def with_proxy(path: Path, *brokers: Broker, story: Callable[[int], Awaitable[None]]) -> str:
    """Tell a story of the port of a proxy; return what was logged."""

    async def run() -> str:
        log = RecordingLog()
        for broker in brokers:
            await broker.start()
        options = RecordingOptions(str(path), LIMITS, with_payloads=False)
        environment = Environment.of_process(log.as_logger())
        recorder = begin_recording(environment, options, "", settings={}, upstream="x")
        proxy = Proxy(Address("localhost", brokers[0].port), recorder, log.as_logger())
        address = await proxy.start(Address("127.0.0.1", 0))
        try:
            await story(address.port)
        finally:
            await proxy.stop()
            recorder.close()
            for broker in brokers:
                if broker.server is not None:
                    broker.server.close()
        return str(log.lines)

    return asyncio.run(run())


def test_each_broker_has_a_port_of_the_proxy(tmp_path: Path) -> None:
    """[recording/proxy]"""
    first, second = Broker(), Broker(FindCoordinatorResponse(node_id=-1, port=-1, error_code=15))

    async def story(port: int) -> None:
        first.responses = [metadata(first.port, second.port)] * 2
        for _ in range(2):
            request = MetadataRequest(topics=None)
            found = await ask(port, request, MetadataResponse, 1)
            assert found.brokers[0].port == port
        other = found.brokers[1].port
        assert other not in (port, second.port)
        # The second broker is reached through it; an error without an address stays as it is.
        asked = FindCoordinatorRequest(key="orders")
        refused = await ask(other, asked, FindCoordinatorResponse, 1)
        assert (refused.error_code, refused.port) == (15, -1)

    with_proxy(tmp_path / "r", first, second, story=story)
    kinds = [entry.kind for entry in read(str(tmp_path / "r")).entries]
    assert kinds.count(Kind.REQUEST) == kinds.count(Kind.RESPONSE) == 3


def test_versions_with_hidden_addresses_are_not_offered(tmp_path: Path) -> None:
    offered = [
        ApiVersionsResponseApiKey(api_key=key, min_version=0, max_version=99)
        for key in (ApiKey.METADATA, ApiKey.HEARTBEAT)
    ]
    broker = Broker(ApiVersionsResponse(error_code=0, api_keys=offered))

    async def story(port: int) -> None:
        found = await ask(port, ApiVersionsRequest(), ApiVersionsResponse, 2)
        assert [each.max_version for each in found.api_keys] == [
            SERVED_VERSIONS[ApiKey.METADATA][1], 99,
        ]  # fmt: skip

    with_proxy(tmp_path / "r", broker, story=story)


def test_unknown_api_passes_unchanged(tmp_path: Path) -> None:
    async def story(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        frame = b"\x00\x50\x00\x01\x00\x00\x00\x09\x00\x02c1 what only newer programs know"
        writer.write(len(frame).to_bytes(4) + frame)
        async with asyncio.timeout(5):
            assert await reader.readexactly(16) == b"\0\0\0\x0c\0\0\0\x09whatever"
        writer.close()

    with_proxy(tmp_path / "r", Broker(b"whatever"), story=story)


def test_broker_that_is_not_there_closes_the_connection(tmp_path: Path) -> None:
    broker = Broker()

    async def story(port: int) -> None:
        assert broker.server is not None
        broker.server.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()

    assert "broker not reached" in with_proxy(tmp_path / "r", broker, story=story)
