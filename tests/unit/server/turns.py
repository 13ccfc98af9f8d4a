"""A limit for the turns of the manual event loop: 20 ms of a processor.

The time of the thread counts, not the time that passes, so other processes do not matter. The
garbage collector and the compiler of codecs are not counted: the first searches the objects of all
tests, the second runs once for each message. With a debugger or a measurement of coverage nothing
is checked.

A test must not fail because of its machine. One that is slower than where the limit was chosen has
as much more time as it needs for a fixed piece of work; and because neighbours who use the same
cores and caches come and go, a test fails only at twice the limit. `make turns` holds the limit
itself, on a quiet machine.
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
# The processor time of the same turn differs by so much with the neighbours of the process.
_NOISE = 2
_limits_s = [LIMIT_S * _NOISE]
# How long the fixed piece of work takes on a quiet machine of the kind where turns are measured.
_PIECE_S = 0.001
# How often it is measured after a turn that seems too long: the machine may be busy just then.
_MEASUREMENTS = 5

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


def _slowness() -> float:
    """Return how many times as long as `_PIECE_S` the fixed piece of work takes, at least 1."""
    began_s = thread_time()
    lengths = dict.fromkeys(range(256), 0)
    for number in range(10_000):
        lengths[number & 255] += len(str(number))
    return max(1.0, (thread_time() - began_s) / _PIECE_S)


def _slowest() -> float:
    """Return the slowness at the start or now, whichever is greater."""
    return max(_slowness_at_start, *(_slowness() for _ in range(_MEASUREMENTS)))


def limit_here_s() -> float:
    """Return the limit of a turn on this machine, with room for its noise."""
    return _limits_s[0] * _slowest()


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
_slowness_at_start = min(_slowness() for _ in range(_MEASUREMENTS))


@contextmanager
def limited_turn() -> Iterator[None]:
    """Check how much of a processor the block uses.

    Raises:
        LongTurnError: more than twice 20 ms of a quiet machine; the text has the stack at half of
            that time.
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
    if used_s > _limits_s[-1] and used_s > _limits_s[-1] * _slowest():
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
