"""The target of the frames: a whole broker without sockets, checked after each frame."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from coterie.protocol.api_keys import SERVED_VERSIONS, declared_versions
from coterie.server.broker import Broker
from coterie.server.metadata import topics
from coterie.server.network.routes import Routes
from tests.unit.server.manual import Client, make_broker
from tests.unit.server.manual_loop import ManualLoop

# Frames for one broker before a new one replaces it, because groups and topics accumulate.
FRAMES_PER_BROKER = 5_000
# A low limit of partitions: creating thousands of them would only take time, and the limit itself
# is tested just as well.
_PARTITIONS = 100


class Finding(AssertionError):  # noqa: N818 - the usual word of fuzzers
    """A frame violated the invariant."""

    def __init__(self, data: bytes, what: str) -> None:
        super().__init__(f"{what}\nframe: {data.hex()}")
        self.data = data


class Target:
    """A broker that receives frames, each on a connection of its own.

    Attributes:
        frames, answered, refused, waiting: the numbers of frames, in all and by result.
        refusals: the number of refusals by reason.
        slowest_ms, slowest: the longest time for a frame, and that frame.
    """

    def __init__(self, prepare: Callable[[Broker], None] | None = None) -> None:
        """Call `prepare` for every broker before its first frame."""
        self._prepare = prepare
        topics.MAX_PARTITIONS = _PARTITIONS
        self.frames = self.answered = self.refused = self.waiting = 0
        self.slowest_ms = 0.0
        self.slowest = b""
        self.refusals: Counter[str] = Counter()
        self._broker = self._fresh()

    def _fresh(self) -> Broker:
        broker = make_broker()
        # The versions of all releases, the oldest too.
        broker.use_routes(Routes({api: declared_versions(api) for api in SERVED_VERSIONS}))
        broker.controller.create("t", 2, {})
        broker.transaction_runtime.create_topic()
        broker.loop.turn()  # type: ignore[attr-defined]  # the manual loop
        if self._prepare is not None:
            self._prepare(broker)
        return broker

    def feed(self, data: bytes) -> None:
        """Send bytes on a new connection.

        Raises:
            Finding: an exception escaped, a request failed by our mistake, a connection was closed
                without a log line, or its bytes are still counted after it was closed.
        """
        if self.frames % FRAMES_PER_BROKER == FRAMES_PER_BROKER - 1:
            self._broker = self._fresh()
        self.frames += 1
        client = Client(self._broker)
        log: Any = self._broker.log
        log.lines.clear()
        # The limit of log lines in a second starts anew for each frame.
        self._broker.connection_quotas._close_lines = 0
        took_ms = self._timed(client, data)
        self._check(client, data, log)
        if took_ms > self.slowest_ms:
            # Measured again: mostly the machine was slow, or code ran for the first time.
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
                raise Finding(data, f"a connection was closed with {len(lines)} log lines")
            self.refusals[lines[0]["error"]] += 1
        elif client.transport.written:
            self.answered += 1
        else:
            self.waiting += 1
        client.connection.connection_lost(None)
        if self._broker.connection_quotas.buffered_bytes:
            raise Finding(data, "bytes of a closed connection are still counted")

    def pass_time(self) -> None:
        """Let delayed requests expire."""
        loop: ManualLoop = self._broker.loop  # type: ignore[assignment]
        loop.advance(60_000)
