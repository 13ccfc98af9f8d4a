"""Blocking work of requests: bounded, in threads that a process does not wait for."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import aclosing

import pytest

from coterie.console.threads import Threads

LIMIT_S = 60.0


def test_a_result_and_an_error_come_back() -> None:
    async def go() -> None:
        threads = Threads(1)
        assert await threads.run(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await threads.run(divmod, 7, 0)

    asyncio.run(go())


def test_no_more_than_so_many_run_at_a_time_and_they_are_daemons() -> None:
    async def go() -> None:
        threads, most = Threads(3), 0
        running: list[threading.Thread] = []
        lock, full = threading.Lock(), threading.Event()

        def work() -> None:
            nonlocal most
            with lock:
                running.append(threading.current_thread())
                most = max(most, len(running))
                if len(running) == 3:
                    full.set()
            full.wait(LIMIT_S)
            with lock:
                running.remove(threading.current_thread())
            assert threading.current_thread().daemon

        await asyncio.gather(*(threads.run(work) for _ in range(9)))
        assert most == 3

    asyncio.run(go())


def test_an_iterator_is_closed_in_its_thread_when_its_reader_is_gone() -> None:
    async def go() -> None:
        closed = threading.Event()
        made = 0

        def endless() -> Iterator[int]:
            nonlocal made
            try:
                while True:
                    made += 1
                    yield made
            finally:
                closed.set()

        threads = Threads(1)
        async with aclosing(threads.iterate(endless())) as found:
            assert [await anext(found) for _ in range(100)] == list(range(1, 101))
        await asyncio.to_thread(closed.wait, LIMIT_S)
        assert closed.is_set()
        # It was not far ahead of its reader.
        assert made < 150
        # Its thread is free again.
        assert await threads.run(int) == 0

    asyncio.run(go())


def test_the_error_of_an_iterator_comes_after_its_items() -> None:
    def two() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    async def go() -> None:
        async with aclosing(Threads(1).iterate(two())) as found:
            assert await anext(found) == 1
            with pytest.raises(ValueError, match="no more"):
                await anext(found)

    asyncio.run(go())
