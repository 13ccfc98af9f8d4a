"""The server's environment: event loop, clocks, randomness, threads and log.

Nothing else in the server has a source of these (`make lint` checks it), so a broker with another
environment runs on a loop that a test turns, in virtual time, with ids from a seed, and does the
same again for the same seed. clock.py, run.py, operating_system.py, watchdog.py and log_lines.py
belong to the process and use its own.
"""

import asyncio
import os
import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Self, TypeVar

from coterie.protocol.fields import uuid_text
from coterie.protocol.java_uuid import random_uuid
from coterie.server.clock import system_clock, wall_clock
from coterie.server.loggers import ROOT, Loggers
from coterie.server.workers import Workers, WorkerThreads, once

if TYPE_CHECKING:
    from coterie.server.logging import Logger

T = TypeVar("T")

# A UUID of version 4 has fixed bits for its version and its variant.
_RANDOM_BITS = ~((0xF000 << 64) | (0xC000 << 48))
_VERSION_4_BITS = (0x4000 << 64) | (0x8000 << 48)

# The first six bits that base64url writes as a dash.
_DASH = 0b111110


class Environment:
    """What one broker gets from outside, besides sockets and files.

    Attributes:
        loop: the event loop.
        log: the root of the loggers.
        loggers: the loggers by name, whose levels can be altered.
        now_ms: the clock, in epoch milliseconds; it does not jump.
        wall_ms: the clock of the machine, for times by the clocks of others, such as those of
            tokens. It may jump, and is ahead of `now_ms` after the machine was suspended.
        monotonic_s: counts seconds, for durations; threads may call it, too.
        slice_clock_s: counts the seconds that computing takes, to end a slice of long work.
        random_bytes: returns so many random bytes.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        log: "Logger",
        *,
        now_ms: Callable[[], int],
        monotonic_s: Callable[[], float],
        slice_clock_s: Callable[[], float],
        random_bytes: Callable[[int], bytes],
        wall_ms: Callable[[], int] | None = None,
    ) -> None:
        """Take the parts; without `wall_ms` it is `now_ms`."""
        self.loop = loop
        self.loggers = Loggers(log)
        self.log = self.loggers.named(ROOT)
        self.now_ms = now_ms
        self.wall_ms = now_ms if wall_ms is None else wall_ms
        self.monotonic_s = monotonic_s
        self.slice_clock_s = slice_clock_s
        self.random_bytes = random_bytes
        self._blocking: Workers | None = None

    @classmethod
    def of_process(cls, log: "Logger") -> Self:
        """Return the environment of a broker on the running loop, with real clocks and threads."""
        return cls(
            asyncio.get_running_loop(),
            log,
            now_ms=system_clock(),
            monotonic_s=time.monotonic,
            slice_clock_s=time.monotonic,
            random_bytes=os.urandom,
            wall_ms=wall_clock,
        )

    def random_below(self, bound: int) -> int:
        """Return a random number from 0 up to and without a small bound."""
        return int.from_bytes(self.random_bytes(8)) % bound

    # --- work that waits --------------------------------------------------------------------------

    def workers(self, name: str, threads: int) -> Workers:
        """Return what does work that waits, such as for the disk.

        Args:
            name: the name of the threads.
            threads: their greatest number; with one, work is done in order.
        """
        return WorkerThreads(self.loop, name, threads)

    async def run_blocking(self, call: Callable[[], T]) -> T:
        """Return what a function returns that takes long, without holding the event loop."""
        if self._blocking is None:
            self._blocking = self.workers("coterie-blocking", 1)
        found: list[T] = []
        ended = self.loop.create_future()

        def done(error: Exception | None) -> None:
            if ended.cancelled():
                return
            if error is None:
                ended.set_result(None)
            else:
                ended.set_exception(error)

        self._blocking.submit(once(lambda: found.append(call())), done)
        await ended
        return found[0]

    def stop(self) -> None:
        """End the thread of `run_blocking`."""
        if self._blocking is not None:
            self._blocking.stop()

    def new_lock(self) -> AbstractContextManager[object]:
        """Return a lock for what workers and the event loop both change."""
        return threading.Lock()

    async def next_turn(self) -> None:
        """Let others be served."""
        await asyncio.sleep(0)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        elapsed = self.loop.create_future()
        timer = self.loop.call_later(seconds, elapsed.set_result, None)
        try:
            await elapsed
        finally:
            timer.cancel()

    # --- ids --------------------------------------------------------------------------------------

    def new_file_id(self) -> bytes:
        """Return 8 random bytes, for the name of a write-ahead file."""
        return self.random_bytes(8)

    def new_session_id(self) -> int:
        """Return a random id for a fetch session, above 0 and of 31 bits."""
        return int.from_bytes(self.random_bytes(4)) >> 1 or 1

    def new_uuid_text(self) -> str:
        """Return a random UUID in Java's text form; generated member ids end with one."""
        return random_uuid(self.random_bytes(16))

    def new_topic_id(self) -> bytes:
        """Return a random topic id of 16 bytes [topics/topic-ids].

        As in Kafka, the text form of an id does not begin with a dash, which tools would read as an
        option.
        """
        while True:
            topic_id = self._random_uuid().to_bytes(16)
            if topic_id[0] >> 2 != _DASH:
                return topic_id

    def new_base64_id(self) -> str:
        """Return a random id in Kafka's text form of 22 characters, for a cluster or directory."""
        return uuid_text(self.new_topic_id())

    def _random_uuid(self) -> int:
        return int.from_bytes(self.random_bytes(16)) & _RANDOM_BITS | _VERSION_4_BITS
