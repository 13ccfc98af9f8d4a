"""Waits that a plain test blocks on and a coroutine awaits.

A method that waits returns a `Waiting`. Outside of an event loop it returns after the wait is over.
Inside of one it returns at once, because the loop must not be blocked, and the wait is awaited:

    kafka.group("billing").wait_stable()            # in a plain test
    await kafka.group("billing").wait_stable()      # in a coroutine
"""

import asyncio
import warnings
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar

from coterie.testing.errors import WaitTimedOut, WrongUse
from coterie.testing.server_thread import Runner

T = TypeVar("T")

# Members of a real client join within a second; a busy machine needs a multiple of that.
DEFAULT_TIMEOUT_S = 15.0


class Submits(Protocol):
    """Where the work of a wait is done."""

    def check_waiter(self) -> None:
        """Check that what runs there can be waited for here.

        Raises:
            WrongUse: it cannot.
        """

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T] | asyncio.Task[T]":
        """Begin a coroutine there."""


class Waiting(Generic[T]):
    """A wait: over already, or to be awaited."""

    def __init__(self, runner: Submits, work: Coroutine[Any, Any, T]) -> None:
        """Wait here and now, unless this thread runs an event loop.

        Raises:
            WrongUse: the broker cannot be waited for here.
        """
        self._awaited = True
        try:
            runner.check_waiter()
        except WrongUse:
            work.close()
            raise
        self._future: Future[T] | asyncio.Task[T]
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._future = runner.submit(work)
            self._future.result()
        else:
            self._awaited = False
            self._future = runner.submit(work)

    @property
    def result(self) -> T:
        """What was waited for.

        Raises:
            WrongUse: the wait was not awaited.
        """
        if not self._awaited and not self._future.done():
            raise WrongUse("this wait is not over: inside an event loop write `await ...`")
        return self._future.result()

    def __await__(self) -> Generator[Any, None, T]:
        """Wait without blocking the event loop."""
        self._awaited = True
        future = self._future
        return (
            future if isinstance(future, asyncio.Future) else asyncio.wrap_future(future)
        ).__await__()

    def __del__(self) -> None:
        """Warn about a wait that nothing has waited for."""
        if not self._awaited:
            self._future.cancel()
            text = "a wait inside an event loop was never awaited: write `await ...`"
            warnings.warn(text, RuntimeWarning, stacklevel=2)


async def until(
    runner: Runner,
    condition: Callable[[], T | None],
    what: str,
    timeout_s: float,
    picture: Callable[[], str],
) -> T:
    """Wait in the broker's thread until the result of a condition is true, and return that.

    Args:
        runner: where the broker runs.
        condition: returns None or another false value while it does not hold.
        what: what is waited for, as a clause.
        timeout_s: the time limit.
        picture: describes the present state, for the error.

    Raises:
        WaitTimedOut: the condition does not hold in time.
    """
    found = await runner.until(condition, timeout_s)
    if not found:
        raise WaitTimedOut(f"{what}: not so within {timeout_s:g} s\n{picture()}")
    return found
