"""Steady load whose answers are large: they are counted and not kept.

Every response must have the size of the first one, which was checked in full. The bytes go into
one buffer that is overwritten, so that the generator costs less than the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from benchmarks.processes import Usage
from benchmarks.session import Conversation, Job, connect
from benchmarks.steady import Shape, drain, measured

_BUFFER_BYTES = 1 << 20
_LENGTH_BYTES = 4


class BulkConnection(asyncio.BufferedProtocol):
    """Keeps a fixed number of equal requests in flight until it is stopped."""

    def __init__(
        self, frame: bytes, response_bytes: int, in_flight: int, transport: asyncio.Transport
    ) -> None:
        self._frame = frame
        self._response_bytes = response_bytes
        self.transport = transport
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        # The bytes of the present response that have arrived.
        self._arrived_bytes = 0
        self._in_flight = in_flight
        # The bytes of all responses.
        self.answered = 0
        self.stopping = False
        self.drained = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        """Take the connection over and send the first requests."""
        self.transport.set_protocol(self)
        self.transport.write(self._frame * self._in_flight)

    def stop(self) -> None:
        """Send no further requests; `drained` is done when all responses have arrived."""
        self.stopping = True

    def get_buffer(self, _size_hint: int) -> memoryview:
        # Never beyond a response, so that each one begins at the start of the buffer.
        left = self._response_bytes - self._arrived_bytes
        return self._buffer[: min(left, _BUFFER_BYTES)]

    def buffer_updated(self, count: int) -> None:
        begins = not self._arrived_bytes
        self.answered += count
        self._arrived_bytes += count
        if begins and count >= _LENGTH_BYTES:
            length = int.from_bytes(self._buffer[:_LENGTH_BYTES], "big")
            if length != self._response_bytes - _LENGTH_BYTES:
                self._fail(f"a response has {length} bytes, not those of the first one")
                return
        if self._arrived_bytes < self._response_bytes:
            return
        self._arrived_bytes = 0
        if not self.stopping:
            self.transport.write(self._frame)
            return
        self._in_flight -= 1
        if not self._in_flight and not self.drained.done():
            self.drained.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("the broker closed the connection")

    def _fail(self, reason: str) -> None:
        if not self.drained.done():
            self.drained.set_exception(ConnectionError(reason))


@dataclass(frozen=True, slots=True)
class Bulk:
    """The bytes of the responses in the measured time, and what they cost."""

    usage: Usage
    answered_bytes: int


async def load(
    job: Job, shape: Shape, frame_for: Callable[[int, Conversation], Awaitable[bytes]]
) -> Bulk:
    """Run the load for the job's duration.

    Args:
        job: the broker and the duration.
        shape: connections and requests in flight.
        frame_for: prepares the request of a connection, given its number and the connection.
    """
    conversations = await asyncio.gather(*(connect(job) for _ in range(shape.connections)))
    connections = []
    for number, conversation in enumerate(conversations):
        frame = await frame_for(number, conversation)
        response = await conversation.exchange(frame)
        connections.append(
            BulkConnection(frame, len(response), shape.in_flight, conversation.transport)
        )
    before, usage = await measured(job, connections)
    answered_bytes = sum(connection.answered for connection in connections) - sum(before)
    await drain(connections)
    return Bulk(usage, answered_bytes)
