"""Steady load: one kind of request over many connections, in a closed loop or pipelined.

The generator must cost less than any broker it loads. Therefore each connection has a `Ring` of
RING_SIZE requests, built before the load with the correlation ids 0, 1, 2 and so on, and the bytes
of the response to each. These come from one real response, which is checked in full before the load
begins. All responses in one read are then checked by a single comparison of bytes; only if that
fails is each response decoded and its error counted. As soon as n responses have arrived, one write
sends the next n requests of the ring.

A closed loop is the same with one request in flight.
"""

from __future__ import annotations

import asyncio
import struct
import time
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from benchmarks.processes import Stretch, Usage
from benchmarks.requests import AgreedApi, Refused, first_error
from benchmarks.session import Conversation, Job, connect
from coterie.client.errors import error_name
from coterie.protocol.errors import ErrorCode

# More than the largest number of requests in flight.
RING_SIZE = 64
# How long the requests in flight at the end of the measured time may take to be answered.
DRAIN_TIMEOUT_S = 10.0

# Both in a request and in a response the correlation id is an int32 at a fixed place: after length,
# API key and version, or after the length.
_REQUEST_CORRELATION_ID_AT = 8
_RESPONSE_CORRELATION_ID_AT = 4


def with_correlation_id(frame: bytes, position: int, correlation_id: int) -> bytes:
    """Return a copy of a frame with this correlation id at this position."""
    copy = bytearray(frame)
    struct.pack_into(">i", copy, position, correlation_id)
    return bytes(copy)


@dataclass(frozen=True, slots=True)
class Shape:
    """How many connections load the broker, and how many requests each has in flight."""

    connections: int
    in_flight: int


CLOSED = Shape(connections=32, in_flight=1)
PIPELINED = Shape(connections=8, in_flight=32)


class Ring:
    """The requests of one connection in the order of sending, and the responses expected to them.

    Args:
        agreed: the API of the requests.
        requests: frames of equal length; repeated until there are RING_SIZE of them.
        response: the frame of a good response to any of them. The responses to the others may
            differ from it in nothing but the correlation id.
        varies: whether responses differ in more. Then each one is decoded, which costs the
            generator more time.

    Raises:
        Refused: the response holds an error.
    """

    def __init__(
        self, agreed: AgreedApi, requests: Sequence[bytes], response: bytes, *, varies: bool = False
    ) -> None:
        self.agreed = agreed
        self.varies = varies
        if (code := self.error_in(response)) != ErrorCode.NONE:
            raise Refused(agreed.api, code)
        assert len({len(frame) for frame in requests}) == 1, "requests of one length"
        ring = [
            with_correlation_id(requests[slot % len(requests)], _REQUEST_CORRELATION_ID_AT, slot)
            for slot in range(RING_SIZE)
        ]
        expected = [
            with_correlation_id(response, _RESPONSE_CORRELATION_ID_AT, slot)
            for slot in range(RING_SIZE)
        ]
        # Doubled, so that no slice of up to RING_SIZE frames wraps around.
        self.requests = b"".join(ring) * 2
        self.expected = b"".join(expected) * 2
        self.request_size = len(ring[0])
        self.response_size = len(response)

    def error_in(self, response: bytes) -> int:
        """Return the first error code in a response."""
        return first_error(self.agreed.response(response))


