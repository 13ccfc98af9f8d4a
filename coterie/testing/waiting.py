"""Waits that a plain test blocks on and a coroutine awaits.

A method that waits returns a `Waiting`. Outside of an event loop it returns after the wait is over.
Inside of one it returns at once, because the loop must not be blocked, and the wait is awaited:

    kafka.group("billing").wait_stable()            # in a plain test
    await kafka.group("billing").wait_stable()      # in a coroutine
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from coterie.testing.callers import place_of_call
from coterie.testing.errors import EXPLAINED, WaitTimedOut, WrongUse, failed
from coterie.testing.runner import Runner, Submits, Unawaited

T = TypeVar("T")

# Members of a real client join within a second; a busy machine needs a multiple of that.
DEFAULT_TIMEOUT_S = 15.0


class Waiting(Generic[T]):
    """A wait: over already, or to be awaited."""

    def __init__(self, runner: Submits, work: Coroutine[Any, Any, T]) -> None:
        """Wait here and now, unless this thread runs an event loop.

        Raises:
            WrongUse: the broker cannot be waited for here.
        """
        self._future: Future[T] | asyncio.Task[T] | None = None
        self._unawaited = runner.unawaited
        try:
            runner.check_waiter()
        except WrongUse:
            work.close()
            raise
        if _runs_event_loop():
            self._future = runner.submit(work)
            self._unawaited[self._future] = place_of_call()
            return
        try:
            self._result = runner.wait(work)
        except EXPLAINED as error:
            raise failed(error.with_traceback(None)) from error.__cause__

    @property
    def result(self) -> T:
        """What was waited for.

        Raises:
            WrongUse: the wait was not awaited.
        """
        if self._future is None:
            return self._result
        if not self._future.done():
            raise WrongUse("this wait is not over: inside an event loop write `await ...`")
        self._unawaited.pop(self._future, None)
        return self._future.result()

    def __await__(self) -> Generator[Any, None, T]:
        """Wait without blocking the event loop."""
        future = self._future
        if future is None:
            return self._result
        self._unawaited.pop(future, None)
        awaited = future if isinstance(future, asyncio.Future) else asyncio.wrap_future(future)
        try:
            return (yield from awaited.__await__())
        except EXPLAINED as error:
            raise failed(error.with_traceback(None)) from error.__cause__

    def __del__(self) -> None:
        """Give up a wait that nothing has waited for; its broker reports it when it is closed."""
        if self._future is not None and self._future in self._unawaited:
            self._future.cancel()


def take_unawaited(unawaited: Unawaited) -> list[str]:
    """Give up the waits that nothing has awaited; return a description of each."""
    left = []
    while unawaited:
        future, place = unawaited.popitem()
        future.cancel()
        left.append(f"the wait {place}, which was never awaited: write `await ...`")
    return left[::-1]


def _runs_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


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
