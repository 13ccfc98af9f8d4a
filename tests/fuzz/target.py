"""What is fed with frames: a whole broker without sockets, and the checks after each feeding."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from coterie.server.broker import Broker
from coterie.server.logs import topics
from tests.unit.server.manual import Client, ManualLoop, make_broker

# Frames that one broker is fed with before a fresh one takes over: groups and topics pile up.
FRAMES_PER_BROKER = 5_000
# Partitions a fuzzed broker may have: creating thousands for every other CreateTopics only takes
# time. The limit itself is the one that is fuzzed.
_PARTITIONS = 100


class Finding(AssertionError):  # noqa: N818 - what fuzzers call it
    """A frame that did what no frame may do."""

    def __init__(self, data: bytes, what: str) -> None:
        super().__init__(f"{what}\nframe: {data.hex()}")
        self.data = data


class Target:
    """A broker that is fed frame by frame, each on a connection of its own.

    Attributes:
        frames, answered, refused, waiting: how many there were, and what became of them.
        refusals: what was the matter with those refused, and how often.
        slowest_ms, slowest: the longest a frame took, and which one.
    """

    def __init__(self, prepare: Callable[[Broker], None] | None = None) -> None:
        """`prepare` is done to every broker before it is fed."""
        self._prepare = prepare
        topics.MAX_PARTITIONS = _PARTITIONS  # type: ignore[misc]
        self.frames = self.answered = self.refused = self.waiting = 0
        self.slowest_ms = 0.0
        self.slowest = b""
        self.refusals: Counter[str] = Counter()
        self._broker = self._fresh()

    def _fresh(self) -> Broker:
        broker = make_broker()
        broker.topics.create("t", 2, {})
        if self._prepare is not None:
            self._prepare(broker)
        return broker

    def feed(self, data: bytes) -> None:
        """Give one connection these bytes.

        Raises:
            Finding: an exception escaped, a request failed by our mistake, a connection was closed
                without a line, or bytes stay accounted for after it is gone.
        """
        if self.frames % FRAMES_PER_BROKER == FRAMES_PER_BROKER - 1:
            self._broker = self._fresh()
        self.frames += 1
        client = Client(self._broker)
        log: Any = self._broker.log
        log.lines.clear()
        # Each frame is a second of its own, as far as the limit of log lines is concerned.
        self._broker.connection_quotas._close_lines = 0
        took_ms = self._timed(client, data)
        self._check(client, data, log)
        if took_ms > self.slowest_ms:
            # Once more: mostly it was the machine, or the first use of something.
            again = Client(self._broker)
            took_ms = min(took_ms, self._timed(again, data))
            again.connection.connection_lost(None)
            if took_ms > self.slowest_ms:
                self.slowest_ms, self.slowest = took_ms, data

    def _timed(self, client: Client, data: bytes) -> float:
        began = time.perf_counter()
        try:
            client.connection.data_received(data)
            client.loop.turn()
        except Exception as error:
            raise Finding(data, f"{type(error).__name__} escaped: {error}") from error
        return (time.perf_counter() - began) * 1000

    def _check(self, client: Client, data: bytes, log: Any) -> None:
        for event in ("request failed", "group append failed"):
            for fields in log.named(event):
                error = fields["exc_info"]
                raise Finding(data, f"{event}: {error!r}") from error
        if client.transport.closed:
            self.refused += 1
            lines = log.named("connection closed")
            if len(lines) != 1:
                raise Finding(data, f"a connection was closed with {len(lines)} lines")
            self.refusals[lines[0]["error"]] += 1
        elif client.transport.written:
            self.answered += 1
        else:
            self.waiting += 1
        client.connection.connection_lost(None)
        if self._broker.connection_quotas.buffered_bytes:
            raise Finding(data, "bytes of a connection that is gone are still accounted for")

    def pass_time(self) -> None:
        """Let what waits expire, as it would in real time."""
        loop: ManualLoop = self._broker.loop  # type: ignore[assignment]
        loop.advance(60_000)
