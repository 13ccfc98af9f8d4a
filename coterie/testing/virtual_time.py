"""Virtual time: an event loop whose clock jumps to the next timer when nothing else is left to do.

The loop of the running test is changed for a block: `loop.time`, `time.time` and `time.monotonic`
agree, and connections to the broker are made in memory. Unmodified asyncio clients live through
session timeouts of 45 s and retentions of a week in milliseconds, and for a seed they do the same
again, byte for byte.

Invariants: time hardly moves while anything is ready to run; it never goes back; outside of the
block everything is as before.
"""

import asyncio
import random
import ssl
import threading
import time
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from coterie.address import Address
from coterie.server.broker import Broker
from coterie.server.config.listeners import Listener
from coterie.server.environment import Environment
from coterie.testing.aiokafka_clock import stamp_records
from coterie.testing.bounds import check
from coterie.testing.errors import WrongUse
from coterie.testing.memory_connections import (
    Accept,
    Frame,
    accepting,
    connect,
    connect_with_tls,
)
from coterie.testing.runner import Listening, Unawaited
from coterie.virtual.environment import SeededEnvironment
from coterie.virtual.selector import JumpingSelector, microseconds_behind

if TYPE_CHECKING:
    from coterie.server.logging import Logger

T = TypeVar("T")

# Where the broker is in the block. It is in its responses, which are the same in each run.
VIRTUAL_ADDRESS = Address("127.0.0.1", 9092)
# The first moment: 2026-01-01T00:00:00Z. Each block begins with it, so traces can be compared.
START_MS = 1_767_225_600_000
# `loop.time` at the first moment. Timers that were set before the block are later than this, and
# wait until its end.
_START_S = 1024.0
_MICROSECONDS = 1_000_000
# How long time stands still for work in a thread, such as the hash of a password. A thread that
# works longer may wait for this loop.
_MOST_THREAD_TIME_S = 1.0
# The clocks that clients read, besides `loop.time`.
_CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns")


class Condition(NamedTuple):
    """What a wait in virtual time waits for, and what to do when it holds."""

    holds: Callable[[], Any]
    met: "asyncio.Future[Any]"


