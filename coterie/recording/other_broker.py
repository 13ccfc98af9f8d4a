"""Replays a recording to a running broker, in real time [recording/against]."""

import asyncio
from asyncio import StreamReader, StreamWriter

from coterie.address import Address
from coterie.client.cluster import Cluster
from coterie.client.connection import Deadline
from coterie.client.errors import VersionUnsupported
from coterie.client.event_loop import open_streams
from coterie.client.security import PLAINTEXT, Security
from coterie.client.topics import create_topic
from coterie.protocol.api_keys import ApiKey, is_declared
from coterie.protocol.apis import request_class
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.frames import FrameBuffer
from coterie.recording.conversation import Conversation, RecordedExchange
from coterie.recording.files import Recording
from coterie.recording.own_broker import topics_before
from coterie.recording.replay import Listener, Replay, ReplayOutcome
from coterie.recording.selection import began

_READ_BYTES = 1 << 16


class OtherBroker:
    """A running broker as the target of a replay.

    Attributes:
        listener: what it reports to.
    """

    listener: Listener

    def __init__(
        self, address: Address, served: set[tuple[int, int]], pace: "Pace", security: Security
    ) -> None:
        """Replay to an address.

        Args:
            address: of the broker.
            served: the APIs and versions that it serves.
            pace: how fast.
            security: how connections to it are secured.
        """
        self._security = security
        self._address = address
        self._served = served
        self._pace = pace
        self._writers: dict[int, StreamWriter] = {}
        self._readers: dict[int, asyncio.Task[None]] = {}

    async def open(self, connection: int, peer: str) -> None:  # noqa: ARG002 - no address is chosen
        """Connect; see `Target`.

        Raises:
            OSError, ClientError: the broker cannot be reached, or refuses a login.
        """
        reader, writer = await open_streams(self._address, self._security)
        self._writers[connection] = writer
        self._readers[connection] = asyncio.create_task(self._read(connection, reader))

    def send(self, connection: int, frame: bytes) -> None:
        """Send a request; see `Target`."""
        self._writers[connection].write(frame)

    def close(self, connection: int) -> None:
        """Disconnect; see `Target`."""
        self._readers.pop(connection).cancel()
        self._writers.pop(connection).close()

    def serves(self, exchange: RecordedExchange) -> bool:
        """Return whether the broker serves the version; see `Target`."""
        if exchange.start is None:
            return False
        key = exchange.start.api_key
        return key == ApiKey.API_VERSIONS or (key, exchange.version) in self._served

    async def wait_until(self, at_ms: int) -> None:
        """Wait as long as the recording did, by the pace; see `Target`."""
        await self._pace.wait_until(at_ms)

    async def _read(self, connection: int, reader: StreamReader) -> None:
        frames = FrameBuffer()
        try:
            while data := await reader.read(_READ_BYTES):
                frames.append(data)
                while (frame := frames.next_frame()) is not None:
                    self.listener.answered(connection, frame)
        except (ConnectionError, MalformedFrame):
            pass
        self.listener.closed(connection)


class Pace:
    """Real time, from the beginning of a replay on."""

    def __init__(self, began_ms: int, speed: float) -> None:
        """Begin now; the recording began at `began_ms`."""
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        self._began_ms = began_ms
        self._speed = speed

    async def wait_until(self, at_ms: int) -> None:
        """Return when the recorded time has come."""
        due_s = self._began_s + (at_ms - self._began_ms) / 1000 / self._speed
        await asyncio.sleep(max(0.0, due_s - self._loop.time()))


def replay_against(
    recording: Recording,
    conversation: Conversation,
    address: Address,
    *,
    speed: float,
    creates_topics: bool,
    security: Security = PLAINTEXT,
) -> list[ReplayOutcome]:
    """Replay a recording to a running broker; return what became of each request.

    Args:
        recording, conversation: the recording, and what it holds.
        address: of the broker.
        speed: 1 for the recorded pauses, 2 for half of them.
        creates_topics: whether topics that the recorded broker had before are created first.
        security: how connections to the broker are secured.

    Raises:
        ClientError, OSError: the broker cannot be reached.
    """
    with Cluster(str(address), security=security) as cluster:
        if creates_topics:
            for name, partitions in topics_before(conversation).items():
                create_topic(cluster, name, partitions)
        served = _served(cluster, conversation)

    async def run() -> list[ReplayOutcome]:
        target = OtherBroker(address, served, Pace(began(conversation), speed), security)
        replay = Replay(conversation, target, recording.header)
        return await replay.run()

    return asyncio.run(run())


def _served(cluster: Cluster, conversation: Conversation) -> set[tuple[int, int]]:
    """Return those APIs and versions of the recording that a broker serves."""
    connection = cluster.any_broker(Deadline(cluster.timeout_s))
    served = set()
    for exchange in conversation.exchanges:
        api, version = exchange.api, exchange.version
        if api is None or not is_declared(api, version):
            continue
        try:
            if connection.version_for(request_class(api), version) == version:
                served.add((int(api), version))
        except VersionUnsupported:
            continue
    return served
