"""An event loop turned by hand, a transport that only remembers, and a client that talks frames.

With these a broker runs without sockets, threads and time: a test says when a turn of the loop ends
and how late it is.
"""

import asyncio
import heapq
from collections.abc import Callable
from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import response_class
from coterie.protocol.frames import decode_response, encode_request
from coterie.server.broker import IN_MEMORY, Broker
from coterie.server.config.config import Config
from coterie.server.logs.flusher import FlushMode
from coterie.server.network.connection import Connection
from coterie.storage.filesystem import FileSystem

NEVER = FlushMode(commit=False, interval_ms=None)
COMMIT = FlushMode(commit=True, interval_ms=None)

# Some time in 2023, so that timestamps look like timestamps.
START_MS = 1_700_000_000_000


class Handle:
    """A scheduled call."""

    def __init__(self, at_ms: float, number: int, call: Callable[[], object]) -> None:
        self.at_ms = at_ms
        self.number = number
        self.call = call
        self.cancelled = False

    def __lt__(self, other: "Handle") -> bool:
        return (self.at_ms, self.number) < (other.at_ms, other.number)

    def cancel(self) -> None:
        self.cancelled = True


class ManualLoop:
    """The part of an event loop that the server uses; nothing runs but by `turn` and `advance`."""

    def __init__(self) -> None:
        self.now_ms = float(START_MS)
        self._soon: list[Callable[[], object]] = []
        self._later: list[Handle] = []
        self._number = 0

    def call_soon(self, call: Callable[..., object], *args: object) -> None:
        self._soon.append(lambda: call(*args))

    call_soon_threadsafe = call_soon

    def call_later(self, delay_s: float, call: Callable[..., object], *args: object) -> Handle:
        self._number += 1
        handle = Handle(self.now_ms + delay_s * 1000, self._number, lambda: call(*args))
        heapq.heappush(self._later, handle)
        return handle

    def time(self) -> float:
        return self.now_ms / 1000

    def create_future(self) -> "asyncio.Future[str]":
        return Future()  # type: ignore[return-value]

    def clock(self) -> int:
        return int(self.now_ms)

    def turn(self) -> None:
        """Run what is due now, until nothing is."""
        while self._soon:
            due, self._soon = self._soon, []
            for call in due:
                call()

    def advance(self, milliseconds: int) -> None:
        """Let time pass, with everything that happens in it."""
        self.turn()
        end = self.now_ms + milliseconds
        while self._later and self._later[0].at_ms <= end:
            handle = heapq.heappop(self._later)
            self.now_ms = max(self.now_ms, handle.at_ms)
            if not handle.cancelled:
                handle.call()
            self.turn()
        self.now_ms = end

    @property
    def timers(self) -> int:
        """Timers that are armed."""
        return sum(not handle.cancelled for handle in self._later)


class Future:
    """As much of a future as `Broker.fatal` needs."""

    def __init__(self) -> None:
        self._result: str | None = None

    def done(self) -> bool:
        return self._result is not None

    def set_result(self, result: str) -> None:
        self._result = result

    def result(self) -> str:
        assert self._result is not None
        return self._result


class FakeTransport:
    """Remembers what is written; says that the peer reads, or does not."""

    def __init__(self, protocol: Connection | None = None, host: str = "127.0.0.1") -> None:
        self.protocol = protocol
        self.host = host
        self.written: list[bytes] = []
        self.closed = False
        self.aborted = False
        self.reading = True
        self.high_bytes = 64 * 1024
        # False: what is written stays queued.
        self.peer_reads = True
        self.queued_bytes = 0

    def get_extra_info(self, name: str) -> Any:
        return (self.host, 50_000) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None:
        self.high_bytes = high

    def get_write_buffer_size(self) -> int:
        return self.queued_bytes

    def write(self, data: bytes) -> None:
        assert not self.closed, "nothing is written after the end"
        self.written.append(data)
        if not self.peer_reads:
            self.queued_bytes += len(data)
            if self.queued_bytes > self.high_bytes and self.protocol is not None:
                self.protocol.pause_writing()

    def take(self) -> None:
        """The peer reads everything."""
        self.queued_bytes = 0
        assert self.protocol is not None
        self.protocol.resume_writing()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True
        self.aborted = True


class RecordingLog:
    """A logger that keeps its lines: (level, event, fields)."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []

    def _add(self, level: str, event: str, fields: dict[str, Any]) -> None:
        self.lines.append((level, event, fields))

    def debug(self, event: str, **fields: Any) -> None:
        self._add("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._add("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._add("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._add("error", event, fields)

    def is_enabled_for(self, _level: int) -> bool:
        return True

    def named(self, event: str) -> list[dict[str, Any]]:
        """The fields of every line of that event."""
        return [fields for _, name, fields in self.lines if name == event]


def make_broker(
    settings: dict[str, str] | None = None,
    *,
    flush: FlushMode = NEVER,
    filesystem: FileSystem | None = None,
    loop: ManualLoop | None = None,
    load: bool = True,
) -> Broker:
    """A broker on a file system in memory and a loop turned by hand."""
    loop = loop or ManualLoop()
    values = {"offsets.topic.num.partitions": "4", "group.initial.rebalance.delay.ms": "0"}
    numbers = iter(range(1_000_000))
    broker = Broker(
        Config({**values, **(settings or {})}),
        IN_MEMORY,
        RecordingLog(),  # type: ignore[arg-type]
        flush=flush,
        filesystem=filesystem,
        now_ms=loop.clock,
        loop=loop,  # type: ignore[arg-type]
        new_uuid=lambda: f"{next(numbers):08d}-0000-4000-8000-000000000000",
    )
    broker.host, broker.port = "127.0.0.1", 9092
    if load:
        run(broker.groups.load())
    return broker


def run(coroutine: Any) -> None:
    """Run a coroutine that waits for nothing but its turn."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration:
        pass


class Client:
    """A client's end of a connection to a broker, without a socket."""

    def __init__(
        self, broker: Broker, client_id: str | None = "test", host: str = "127.0.0.1"
    ) -> None:
        self.broker = broker
        self.client_id = client_id
        self.connection = Connection(broker)
        self.transport = FakeTransport(self.connection, host)
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]
        self._correlation_id = 0
        self._asked: dict[int, tuple[Any, int]] = {}
        self._received = b""

    @property
    def loop(self) -> ManualLoop:
        return self.broker.loop  # type: ignore[return-value]

    def frame(self, request: Any, version: int) -> bytes:
        """A request frame, whose answer `answers` will understand."""
        self._correlation_id += 1
        api = ApiKey(type(request).api_key)
        self._asked[self._correlation_id] = (response_class(api), version)
        return encode_request(request, version, self._correlation_id, self.client_id)

    def send(self, request: Any, version: int) -> int:
        """Send a request; its correlation id."""
        self.connection.data_received(self.frame(request, version))
        return self._correlation_id

    def answers(self) -> list[tuple[int, Any]]:
        """(correlation id, message) of every answer since the last call, in order."""
        self._received += b"".join(self.transport.written)
        self.transport.written.clear()
        found = []
        while len(self._received) >= 4:
            size = int.from_bytes(self._received[:4]) + 4
            frame, self._received = self._received[4:size], self._received[size:]
            cls, version = self._asked[int.from_bytes(frame[:4])]
            found.append(decode_response(cls, frame, version))
        return found

    def call(self, request: Any, version: int) -> Any:
        """Send a request and take its answer, at the end of this turn of the loop."""
        sent = self.send(request, version)
        self.loop.turn()
        ((correlation_id, answer),) = self.answers()
        assert correlation_id == sent
        return answer
