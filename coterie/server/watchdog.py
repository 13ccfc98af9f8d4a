"""The watchdog: reports what held the event loop for too long [connections/watchdog].

A thread sends the event loop a signal and waits for the answer. If that takes half of the limit it
takes the stack of the loop's thread, which names the culprit. The loop itself does nothing for it
between two signals, so requests do not get slower.
"""

import os
import sys
import threading
import time
import traceback
from asyncio import AbstractEventLoop
from collections.abc import Callable
from types import FrameType
from typing import NamedTuple

from coterie.server.operating_system import cpu_clock

_PACKAGE = os.path.dirname(os.path.dirname(__file__))
# How many of the innermost calls a report names.
_STACK_DEPTH = 12


class HeldLoop(NamedTuple):
    """A report.

    Attributes:
        held_ms: how long the event loop was held, by the watchdog's clock.
        cpu_ms: how much of the processor its thread used meanwhile. If this is much less, it
            waited: for the disk, or for a processor.
        culprit: the innermost function of ours, with file and line; "" if it was over too soon.
        stack: the innermost calls, the last one first.
    """

    held_ms: int
    cpu_ms: int
    culprit: str
    stack: tuple[str, ...]


class Watchdog:
    """Watches one event loop, from `start` to `stop`."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        report: Callable[[HeldLoop], None],
        limit_ms: float,
        *,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Watch nothing yet.

        Args:
            loop: the event loop.
            report: called in the watchdog's thread.
            limit_ms: how long the event loop may be held.
            clock: counts the seconds; by default real time. Tests count the time that the loop's
                thread has used of a processor, which other processes do not affect.
        """
        assert limit_ms > 0, "0 turns the watchdog off, which is up to the caller"
        self._loop = loop
        self._report = report
        self._limit_s = limit_ms / 1000
        self._clock = clock or time.monotonic
        self._stopped = threading.Event()
        self._watched = 0
        self._cpu_clock: Callable[[], float] = time.monotonic
        self._thread = threading.Thread(target=self._run, name="coterie-watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch; called in the thread of the event loop."""
        self._watched = threading.get_ident()
        self._cpu_clock = cpu_clock(self._watched)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._limit_s / 2):
            answered = threading.Event()
            began, cpu_began = self._clock(), self._cpu_clock()
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:
                return  # The loop is closed.
            stack: tuple[str, ...] = ()
            culprit = ""
            while not answered.wait(self._limit_s / 4):
                if self._stopped.is_set():
                    return
                if not stack and self._clock() - began >= self._limit_s / 2:
                    stack, culprit = _stack_of(self._watched)
            held_s = self._clock() - began
            if held_s >= self._limit_s:
                used_s = self._cpu_clock() - cpu_began
                self._report(HeldLoop(round(held_s * 1000), round(used_s * 1000), culprit, stack))


def _stack_of(thread: int) -> tuple[tuple[str, ...], str]:
    """Return the innermost calls of a thread, and the innermost one of ours."""
    frame: FrameType | None = sys._current_frames().get(thread)  # noqa: SLF001 - public by its documentation
    return describe_stack(frame)


def describe_stack(innermost: FrameType | None) -> tuple[tuple[str, ...], str]:
    """Return the calls that a frame ends, and the innermost one of ours."""
    calls = []
    culprit = ""
    # Not `extract_stack`, which reads the files of the source.
    for frame, line in traceback.walk_stack(innermost):
        code = frame.f_code
        call = f"{code.co_filename.removeprefix(_PACKAGE).lstrip('/')}:{line} {code.co_qualname}"
        calls.append(call)
        if not culprit and code.co_filename.startswith(_PACKAGE):
            culprit = call
    return tuple(calls[:_STACK_DEPTH]), culprit
