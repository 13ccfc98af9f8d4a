"""Blocking work of the console's requests, in threads that end with the process.

The threads are daemons: a request that waits for a broker which does not answer must not keep the
process from ending. At most so many run at a time; further ones wait for their turn.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

# So far an iterator may be ahead of its reader.
_AHEAD = 16


class Threads:
    """A bounded number of threads."""

    def __init__(self, count: int) -> None:
        """Allow `count` threads at a time."""
        self._free = asyncio.Semaphore(count)

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return the result of a function that blocks; its thread goes on if this is cancelled."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[T] = loop.create_future()

        def work() -> None:
            try:
                _tell(loop, _set_result, ended, function(*arguments))
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is
                _tell(loop, _set_exception, ended, error)
            finally:
                _tell(loop, self._free.release)

        await self._free.acquire()
        _start(work)
        return await ended

    async def iterate(self, items: Iterator[T]) -> AsyncGenerator[T, None]:
        """Yield the items of an iterator that blocks; it is closed when this is."""
        loop = asyncio.get_running_loop()
        found: asyncio.Queue[list[T] | BaseException | None] = asyncio.Queue()
        room = threading.Semaphore(_AHEAD)
        stopped = threading.Event()

        def work() -> None:
            last: BaseException | None = None
            try:
                for each in items:
                    _tell(loop, found.put_nowait, [each])
                    room.acquire()
                    if stopped.is_set():
                        break
            except BaseException as error:  # noqa: BLE001 - it is raised where the items are
                last = error
            finally:
                close = getattr(items, "close", None)
                if close is not None:
                    with suppress(Exception):
                        close()
                _tell(loop, found.put_nowait, last)
                _tell(loop, self._free.release)

        await self._free.acquire()
        _start(work)
        try:
            while True:
                item = await found.get()
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                room.release()
                yield item[0]
        finally:
            stopped.set()
            room.release()


def _start(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="coterie-console-request", daemon=True).start()


def _tell(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: Any) -> None:
    # A loop that is closed has nobody who waits.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *args)


def _set_result(ended: "asyncio.Future[T]", result: T) -> None:
    if not ended.done():
        ended.set_result(result)


def _set_exception(ended: "asyncio.Future[Any]", error: BaseException) -> None:
    if not ended.done():
        ended.set_exception(error)
