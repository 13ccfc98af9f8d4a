"""A limit for the turns of the manual event loop: 20 ms of a processor.

The time of the thread counts, not the time that passes, so other processes do not matter. The
garbage collector and the compiler of codecs are not counted: the first searches the objects of all
tests, the second runs once for each message. With a debugger or a measurement of coverage nothing
is checked.
"""

import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time
from types import FrameType
from typing import Any

from coterie.protocol import compile as codec_compiler
from coterie.server.network.routes import import_handlers
from coterie.server.watchdog import describe_stack

LIMIT_S = 0.020
_limits_s = [LIMIT_S]
# How many times as long code takes while its coverage is measured.
_SLOWED_DOWN = 8

_main = threading.main_thread()
_stack: list[str] = []


class _Uncounted:
    """How long the thread has spent on what is not counted."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._since = 0.0

    def collecting(self, phase: str, _info: dict[str, int]) -> None:
        """Note a phase of the garbage collector."""
        if threading.current_thread() is _main:
            if phase == "start":
                self._since = thread_time()
            else:
                self.seconds += thread_time() - self._since

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose time is not counted."""

        def call(*args: Any) -> Any:
            began_s = thread_time()
            try:
                return function(*args)
            finally:
                self.seconds += thread_time() - began_s

        return call


_uncounted = _Uncounted()


def counted_time() -> float:
    """Return the processor time of the thread that counts, in seconds.

    A tracer slows all code down, so under one less of it counts.
    """
    counted_s = thread_time()
    if threading.current_thread() is _main:
        counted_s -= _uncounted.seconds
    return counted_s if sys.gettrace() is None else counted_s / _SLOWED_DOWN


class LongTurnError(AssertionError):
    """A turn of the event loop used too much of a processor."""


def _sample(_signal: int, frame: FrameType | None) -> None:
    calls, _ = describe_stack(frame)
    _stack[:] = calls


def _prepare() -> None:
    gc.callbacks.append(_uncounted.collecting)
    codec_compiler.execute = _uncounted.wrap(codec_compiler.execute)
    # An import may take as long as a turn; a server does them before it serves.
    for _ in import_handlers():
        pass
    signal.signal(signal.SIGPROF, _sample)


_prepare()


@contextmanager
def limited_turn() -> Iterator[None]:
    """Check how much of a processor the block uses.

    Raises:
        LongTurnError: more than 20 ms; the text has the stack from the middle of that time.
    """
    if threading.current_thread() is not _main or sys.gettrace() is not None:
        yield
        return
    _stack.clear()
    uncounted_s, began_s = _uncounted.seconds, thread_time()
    signal.setitimer(signal.ITIMER_PROF, _limits_s[-1] / 2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    used_s = thread_time() - began_s - (_uncounted.seconds - uncounted_s)
    if used_s > _limits_s[-1]:
        stack = "\n  ".join(_stack or ["(not sampled in time)"])
        text = f"a turn used {used_s * 1000:.1f} ms of a processor; it was at\n  {stack}"
        raise LongTurnError(text)


@contextmanager
def turn_limit(seconds: float) -> Iterator[None]:
    """Allow longer turns in a block, for what tests slow down."""
    _limits_s.append(seconds)
    try:
        yield
    finally:
        _limits_s.pop()
