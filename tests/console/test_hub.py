"""The hub: one source for all pages, which works only while one is open, and nobody slow is waited
for.

Rules: [console/hub].
"""

import asyncio
import json
import threading
import time
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

import pytest

from coterie.client.errors import ClientError
from coterie.console.event import Event
from coterie.console.hub import IDLE_SOURCES, QUEUE_EVENTS, Hub, Publish, Subscription

LIMIT_S = 60.0


class Counting:
    """A source that counts, one step for each `go`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.number = 0
        self.runs = 0
        self.running = 0
        self.go = threading.Semaphore(0)
        self.stepped = threading.Semaphore(0)
        self.ended = threading.Event()
        self.failure: Exception | None = None
        self.step_limit_s = 0.01
        self.opened_ms = 0

    def run(self, publish: Publish, stopped: threading.Event, opened_ms: int) -> None:
        self.opened_ms = opened_ms
        self.runs += 1
        self.running += 1
        assert self.running == 1
        try:
            while not stopped.is_set():
                if not self.go.acquire(timeout=self.step_limit_s):
                    continue
                if self.failure is not None:
                    raise self.failure
                with self.lock:
                    self.number += 1
                    publish(Event("number", self.number))
                self.stepped.release()
        finally:
            self.running -= 1
            self.ended.set()

    def snapshot(self) -> list[Event]:
        return [Event("all", self.number)]

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self.go.release()


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, LIMIT_S))


async def event(reader: Subscription) -> tuple[str, Any]:
    chunk = await anext(reader)
    name, data = chunk.decode().strip().split("\n")
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_a_source_works_while_a_page_is_open_and_keeps_what_it_knows() -> None:
    async def test() -> None:
        source, hub = Counting(), Hub()
        assert source.runs == 0
        async with aclosing(hub.subscribe("n", lambda: source)) as reader:
            assert await event(reader) == ("all", 0)
            source.step()
            assert await event(reader) == ("number", 1)
        await asyncio.to_thread(source.ended.wait, LIMIT_S)
        assert source.running == 0
        source.step()
        # Nothing is made for no page, and the next one has what there was.
        async with aclosing(hub.subscribe("n", Counting)) as reader:
            assert await event(reader) == ("all", 1)
            assert await event(reader) == ("number", 2)
        hub.close()

    run(test())


def test_a_page_is_told_what_the_thread_of_the_page_before_sees_last() -> None:
    async def test() -> None:
        source, hub = Counting(), Hub()
        # It is at a request, which says nothing yet, when its page goes and the next one comes.
        source.step_limit_s = LIMIT_S
        async with aclosing(hub.subscribe("n", lambda: source)) as reader:
            source.step()
            assert [await event(reader) for _ in range(2)] == [("all", 0), ("number", 1)]
        before_ms = int(time.time() * 1000)
        async with aclosing(hub.subscribe("n", Counting)) as reader:
            after_ms = int(time.time() * 1000)
            assert await event(reader) == ("all", 1)
            assert source.runs == 1
            await asyncio.sleep(0.01)
            source.step()
            assert await event(reader) == ("number", 2)
            source.step()
            assert await event(reader) == ("number", 3)
            # The page has been open for longer than its thread.
            assert source.runs == 2
            assert before_ms <= source.opened_ms <= after_ms
        source.step()
        await asyncio.to_thread(source.ended.wait, LIMIT_S)

    run(test())


def test_twenty_readers_are_one_source_and_each_gets_every_event() -> None:
    async def test() -> None:
        source, hub = Counting(), Hub()
        readers = [hub.subscribe("n", lambda: source) for _ in range(10)]
        source.step(5)
        for _ in range(5):
            assert await asyncio.to_thread(source.stepped.acquire, timeout=LIMIT_S)
        # These come later: their snapshot has what the others were told.
        readers += [hub.subscribe("n", lambda: source) for _ in range(10)]
        source.step(5)
        for place, reader in enumerate(readers):
            begin = 0 if place < 10 else 5
            assert await event(reader) == ("all", begin)
            found = [await event(reader) for _ in range(10 - begin)]
            assert found == [("number", n) for n in range(begin + 1, 11)]
        assert (source.runs, source.running) == (1, 1)
        for reader in readers:
            await reader.aclose()
        await asyncio.to_thread(source.ended.wait, LIMIT_S)

    run(test())


def test_a_slow_reader_is_dropped_and_the_others_go_on() -> None:
    async def test() -> None:
        source, hub = Counting(), Hub()
        slow = hub.subscribe("n", lambda: source)
        quick = hub.subscribe("n", lambda: source)
        assert await event(quick) == ("all", 0)
        for number in range(1, QUEUE_EVENTS + 10):
            source.step()
            assert await event(quick) == ("number", number)
        name, data = await event(slow)
        assert (name, data["kind"]) == ("error", "TooSlow")
        with pytest.raises(StopAsyncIteration):
            await anext(slow)
        await slow.aclose()
        source.step()
        assert await event(quick) == ("number", QUEUE_EVENTS + 10)
        await quick.aclose()

    run(test())


@pytest.mark.parametrize(
    ("failure", "kind"),
    [(ClientError("Gone.", "Come back."), "ClientError"), (ValueError("bug"), "InternalError")],
)
def test_a_source_that_fails_tells_its_readers_and_the_next_page_starts_it_again(
    failure: Exception, kind: str
) -> None:
    async def test() -> None:
        source, hub = Counting(), Hub()
        source.failure = failure
        reader = hub.subscribe("n", lambda: source)
        source.step()
        assert await event(reader) == ("all", 0)
        name, data = await event(reader)
        assert (name, data["kind"]) == ("error", kind)
        with pytest.raises(StopAsyncIteration):
            await anext(reader)
        await reader.aclose()
        source.failure = None
        async with aclosing(hub.subscribe("n", Counting)) as reader:
            source.step()
            assert await event(reader) == ("all", 0)
            assert await event(reader) == ("number", 1)

    run(test())


def test_sources_without_a_page_are_forgotten_oldest_first() -> None:
    async def test() -> None:
        hub = Hub()
        made: list[int] = []

        def make(key: int) -> Counting:
            made.append(key)
            return Counting()

        for key in range(IDLE_SOURCES + 2):
            await hub.subscribe(key, lambda key=key: make(key)).aclose()  # type: ignore[misc]
        for key in (IDLE_SOURCES, 0):
            await hub.subscribe(key, lambda key=key: make(key)).aclose()  # type: ignore[misc]
        assert made == [*range(IDLE_SOURCES + 2), 0]

    run(test())
