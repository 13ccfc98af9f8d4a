"""A broker with real sockets on a thread of this process, and a blocking client for it."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from coterie.address import Address
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import response_class
from coterie.protocol.frames import decode_response, encode_request
from coterie.protocol.messages.api_versions import ApiVersionsRequest
from coterie.server.broker import Broker
from coterie.server.config.config import Config
from coterie.server.config.listeners import Listener
from coterie.server.data_place import IN_MEMORY
from coterie.server.environment import Environment
from coterie.server.logs.flusher import FlushMode
from coterie.server.operating_system import run_on_fastest_loop
from coterie.server.shared_parts import SharedParts
from tests.unit.server.manual import NEVER, RecordingLog

# Much longer than any step takes, and much shorter than the timeout of a test.
PATIENCE_S = 60.0


class RunningBroker:
    """A broker that runs inside a `with` block."""

    def __init__(
        self,
        settings: dict[str, str] | None = None,
        *,
        data_dir: str = IN_MEMORY,
        flush: FlushMode = NEVER,
        prepare: Callable[[Broker], None] | None = None,
        listeners: Sequence[Listener] = (Listener(Address("127.0.0.1", 0)),),
    ) -> None:
        self.log = RecordingLog()
        self.address = Address("", 0)
        self.addresses: list[Address] = []
        self._settings = settings or {}
        self._data_dir = data_dir
        self._flush = flush
        self._prepare = prepare
        self._listeners = listeners
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="broker under test")
        self._failure: BaseException | None = None
        self.broker: Broker
        self._stopping: asyncio.Event

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the broker, if it still runs."""
        if self._thread.is_alive():
            self.broker.loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the broker did not stop"

    def _run(self) -> None:
        try:
            run_on_fastest_loop(self._serve())
        except BaseException as error:  # raised again in the test's thread
            self._failure = error
        self._ready.set()

    async def _serve(self) -> None:
        values = {"offsets.topic.num.partitions": "4", "group.initial.rebalance.delay.ms": "0"}
        self._stopping = asyncio.Event()
        self.broker = Broker(
            SharedParts(
                Config({**values, **self._settings}),
                self._data_dir,
                Environment.of_process(self.log.as_logger()),
                flush=self._flush,
            )
        )
        if self._prepare is not None:
            self._prepare(self.broker)
        try:
            self.addresses = await self.broker.start(self._listeners)
        except BaseException:
            await self.broker.stop()
            raise
        self.address = self.addresses[0]
        self._ready.set()
        await self._stopping.wait()
        await self.broker.stop()

    def connect(self) -> socket.socket:
        """Return a socket connected to the broker."""
        return socket.create_connection(self.address, timeout=PATIENCE_S)

    def client(self) -> "SocketClient":
        """Return a client connected to the broker."""
        return SocketClient(self.connect())

    def call(self, function: Callable[[], Any]) -> Any:
        """Run a function in the broker's event loop and return its result."""

        async def run() -> Any:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.broker.loop).result(PATIENCE_S)

    def close_errors(self) -> list[str]:
        """Return the errors of all connections that were closed with a log line."""
        return [line["error"] for line in self.log.named("connection closed")]

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "the condition did not become true"
            time.sleep(0.005)

    def assert_unharmed(self) -> None:
        """Check that another client is served, and that no request failed by our mistake."""
        with self.client() as client:
            request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
            assert client.call(request, 3).error_code == 0
        assert self.log.named("request failed") == []


class SocketClient:
    """Sends requests and waits for their answers."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, request: Any, version: int) -> None:
        """Send a request without waiting for the response."""
        self._correlation_id += 1
        self.socket.sendall(encode_request(request, version, self._correlation_id, "test"))

    def receive(self, request: Any, version: int) -> Any:
        """Return the next response, which belongs to `request`."""
        frame = read_exactly(self.socket, int.from_bytes(read_exactly(self.socket, 4)))
        api = ApiKey(type(request).api_key)
        return decode_response(response_class(api), frame, version)[1]

    def call(self, request: Any, version: int) -> Any:
        """Send a request and wait for the response."""
        self.send(request, version)
        return self.receive(request, version)


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """Read `size` bytes; raise EOFError if the connection ends before."""
    parts = []
    while size:
        data = connection.recv(size)
        if not data:
            raise EOFError
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


def is_closed(connection: socket.socket) -> bool:
    """Wait until the other side sends or closes; return whether it has closed."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
