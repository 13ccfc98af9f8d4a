"""Connections of simulated clients: bytes take some time, and are lost with their connection.

Requests arrive in the order in which they were sent, and so do responses. A request gets one
response in its turn, or the connection ends (K8).
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from coterie.conversation.pipe import MemoryTransport
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import response_class
from coterie.protocol.frames import FrameBuffer, decode_response, encode_request
from coterie.server.broker import Broker
from tests.simulation.checks.violation import require
from tests.unit.server.manual_loop import ManualLoop

# How long bytes take, in milliseconds.
DELAYS_MS = (0, 0, 0, 1, 3)

# Takes the response to a request, or None if it is lost.
Answered = Callable[[Any], None]


class Sent(NamedTuple):
    """A request that has no response yet."""

    number: int
    request: Any
    version: int
    sent_ms: float
    answered: Answered


class Line(MemoryTransport):
    """A connection of a client with one broker.

    Attributes:
        node_id: the broker.
        open: the requests without a response, the oldest first.
    """

    def __init__(self, loop: ManualLoop, chance: Random, broker: Broker, name: str) -> None:
        """Connect with a broker."""
        super().__init__(("127.0.0.1", 50_000))
        self.node_id = broker.node_id
        self.open: deque[Sent] = deque()
        self._loop = loop
        self._chance = chance
        self._name = name
        self._number = 0
        # The requests that the broker has not answered.
        self._due: deque[int] = deque()
        self._frames = FrameBuffer()
        # Whether the client has noticed its end, and when the latest bytes of each side arrive.
        self._is_over = False
        self._arrives_ms = {True: 0.0, False: 0.0}
        broker.accept(self)

    # --- the client's end -------------------------------------------------------------------------

    @property
    def is_usable(self) -> bool:
        """Whether the client knows of no end."""
        return not self._is_over

    def send(self, request: Any, version: int, answered: Answered) -> None:
        """Send a request."""
        self._number += 1
        frame = encode_request(request, version, self._number, self._name)
        self._due.append(self._number)
        self.open.append(Sent(self._number, request, version, self._loop.now_ms, answered))
        self._after_delay(True, self._deliver, frame)

    def lose(self) -> None:
        """End the connection: what is on its way is lost, in both directions."""
        self._end()
        if not self.closed:
            self.closed = True
            self._loop.call_soon(self._tell_broker)

    def _end(self) -> None:
        """Let the client notice the end."""
        if self._is_over:
            return
        self._is_over = True
        lost, self.open = list(self.open), deque()
        for each in lost:
            each.answered(None)

    def _take(self, frame: bytes) -> None:
        """Take a response that has arrived."""
        if self._is_over:
            return
        sent = self.open.popleft()
        cls = response_class(ApiKey(type(sent.request).api_key))
        _, message = decode_response(cls, frame, sent.version)
        sent.answered(message)

    # --- the broker's end -------------------------------------------------------------------------

    def _deliver(self, data: bytes) -> None:
        if not self.closed and self.protocol is not None:
            self.protocol.data_received(data)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take what the broker answers."""
        if self._is_over:
            return
        require(not self.closed, "K8", f"{self._name} is answered after the end of the connection")
        self._frames.append(bytes(data))
        while (frame := self._frames.next_frame()) is not None:
            number = int.from_bytes(frame[:4], "big")
            due = self._due.popleft() if self._due else None
            require(due == number, "K8", f"{self._name} is answered {number} instead of {due}")
            self._after_delay(False, self._take, frame)

    def _ended(self) -> None:
        """The broker has closed the connection."""
        self._loop.call_soon(self._tell_broker)
        self._after_delay(False, self._end)

    def _tell_broker(self) -> None:
        if self.protocol is not None:
            self.protocol.connection_lost(None)

    def _after_delay(self, to_broker: bool, call: Callable[..., object], *args: object) -> None:
        now_ms = self._loop.now_ms
        at_ms = max(now_ms + self._chance.choice(DELAYS_MS), self._arrives_ms[to_broker])
        self._arrives_ms[to_broker] = at_ms
        self._loop.call_later((at_ms - now_ms) / 1000, call, *args)