class SteadyConnection(asyncio.Protocol):
    """Keeps a fixed number of requests in flight until it is stopped."""

    def __init__(self, ring: Ring, in_flight: int, transport: asyncio.Transport) -> None:
        assert 0 < in_flight <= RING_SIZE
        self._ring = ring
        self._in_flight = in_flight
        self.transport = transport
        self._partial = b""
        self._next_response = 0  # slot of the ring whose response comes next
        self._sent_at = [0.0] * RING_SIZE
        self.sent = 0
        self.answered = 0
        self.latencies_s = array("d")
        self.errors: Counter[str] = Counter()
        self.stopping = False
        self.drained = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        """Take the connection over and send the first requests."""
        self.transport.set_protocol(self)
        self._send(0, self._in_flight, time.perf_counter())

    def _send(self, slot: int, requests: int, now: float) -> None:
        size = self._ring.request_size
        sent_at = self._sent_at
        for i in range(slot, slot + requests):
            sent_at[i % RING_SIZE] = now
        self.sent += requests
        self.transport.write(self._ring.requests[slot * size : (slot + requests) * size])

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        if self._partial:
            data = self._partial + data
            self._partial = b""
        ring, slot = self._ring, self._next_response
        size = ring.response_size
        responses = len(data) // size
        whole = responses * size
        if not 0 < responses <= RING_SIZE or (
            data[:whole] != ring.expected[slot * size : slot * size + whole]
        ):
            responses, whole = self._inspect(data)
        if whole != len(data):
            self._partial = data[whole:]
        if not responses:
            return
        sent_at, latency = self._sent_at, self.latencies_s.append
        for i in range(slot, slot + responses):
            latency(now - sent_at[i % RING_SIZE])
        self.answered += responses
        self._next_response = (slot + responses) % RING_SIZE
        if not self.stopping:
            self._send((slot + self._in_flight) % RING_SIZE, responses, now)
        elif self.answered == self.sent and not self.drained.done():
            self.drained.set_result(None)

    def _inspect(self, data: bytes) -> tuple[int, int]:
        """Count the errors of responses that are not as expected; return their number and size."""
        responses = position = 0
        while len(data) - position >= 4:
            end = position + 4 + int.from_bytes(data[position : position + 4], "big")
            if end > len(data):
                break
            code = self._ring.error_in(data[position:end])
            slot = (self._next_response + responses) % RING_SIZE
            start = slot * self._ring.response_size
            if code != ErrorCode.NONE:
                self.errors[error_name(code)] += 1
            elif (
                not self._ring.varies
                and data[position:end] != self._ring.expected[start : start + end - position]
            ):
                self.errors["another response than expected"] += 1
            responses, position = responses + 1, end
        return responses, position

    def stop(self) -> None:
        """Send no further requests; `drained` is done when all responses have arrived."""
        self.stopping = True
        if self.answered == self.sent and not self.drained.done():
            self.drained.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.drained.done():
            self.drained.set_exception(ConnectionError("the broker closed the connection"))


@dataclass(frozen=True, slots=True)
class Steady:
    """The measurements of a steady load.

    `latencies_s` has one entry for every request answered in the measured time; `sent_in_all` and
    `answered_in_all` also cover the time before it and the draining after it.
    """

    usage: Usage
    latencies_s: list[float]
    errors: Counter[str]
    sent_in_all: int
    answered_in_all: int


async def load(
    job: Job, shape: Shape, ring_for: Callable[[int, Conversation], Awaitable[Ring]]
) -> Steady:
    """Run the load of one shape for the job's duration.

    Args:
        job: the broker and the duration.
        shape: connections and requests in flight.
        ring_for: prepares the requests of a connection, given its number and the connection.
    """
    conversations = await asyncio.gather(*(connect(job) for _ in range(shape.connections)))
    rings = await asyncio.gather(*map(ring_for, range(shape.connections), conversations))
    connections = [
        SteadyConnection(ring, shape.in_flight, conversation.transport)
        for ring, conversation in zip(rings, conversations, strict=True)
    ]
    before, usage = await measured(job, connections)
    latencies = [
        latency
        for connection, start in zip(connections, before, strict=True)
        for latency in connection.latencies_s[start:]
    ]
    await drain(connections)
    return Steady(
        usage,
        latencies,
        sum((connection.errors for connection in connections), Counter()),
        sum(connection.sent for connection in connections),
        sum(connection.answered for connection in connections),
    )


class LoadConnection(Protocol):
    """A connection that keeps requests in flight.

    Attributes:
        transport: its transport.
        answered: what was answered since the start.
        drained: done when everything is answered after `stop`.
    """

    transport: asyncio.Transport
    answered: int
    drained: asyncio.Future[None]

    def start(self) -> None:
        """Send the first requests."""

    def stop(self) -> None:
        """Send no further requests."""


async def measured(job: Job, connections: Sequence[LoadConnection]) -> tuple[list[int], Usage]:
    """Run the load; return what each connection had answered before the measured time, and the
    usage in it.
    """
    for connection in connections:
        connection.start()
    await asyncio.sleep(job.settle_s)
    before = [connection.answered for connection in connections]
    stretch = Stretch(job.pid)
    await asyncio.sleep(job.duration_s)
    return before, stretch.end()


async def drain(connections: Sequence[LoadConnection]) -> None:
    """Wait for the last responses, and close the connections."""
    for connection in connections:
        connection.stop()
    drained = asyncio.gather(*(connection.drained for connection in connections))
    await asyncio.wait_for(drained, DRAIN_TIMEOUT_S)
    for connection in connections:
        connection.transport.close()
