"""A thread with an event loop, in which a broker runs beside the test.

Clients of any library can block the test's thread, and nothing of the broker runs in the event loop
of the test. Invariant: the state of the broker is read and changed in this thread only.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from coterie.address import Address
from coterie.server.broker import Broker
from coterie.server.environment import Environment, system_clock
from coterie.testing.errors import BrokerLeak, WrongUse

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

T = TypeVar("T")

# A call does not wait for anything but the thread, so it takes longer only if that hangs.
_CALL_TIMEOUT_S = 30.0
# How often a condition is checked.
_PAUSE_S = 0.005


class Runner(Protocol):
    """Where a broker runs: a thread of its own, or the event loop of the test (virtual time)."""

    def environment(self, log: "FilteringBoundLogger") -> Environment:
        """Return the environment of a broker there."""

    async def serve(self, server: Broker, address: Address) -> Address:
        """Let a broker serve clients at an address; return the one with its real port.

        Raises:
            OSError: the address cannot be used.
        """

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T] | asyncio.Task[T]":
        """Begin a coroutine there."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine."""

    def call(self, function: Callable[[], T]) -> T:
        """Return what a function returns there."""

    async def until(self, condition: Callable[[], T | None], timeout_s: float) -> T | None:
        """Wait there until the result of a condition is true; return it, or None at last."""


class AheadLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock may be ahead of real time.

    Attributes:
        ahead_s: by how much; it only grows.
    """

    def __init__(self) -> None:
        """Start with real time."""
        super().__init__()
        self.ahead_s = 0.0

    def time(self) -> float:
        """Return the time of this clock, in seconds."""
        return super().time() + self.ahead_s


class ServerThread:
    """An event loop that runs in a thread until `stop`."""

    def __init__(self, name: str, random_bytes: Callable[[int], bytes]) -> None:
        """Start the thread.

        Args:
            name: appears in debuggers and in errors.
            random_bytes: returns so many random bytes, for the ids of brokers.
        """
        self.loop = AheadLoop()
        self._random_bytes = random_bytes
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def environment(self, log: "FilteringBoundLogger") -> Environment:
        """Return an environment whose clock can be put forward; see `Runner`."""
        loop, real_ms = self.loop, system_clock()
        return Environment(
            loop,
            log,
            now_ms=lambda: real_ms() + int(loop.ahead_s * 1000),
            monotonic_s=loop.time,
            slice_clock_s=time.monotonic,
            random_bytes=self._random_bytes,
        )

    async def serve(self, server: Broker, address: Address) -> Address:
        """Listen on a socket; see `Runner`."""
        return await server.start(address.host, address.port)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the thread; the future has its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread; wait for its result and return it."""
        return self.submit(work).result(_CALL_TIMEOUT_S)

    def call(self, function: Callable[[], T]) -> T:
        """Return what a function returns in the thread.

        Raises:
            WrongUse: this is the thread itself, which would wait for itself.
        """
        if threading.current_thread() is self._thread:
            raise WrongUse("the broker's own thread cannot wait for the broker")

        async def work() -> T:
            return function()

        return self.submit(work()).result(_CALL_TIMEOUT_S)

    def advance(self, seconds: float) -> None:
        """Put the clock of the loop forward; what is due by then is done in its order."""

        def put_forward() -> None:
            self.loop.ahead_s += seconds

        self.call(put_forward)

    async def until(self, condition: Callable[[], T | None], timeout_s: float) -> T | None:
        """Check a condition in this thread until its result is true; return it, or None at last."""
        deadline_s = time.monotonic() + timeout_s
        while not (found := condition()):
            if time.monotonic() >= deadline_s:
                return None
            await asyncio.sleep(_PAUSE_S)
        return found

    def stop(self) -> None:
        """End the thread.

        Raises:
            BrokerLeak: tasks were left, or the thread does not end.
        """
        tasks = self.call(self._other_tasks)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_CALL_TIMEOUT_S)
        if self._thread.is_alive():
            raise BrokerLeak(f"the thread {self._thread.name} does not end")
        self.loop.close()
        if tasks:
            raise BrokerLeak(f"the broker has left tasks: {', '.join(tasks)}")

    def _other_tasks(self) -> list[str]:
        current = asyncio.current_task()
        return [repr(task) for task in asyncio.all_tasks() if task is not current]
