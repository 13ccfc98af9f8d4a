"""Steady load: the same kind of request over many connections, closed loop or pipelined.

How the generator stays cheap: every connection owns a `Ring` of RING_SIZE pre-built requests with
correlation ids 0, 1, 2 ..., and the bytes of the answer to each, taken from one answer that was
asked for, and checked in full, before the load begins. The answers to a read are then checked by
one comparison of bytes; only when that fails is each answer looked at and its error counted. As
soon as n answers have come, the next n requests of the ring go out in one write.

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

from benchmarks.answers import NONE, Refused, error_name, first_error
from benchmarks.frames import with_correlation
from benchmarks.processes import Stretch, Usage
from benchmarks.session import Conversation, Job, connect

# More than any number of requests in flight; a power of two keeps the slot arithmetic cheap.
RING_SIZE = 64
# After the last measured request, what is in flight may take this long to be answered.
DRAIN_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Shape:
    """How many connections load the broker, and how many requests each has in flight."""

    connections: int
    in_flight: int


CLOSED = Shape(connections=32, in_flight=1)
PIPELINED = Shape(connections=8, in_flight=32)


class Ring:
    """The requests of one connection, in the order they are sent, and their expected answers.

    Args:
        requests: frames of equal length; repeated until RING_SIZE of them are there.
        answer: a good answer to any of them; only its correlation id differs from the others.
        api: name for error messages.
        places: where the answer's error codes are (`answers.error_places`).
    """

    def __init__(
        self, requests: Sequence[bytes], answer: bytes, api: str, places: tuple[int, ...]
    ) -> None:
        if (code := first_error(answer, places)) != NONE:
            raise Refused(api, code)
        assert len({len(frame) for frame in requests}) == 1, "requests of one length"
        slots = range(RING_SIZE)
        ring = [with_correlation(requests[slot % len(requests)], slot) for slot in slots]
        expected = [answer[:4] + struct.pack(">i", slot) + answer[8:] for slot in slots]
        # Doubled, so that no slice of up to RING_SIZE frames wraps around.
        self.requests = b"".join(ring) * 2
        self.expected = b"".join(expected) * 2
        self.request_size = len(ring[0])
        self.answer_size = len(answer)
        self.places = places


class SteadyConnection(asyncio.Protocol):
    """Keeps a fixed number of requests in flight until told to stop."""

    def __init__(self, ring: Ring, in_flight: int, transport: asyncio.Transport) -> None:
        assert 0 < in_flight <= RING_SIZE
        self._ring = ring
        self._in_flight = in_flight
        self.transport = transport
        self._partial = b""
        self._next_answer = 0  # slot of the ring whose answer comes next
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
        ring, slot = self._ring, self._next_answer
        size = ring.answer_size
        answers = len(data) // size
        whole = answers * size
        if not 0 < answers <= RING_SIZE or (
            data[:whole] != ring.expected[slot * size : slot * size + whole]
        ):
            answers, whole = self._inspect(data)
        if whole != len(data):
            self._partial = data[whole:]
        if not answers:
            return
        sent_at, latency = self._sent_at, self.latencies_s.append
        for i in range(slot, slot + answers):
            latency(now - sent_at[i % RING_SIZE])
        self.answered += answers
        self._next_answer = (slot + answers) % RING_SIZE
        if not self.stopping:
            self._send((slot + self._in_flight) % RING_SIZE, answers, now)
        elif self.answered == self.sent and not self.drained.done():
            self.drained.set_result(None)

    def _inspect(self, data: bytes) -> tuple[int, int]:
        """Count the errors of answers that are not the expected bytes: (answers, their size)."""
        answers = position = 0
        while len(data) - position >= 4:
            end = position + 4 + int.from_bytes(data[position : position + 4], "big")
            if end > len(data):
                break
            code = first_error(data[position:end], self._ring.places)
            slot = (self._next_answer + answers) % RING_SIZE
            start = slot * self._ring.answer_size
            if code != NONE:
                self.errors[error_name(code)] += 1
            elif data[position:end] != self._ring.expected[start : start + end - position]:
                self.errors["another answer than expected"] += 1
            answers, position = answers + 1, end
        return answers, position

    def stop(self) -> None:
        """Send nothing more; `drained` is done when all answers have come."""
        self.stopping = True
        if self.answered == self.sent and not self.drained.done():
            self.drained.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.drained.done():
            self.drained.set_exception(ConnectionError("the broker closed the connection"))


@dataclass(frozen=True, slots=True)
class Steady:
    """What a steady load measured.

    `latencies_s` has one entry for every request answered in the measured stretch;
    `sent_in_all` and `answered_in_all` also cover the time before it and the draining after it.
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
        job: says where, and for how long.
        shape: connections and requests in flight.
        ring_for: given a connection's number and the connection, prepares what it will send.
    """
    conversations = await asyncio.gather(*(connect(job) for _ in range(shape.connections)))
    rings = await asyncio.gather(*map(ring_for, range(shape.connections), conversations))
    connections = [
        SteadyConnection(ring, shape.in_flight, conversation.transport)
        for ring, conversation in zip(rings, conversations, strict=True)
    ]
    for connection in connections:
        connection.start()
    await asyncio.sleep(job.settle_s)
    before = [connection.answered for connection in connections]
    stretch = Stretch(job.pid)
    await asyncio.sleep(job.duration_s)
    usage = stretch.end()
    latencies = [
        latency
        for connection, start in zip(connections, before, strict=True)
        for latency in connection.latencies_s[start:]
    ]
    await _drain(connections)
    return Steady(
        usage,
        latencies,
        sum((connection.errors for connection in connections), Counter()),
        sum(connection.sent for connection in connections),
        sum(connection.answered for connection in connections),
    )


async def _drain(connections: list[SteadyConnection]) -> None:
    for connection in connections:
        connection.stop()
    drained = asyncio.gather(*(connection.drained for connection in connections))
    await asyncio.wait_for(drained, DRAIN_TIMEOUT_S)
    for connection in connections:
        connection.transport.close()
