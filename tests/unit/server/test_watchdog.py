"""The watchdog: what holds the event loop is reported with its name.

Rules: [connections/watchdog].
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

import pytest

from coterie.server.watchdog import HeldLoop, Watchdog
from tests.unit.server.manual_loop import ManualLoop
from tests.unit.server.running import PATIENCE_S
from tests.unit.server.turns import LIMIT_S, LongTurnError


def use_processor(seconds: float) -> None:
    """Use this much of a processor, however long that takes."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def watch(work: Callable[[], None], is_wanted: Callable[[HeldLoop], bool]) -> HeldLoop:
    """Do some work on an event loop that is watched; return the first report that is wanted.

    On a busy machine the loop may be held at other places, too.
    """
    reports: SimpleQueue[HeldLoop] = SimpleQueue()

    async def run() -> HeldLoop:
        watchdog = Watchdog(asyncio.get_running_loop(), reports.put, 20)
        watchdog.start()
        end = time.monotonic() + PATIENCE_S
        try:
            while time.monotonic() < end:
                work()
                await asyncio.sleep(0)
                while not reports.empty():
                    report = reports.get()
                    if is_wanted(report):
                        return report
        finally:
            watchdog.stop()
        raise AssertionError("no report that is wanted")

    return asyncio.run(run())


def test_computation_is_reported() -> None:
    held = watch(
        lambda: use_processor(0.2),
        lambda report: any("use_processor" in call for call in report.stack),
    )
    assert held.held_ms >= 20


def test_waiting_is_reported() -> None:
    held = watch(lambda: time.sleep(0.2), lambda report: report.cpu_ms < report.held_ms)
    assert held.held_ms >= 20


def test_watchdog_ends_with_its_loop() -> None:
    async def run() -> Watchdog:
        watchdog = Watchdog(asyncio.get_running_loop(), lambda _: None, 10)
        watchdog.start()
        return watchdog

    watchdog = asyncio.run(run())
    watchdog._thread.join(PATIENCE_S)
    assert not watchdog._thread.is_alive()


def test_long_turn_of_a_test_fails_with_its_stack() -> None:
    if sys.gettrace() is not None:
        pytest.skip("turns are not limited while a tracer slows them down")
    loop = ManualLoop()
    # Long enough for the timer of a busy machine, which counts whole ticks.
    loop.call_soon(use_processor, 50 * LIMIT_S)
    with pytest.raises(LongTurnError, match="use_processor"):
        loop.turn()


def test_time_that_a_turn_waits_is_not_counted() -> None:
    loop = ManualLoop()
    loop.call_soon(time.sleep, 3 * LIMIT_S)
    loop.turn()


def test_turns_of_other_threads_are_not_limited() -> None:
    loop = ManualLoop()
    loop.call_soon(use_processor, 4 * LIMIT_S)
    thread = threading.Thread(target=loop.turn)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
