"""Asks the share coordinator of a share partition, on whichever broker it is.

While a request is tried again those behind it, about the same share partition, wait. Otherwise an
older write could follow a newer one, and the persisted start offset would go back; or a load would
miss what a write, which was asked before it, is about to add [share-partitions/persister-retries].
"""

from bisect import insort
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from coterie.coordinator.share_state.requests import (
    NO_OFFSET,
    ShareKey,
    StateRequest,
    StateResult,
    Write,
)
from coterie.coordinator.share_state.service import coordinator_key
from coterie.protocol.errors import ErrorCode
from coterie.server.cluster.image import CoordinatorType
from coterie.server.share_state.runtime import ShareStateRuntime

if TYPE_CHECKING:
    import asyncio
    from asyncio import TimerHandle

    from coterie.server.cluster.leadership import Leadership

Done = Callable[[StateResult], None]

# How often a request is tried while there is no coordinator, and how long it waits in between: as
# Kafka, 1 s at first, then twice as long [share-partitions/persister-retries].
_MAX_TRIES = 5
_FIRST_PAUSE_S = 1.0
_RETRIED = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class _Asked:
    """A request that has no answer yet.

    Attributes:
        request, done: see `Persister.ask`.
        number: how many requests about its share partition were before it.
        tries: how often it was tried.
    """

    __slots__ = ("done", "number", "request", "tries")

    def __init__(self, request: StateRequest, done: Done, number: int) -> None:
        self.request = request
        self.done = done
        self.number = number
        self.tries = 0


class _Line:
    """The requests about one share partition that have no answer yet.

    Attributes:
        under_way: how many are being handled by the coordinator.
        waiting: those that wait to be tried, in order.
        timer: tries them; None while no request has failed.
        start_offset: the largest start offset of all writes since there are any. A write that is
            tried again has this one: one behind it may have succeeded meanwhile.
        number: how many requests there were.
    """

    __slots__ = ("number", "start_offset", "timer", "under_way", "waiting")

    def __init__(self) -> None:
        self.under_way = 0
        self.waiting: list[_Asked] = []
        self.timer: TimerHandle | None = None
        self.start_offset = NO_OFFSET
        self.number = 0


class Persister:
    """Asks for a broker."""

    def __init__(
        self,
        loop: "asyncio.AbstractEventLoop",
        runtime: ShareStateRuntime,
        leadership: "Leadership | None",
    ) -> None:
        """Ask nothing yet.

        Args:
            loop: the event loop.
            runtime: the share coordinator of the broker.
            leadership: knows those of other brokers; None without any.
        """
        self._loop = loop
        self._runtime = runtime
        self._leadership = leadership
        self._lines: dict[ShareKey, _Line] = {}

    def ask(self, request: StateRequest, done: Done) -> None:
        """Ask the coordinator, again if there is none at the moment.

        Args:
            request: the request.
            done: called with the answer, now or later.
        """
        line = self._lines.get(request.key)
        if line is None:
            line = self._lines[request.key] = _Line()
        line.number += 1
        if isinstance(request, Write):
            line.start_offset = max(line.start_offset, request.start_offset)
        line.waiting.append(_Asked(request, done, line.number))
        self._try_waiting(line)

    def stop(self) -> None:
        """Ask nothing again: the broker stops."""
        for line in self._lines.values():
            line.waiting.clear()
            if line.timer is not None:
                line.timer.cancel()

    def _try_waiting(self, line: _Line) -> None:
        """Try what waits, in order, up to the first request that finds no coordinator."""
        while line.waiting and line.timer is None:
            asked = line.waiting.pop(0)
            asked.tries += 1
            line.under_way += 1
            self._try(line, asked)

    def _try(self, line: _Line, asked: _Asked) -> None:
        request = asked.request
        if asked.tries > 1 and isinstance(request, Write):
            request = request._replace(start_offset=line.start_offset)
        runtime = self._coordinator(request)
        if runtime is None or not runtime.exists:
            self._runtime.create_topic()
            self._answered(line, asked, StateResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            runtime.ask(request, partial(self._answered, line, asked))

    def _answered(self, line: _Line, asked: _Asked, result: StateResult) -> None:
        line.under_way -= 1
        if result.error in _RETRIED:
            self._failed(line, asked, result)
        else:
            asked.done(result)
        is_over = not line.waiting and not line.under_way
        if is_over and self._lines.get(asked.request.key) is line:
            del self._lines[asked.request.key]

    def _failed(self, line: _Line, asked: _Asked, result: StateResult) -> None:
        """Try a request again after a pause, with those behind it, or give it up."""
        if line.timer is None:
            # Those behind it would have found no coordinator either.
            for each in line.waiting:
                each.tries += 1
        insort(line.waiting, asked, key=lambda each: each.number)
        given_up = [each for each in line.waiting if each.tries >= _MAX_TRIES]
        line.waiting = [each for each in line.waiting if each.tries < _MAX_TRIES]
        if line.waiting and line.timer is None:
            pause_s = _FIRST_PAUSE_S * 2 ** (line.waiting[0].tries - 1)
            line.timer = self._loop.call_later(pause_s, self._go_on, line)
        for each in given_up:
            each.done(result)

    def _go_on(self, line: _Line) -> None:
        line.timer = None
        self._try_waiting(line)

    def _coordinator(self, request: StateRequest) -> ShareStateRuntime | None:
        """Return the runtime that coordinates a share partition; None if no broker does."""
        if self._leadership is None:
            return self._runtime
        key = coordinator_key(request.key)
        member = self._leadership.coordinator(CoordinatorType.SHARE, key)
        return None if member is None else member.share_state