class VirtualClock:
    """The clock of a block in virtual time.

    Attributes:
        loop, seed: the event loop, and the seed of the block.
        thread: the identifier of the thread of the loop.
        trace: every chunk of bytes on the connections to the broker, with its time.
        listeners: by address, what lets the broker serve a transport in memory.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seed: int) -> None:
        """Prepare to change a loop.

        Raises:
            WrongUse: the loop is not asyncio's own, or has a virtual clock already.
        """
        if not isinstance(loop, BaseSelectorEventLoop):
            raise WrongUse(
                f"virtual time needs asyncio's own event loop, not {type(loop).__module__}'s:"
                " run this test without uvloop"
            )
        if isinstance(getattr(loop, "_selector", None), JumpingSelector):
            raise WrongUse("this event loop has a virtual clock already: end its block first")
        self.loop = loop
        self.trace: list[Frame] = []
        self.listeners: dict[Address, Accept] = {}
        self.seed = seed
        self._elapsed_us = 0
        self.thread = threading.get_ident()
        self._conditions: list[Condition] = []
        # When the calls have begun, in real time, that are in other threads.
        self._in_threads: dict[asyncio.Future[Any], float] = {}
        self._real: dict[str, Callable[[], float]] = {name: getattr(time, name) for name in _CLOCKS}
        self._random_state = random.getstate()
        self._put_back: Callable[[], None] = lambda: None

    # --- the time ---------------------------------------------------------------------------------

    def monotonic_s(self) -> float:
        """Return what `time.monotonic` and `loop.time` return in the block."""
        return _START_S + self._elapsed_us / _MICROSECONDS

    def now_ms(self) -> int:
        """Return the time in epoch milliseconds."""
        return START_MS + self._elapsed_us // 1000

    @property
    def elapsed_s(self) -> float:
        """The seconds since the block began."""
        return self._elapsed_us / _MICROSECONDS

    async def advance(self, seconds: float) -> None:
        """Let time pass; everything that is due meanwhile happens in its order.

        Raises:
            WrongUse: the number is negative or longer than ten years.
        """
        check(seconds=seconds)
        await asyncio.sleep(seconds)

    def jump(self, seconds: float) -> None:
        """Move just behind the next timer; see `JumpingClock`."""
        self._elapsed_us += microseconds_behind(seconds)

    # --- conditions -------------------------------------------------------------------------------

    async def until(self, holds: Callable[[], T | None], timeout_s: float) -> T | None:
        """Wait until a condition holds, which is checked before each jump; None in the end."""
        met: asyncio.Future[T] = self.loop.create_future()
        condition = Condition(holds, met)
        self._conditions.append(condition)
        try:
            async with asyncio.timeout(timeout_s):
                return await met
        except TimeoutError:
            return None
        finally:
            self._conditions.remove(condition)

    def check_conditions(self) -> bool:
        """End the waits whose condition holds; return whether there are any."""
        is_met = False
        for holds, met in self._conditions:
            if not met.done():
                found = holds()
                if found:
                    met.set_result(found)
                    is_met = True
        return is_met

    # --- threads ----------------------------------------------------------------------------------

    def thread_time_s(self) -> float:
        """Return how long to wait in real time for the calls in threads; see `JumpingClock`."""
        if not self._in_threads:
            return 0.0
        latest_s = max(self._in_threads.values())
        return max(latest_s + _MOST_THREAD_TIME_S - self._real["monotonic"](), 0.0)

    def _watched(self, call: "asyncio.Future[T]") -> "asyncio.Future[T]":
        """Let time stand still for a call in another thread."""
        self._in_threads[call] = self._real["monotonic"]()
        call.add_done_callback(self._in_threads.pop)
        return call

    # --- the block --------------------------------------------------------------------------------

    def install(self) -> None:
        """Change the loop and the clocks."""
        loop = self.loop
        create_connection: Any = loop.create_connection

        async def connected(
            factory: Callable[[], Any], host: Any = None, port: Any = None, **options: Any
        ) -> Any:
            accept = self.listeners.get(Address(host, port))
            if accept is not None:
                context = options.get("ssl")
                if context is True:
                    context = ssl.create_default_context()
                return await self._connect(factory(), accept, host, context)
            return await create_connection(factory, host, port, **options)

        # Attributes of the instance hide those of the class until they are deleted again.
        attributes = vars(loop)
        attributes["time"] = self.monotonic_s
        attributes["create_connection"] = connected
        run_in_executor: Any = loop.run_in_executor
        attributes["run_in_executor"] = lambda *call: self._watched(run_in_executor(*call))
        attributes["_selector"] = JumpingSelector(attributes["_selector"], self)
        values = {
            "time": lambda: self.now_ms() / 1000,
            "time_ns": lambda: self.now_ms() * 1_000_000,
            "monotonic": self.monotonic_s,
            "monotonic_ns": lambda: int(self.monotonic_s() * 1e9),
        }
        for name in _CLOCKS:
            setattr(time, name, self._for_this_thread(values[name], self._real[name]))
        self._put_back = stamp_records(self.now_ms)
        random.seed(self.seed)

    async def _connect(
        self,
        client: asyncio.Protocol,
        accept: Accept,
        host: str,
        context: ssl.SSLContext | None,
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        if context is None:
            return connect(self.loop, client, accept, self.trace, self.now_ms)
        # Nobody reads before the handshake.
        plain = connect(self.loop, asyncio.Protocol(), accept, self.trace, self.now_ms)
        return await connect_with_tls(self.loop, client, plain, context, host)

    def uninstall(self) -> None:
        """Put everything back."""
        for name, real in self._real.items():
            setattr(time, name, real)
        attributes = vars(self.loop)
        attributes["_selector"] = attributes["_selector"].real
        del attributes["time"], attributes["create_connection"], attributes["run_in_executor"]
        self._put_back()
        random.setstate(self._random_state)

    def _for_this_thread(
        self, virtual: Callable[[], float], real: Callable[[], float]
    ) -> Callable[[], float]:
        """Return a clock that is virtual in the thread of the block only."""

        def read() -> float:
            return virtual() if threading.get_ident() == self.thread else real()

        return read


class LoopRunner:
    """Runs the work of a broker that lives in the running event loop; see `ServerThread`."""

    def __init__(self, clock: VirtualClock, unawaited: Unawaited) -> None:
        """Run in the loop of a clock."""
        self.clock = clock
        self.unawaited = unawaited

    def environment(self, log: "Logger") -> Environment:
        """Return the environment of the seed; see `Runner`."""
        clock = self.clock
        return SeededEnvironment(
            clock.loop, log, clock.seed, now_ms=clock.now_ms, monotonic_s=clock.monotonic_s
        )

    async def serve(self, server: Broker, listeners: Sequence[Listener]) -> Sequence[Address]:
        """Serve connections in memory; see `Runner`."""
        (listener,) = listeners
        server.advertise(listener.name, listener.address)
        serve = accepting(server.factory_of(listener))

        def accept(transport: asyncio.Transport) -> asyncio.BaseProtocol:
            if server not in server.shared.members:
                raise ConnectionRefusedError(f"nothing listens on {listener.address}")
            return serve(transport)

        # A broker that starts later at the address takes its place.
        self.clock.listeners[listener.address] = accept
        await server.begin()
        return [listener.address]

    async def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], address: Address
    ) -> Listening:
        """Serve connections in memory at another address; see `Runner`."""
        address = Address(address.host, address.port or VIRTUAL_ADDRESS.port + 1)
        listeners = self.clock.listeners
        listeners[address] = accepting(factory)
        return Listening(address, lambda: listeners.pop(address, None))

    @property
    def _is_idle_here(self) -> bool:
        """Whether the loop is that of this thread and does not run: a plain fixture is set up."""
        return threading.get_ident() == self.clock.thread and not self.clock.loop.is_running()

    def check_waiter(self) -> None:
        """Check that this is the event loop in virtual time, or its thread; see `Runner`."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is not self.clock.loop and not (running is None and self._is_idle_here):
            raise WrongUse(
                "the broker is in virtual time, in the event loop of the test: wait for it there,"
                " with `await ...`, and not in another thread or event loop"
            )

    def submit(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Begin a coroutine."""
        return self.clock.loop.create_task(work)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the loop, which is idle, until a coroutine has ended; see `Runner`."""
        return self.clock.loop.run_until_complete(work)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine; inside of the loop it has to wait for nothing.

        Raises:
            WrongUse: it has to.
        """
        if self._is_idle_here:
            return self.wait(work)
        try:
            work.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        work.close()
        raise WrongUse("the broker is busy and cannot be waited for here: await something first")

    def call(self, function: Callable[[], T]) -> T:
        """Return what a function returns."""
        return function()

    async def until(self, condition: Callable[[], T | None], timeout_s: float) -> T | None:
        """Wait until a condition holds; see `ServerThread.until`."""
        return condition() or await self.clock.until(condition, timeout_s)
