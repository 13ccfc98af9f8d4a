"""A thread with an event loop, in which a broker runs beside the test.

Clients of any library can block the test's thread, and nothing of the broker runs in the event loop
of the test. Invariant: the state of the broker is read and changed in this thread only.
"""

import asyncio
import itertools
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from coterie.address import Address
from coterie.server.broker import Broker
from coterie.server.clock import system_clock, wall_clock
from coterie.server.config.listeners import Listener
from coterie.server.environment import Environment
from coterie.server.workers import Workers
from coterie.testing.bounds import check
from coterie.testing.errors import EXPLAINED, BrokerLeak, WrongUse
from coterie.testing.held_addresses import HeldAddresses
from coterie.testing.runner import Listening, Unawaited

if TYPE_CHECKING:
    from coterie.server.logging import Logger

T = TypeVar("T")

# A call does not wait for anything but the thread, so it takes longer only if that hangs.
_CALL_TIMEOUT_S = 30.0
# How often a condition is checked.
_PAUSE_S = 0.005


_numbers = itertools.count(1)


class AheadLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock may be ahead of real time.

    Attributes:
        ahead_s: by how much; it only grows.
    """

    def __init__(self) -> None:
        """Start with real time."""
        self._files = selectors.DefaultSelector()
        super().__init__(self._files)
        self.ahead_s = 0.0
        # Its own way to be woken up.
        self._own = set(self._files.get_map())

    def time(self) -> float:
        """Return the time of this clock, in seconds."""
        return super().time() + self.ahead_s

    async def _accept_connection2(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        conn: socket.socket,
        extra: dict[str, Any],
        sslcontext: Any = None,
        server: asyncio.Server | None = None,
        *rest: Any,
    ) -> None:
        """Make the connection that was accepted in the last turn, as the loop of asyncio does.

        Its server may have been closed since then, as a broker that is killed does it. asyncio
        fails then, says so in its debug mode only, and leaves the socket open until the garbage
        collector finds it: the client would wait for a broker that is gone. Here the socket is
        closed. Nothing but this private method of asyncio knows the socket.
        """
        if server is not None and not server.sockets:
            conn.close()
            return
        await super()._accept_connection2(  # type: ignore[misc]
            protocol_factory, conn, extra, sslcontext, server, *rest
        )

    def watched(self) -> list[str]:
        """Describe the sockets and pipes that this loop still waits for."""
        return [
            _described(key.fileobj)
            for number, key in self._files.get_map().items()
            if number not in self._own
        ]


def _described(file: Any) -> str:
    """Describe a socket, or a file by its number."""
    number = file if isinstance(file, int) else file.fileno()
    try:
        with socket.socket(fileno=os.dup(number)) as copy:
            name = copy.getsockname()
            if not isinstance(name, tuple):
                return f"a socket of this machine, file {number}"
            is_listening = copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            return f"a socket {'that listens on' if is_listening else 'at'} {Address(*name[:2])}"
    except OSError:
        return f"the file {number}"


class _ThreadEnvironment(Environment):
    """The environment of a broker in a thread; the names of its threads end in the same way."""

    def __init__(self, *parts: Any, suffix: str, **more: Any) -> None:
        super().__init__(*parts, **more)
        self._suffix = suffix

    def workers(self, name: str, threads: int) -> Workers:
        """See `Environment`."""
        return super().workers(name + self._suffix, threads)


class ServerThread:
    """An event loop that runs in a thread until `stop`."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        """Start the thread.

        Args:
            random_bytes: returns so many random bytes, for the ids of brokers.
        """
        self.loop = AheadLoop()
        self.unawaited: Unawaited = {}
        self._random_bytes = random_bytes
        # A broker that starts again is at its old addresses.
        self._held = HeldAddresses()
        # Of the names of all threads of this broker, in debuggers and in errors.
        self._suffix = f"-of-broker-{next(_numbers)}"
        name = f"coterie{self._suffix}"
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def environment(self, log: "Logger") -> Environment:
        """Return an environment whose clock can be put forward; see `Runner`."""
        loop, real_ms = self.loop, system_clock()
        return _ThreadEnvironment(
            loop,
            log,
            now_ms=lambda: real_ms() + int(loop.ahead_s * 1000),
            monotonic_s=loop.time,
            slice_clock_s=time.monotonic,
            random_bytes=self._random_bytes,
            wall_ms=lambda: wall_clock() + int(loop.ahead_s * 1000),
            suffix=self._suffix,
        )

    async def serve(self, server: Broker, listeners: Sequence[Listener]) -> Sequence[Address]:
        """Listen on sockets; see `Runner`."""
        return await server.start(self._held.hold(listeners))

    async def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], address: Address
    ) -> Listening:
        """Listen on a further socket; see `Runner`."""
        listening = await self.loop.create_server(factory, address.host, address.port)
        port = listening.sockets[0].getsockname()[1]
        return Listening(Address(address.host, port), listening.close)

    def check_waiter(self) -> None:
        """Check that this is another thread; see `Runner`."""
        if threading.current_thread() is self._thread:
            raise WrongUse("the broker's own thread cannot wait for the broker")

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the thread; the future has its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread; wait for its result, however long that takes."""
        return self.submit(work).result()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread; wait for its result and return it."""
        try:
            self.check_waiter()
        except WrongUse:
            work.close()
            raise
        return self._result(work)

    def call(self, function: Callable[[], T]) -> T:
        """Return what a function returns in the thread.

        Raises:
            WrongUse: this is the thread itself, which would wait for itself.
        """
        self.check_waiter()

        async def work() -> T:
            return function()

        return self._result(work())

    def _result(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self.submit(work).result(_CALL_TIMEOUT_S)
        except EXPLAINED as error:
            raise error.with_traceback(None) from error.__cause__

    def advance(self, seconds: float) -> None:
        """Put the clock of the loop forward; what is due by then is done in its order.

        Raises:
            WrongUse: it would be too far ahead.
        """

        def put_forward() -> None:
            check(seconds=self.loop.ahead_s + seconds)
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
            BrokerLeak: the thread does not end.
        """
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_CALL_TIMEOUT_S)
        if self._thread.is_alive():
            raise BrokerLeak(f"the thread {self._thread.name} does not end")
        self.loop.close()
        self._held.close()

    def left(self) -> list[str]:
        """Describe the tasks, sockets and threads that are still there, but for this thread."""

        def find() -> list[str]:
            current = asyncio.current_task()
            tasks = [f"the task {each!r}" for each in asyncio.all_tasks() if each is not current]
            return tasks + self.loop.watched()

        suffix = self._suffix
        threads = [
            f"the thread {each.name}"
            for each in threading.enumerate()
            if each.name.endswith(suffix) and each is not self._thread
        ]
        return self.call(find) + threads
