"""A broker without sockets, threads and real time, and a client for it.

The event loop runs only when a test turns or advances it, and the transport keeps what is written.
"""

import itertools
import os
from typing import TYPE_CHECKING, Any, cast

from coterie.address import Address
from coterie.conversation.pipe import MemoryTransport
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import response_class
from coterie.protocol.frames import decode_response, encode_request
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.broker import Broker
from coterie.server.config.config import Config
from coterie.server.data_place import IN_MEMORY
from coterie.server.environment import Environment
from coterie.server.file_handles import DEFAULT_HANDLES, FileHandles
from coterie.server.logs.flusher import FlushMode
from coterie.server.shared_parts import SharedParts
from coterie.storage.filesystem import FileSystem
from coterie.storage.log import Log
from coterie.virtual.environment import SliceClock
from tests.unit.server.manual_loop import ManualLoop
from tests.unit.server.turns import limited_turn

if TYPE_CHECKING:
    from coterie.server.logging import Logger

NEVER = FlushMode(commit=False, interval_ms=None)
COMMIT = FlushMode(commit=True, interval_ms=None)


class ManualEnvironment(Environment):
    """The environment of a broker on a manual loop, with the loop's clocks and numbered member ids.

    A slice of long work is as many steps on every machine; work that waits is done by threads.
    """

    def __init__(self, loop: "ManualLoop", log: "RecordingLog | None" = None) -> None:
        super().__init__(
            loop.as_loop(),
            (RecordingLog() if log is None else log).as_logger(),
            now_ms=loop.clock,
            monotonic_s=loop.time,
            slice_clock_s=SliceClock(),
            random_bytes=os.urandom,
        )
        self._numbers = itertools.count()

    def new_uuid_text(self) -> str:
        return f"{next(self._numbers):08d}-0000-4000-8000-000000000000"


class FakeTransport(MemoryTransport):
    """A transport that keeps what is written; a test decides whether the peer reads."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        super().__init__((host, 50_000))
        self.written: list[bytes] = []
        self.high_bytes = 64 * 1024
        # False: what is written stays queued.
        self.peer_reads = True
        self.queued_bytes = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self.high_bytes = high

    def get_write_buffer_size(self) -> int:
        return self.queued_bytes

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed, "nothing is written after the connection was closed"
        self.written.append(bytes(data))
        if not self.peer_reads:
            self.queued_bytes += len(data)
            if self.queued_bytes > self.high_bytes and self.protocol is not None:
                self.protocol.pause_writing()

    def read_by_peer(self) -> None:
        """Let the peer read everything that is queued."""
        self.queued_bytes = 0
        assert self.protocol is not None
        self.protocol.resume_writing()


class RecordingLog:
    """A logger that keeps its lines as (level, event, fields)."""

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
        """Return the fields of every line of an event."""
        return [fields for _, name, fields in self.lines if name == event]

    def as_logger(self) -> "Logger":
        return cast("Logger", self)  # it has the methods that the server calls


def log_of(broker: Broker) -> RecordingLog:
    """Return the log of a broker that `make_broker` has made."""
    return cast("RecordingLog", broker.log)  # the reverse of `as_logger`


def logged(broker: Broker, event: str) -> list[dict[str, Any]]:
    """Return the fields of every line of an event."""
    return log_of(broker).named(event)


def loop_of(broker: Broker) -> ManualLoop:
    """Return the event loop of a broker that `make_broker` has made."""
    return cast("ManualLoop", broker.loop)  # the reverse of `as_loop`


def make_broker(
    settings: dict[str, str] | None = None,
    *,
    flush: FlushMode = NEVER,
    filesystem: FileSystem | None = None,
    loop: ManualLoop | None = None,
    load: bool = True,
    is_new: bool = False,
    handles: FileHandles = DEFAULT_HANDLES,
    environment: Environment | None = None,
) -> Broker:
    """Make a broker on a file system in memory and a manual loop.

    Its group log was used before, unless `is_new`.
    """
    loop = ManualLoop() if loop is None else loop
    values = {"offsets.topic.num.partitions": "4", "group.initial.rebalance.delay.ms": "0"}
    shared = SharedParts(
        Config({**values, **(settings or {})}),
        IN_MEMORY,
        ManualEnvironment(loop) if environment is None else environment,
        flush=flush,
        handles=handles,
        filesystem=filesystem,
    )
    broker = Broker(shared)
    broker.advertise("PLAINTEXT", Address("127.0.0.1", 9092))
    if not is_new:
        broker.topics.show(OFFSETS_TOPIC)
    if load:
        for runtime in broker.runtimes:
            run(broker, runtime.load())
    return broker


def restarted(broker: Broker, *, killed: bool) -> Broker:
    """Return a broker on the directory of another one, which is stopped or killed."""
    data = broker._data
    if killed:
        data._lock.release()
    else:
        data.close()
    return make_broker(filesystem=data.files.filesystem)


def run(broker: Broker, coroutine: Any) -> None:
    """Run a coroutine that waits only for what the turns of the loop bring."""
    try:
        while True:
            coroutine.send(None)
            loop_of(broker).turn()
    except StopIteration:
        pass


def open_log(broker: Broker, topic: str, index: int = 0) -> Log:
    """Return the log of a partition, opened if it is not."""
    partition = broker.topics.by_name[topic].partitions[index]
    broker.logs.opener.open([partition], lambda: None)
    loop_of(broker).turn()
    return partition.log


class Client:
    """A client's end of a connection to a broker, without a socket."""

    def __init__(
        self,
        broker: Broker,
        client_id: str | None = "test",
        host: str = "127.0.0.1",
        listener: str = "PLAINTEXT",
    ) -> None:
        self.broker = broker
        self.client_id = client_id
        self.transport = FakeTransport(host=host)
        self.connection = broker.accept(self.transport, listener)
        self._correlation_id = 0
        self._requests: dict[int, tuple[Any, int]] = {}
        self._received = b""

    @property
    def loop(self) -> ManualLoop:
        return loop_of(self.broker)

    def frame(self, request: Any, version: int) -> bytes:
        """Return the frame of a request whose response `answers` can decode."""
        self._correlation_id += 1
        api = ApiKey(type(request).api_key)
        self._requests[self._correlation_id] = (response_class(api), version)
        return encode_request(request, version, self._correlation_id, self.client_id)

    def send(self, request: Any, version: int) -> int:
        """Send a request; return its correlation id."""
        frame = self.frame(request, version)
        with limited_turn():
            self.connection.data_received(frame)
        return self._correlation_id

    def answers(self) -> list[tuple[int, Any]]:
        """Return correlation id and message of every response since the last call, in order."""
        self._received += b"".join(self.transport.written)
        self.transport.written.clear()
        found = []
        while len(self._received) >= 4:
            size = int.from_bytes(self._received[:4]) + 4
            frame, self._received = self._received[4:size], self._received[size:]
            cls, version = self._requests[int.from_bytes(frame[:4])]
            found.append(decode_response(cls, frame, version))
        return found

    def call(self, request: Any, version: int) -> Any:
        """Send a request; return its response, which arrives in this turn of the loop."""
        sent = self.send(request, version)
        self.loop.turn()
        ((correlation_id, answer),) = self.answers()
        assert correlation_id == sent
        return answer


def wait_for_disk(client: Client) -> None:
    """Turn the loop until the flusher's thread has synced everything."""
    client.loop.turn()
    while not client.broker.flusher.idle:
        client.loop.turn()
    client.loop.turn()
