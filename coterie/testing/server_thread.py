"""A thread with an event loop, in which a broker runs beside the test.

Clients of any library can block the test's thread, and nothing of the broker runs in the event loop
of the test. Invariant: the state of the broker is read and changed in this thread only.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import uvloop

from coterie.testing.errors import BrokerLeak, WrongUse

T = TypeVar("T")

# A call does not wait for anything but the thread, so it takes longer only if that hangs.
_CALL_TIMEOUT_S = 30.0


class ServerThread:
    """An event loop that runs in a thread until `stop`."""

    def __init__(self, name: str) -> None:
        """Start the thread; `name` appears in debuggers and in errors."""
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the thread; the future has its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

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
