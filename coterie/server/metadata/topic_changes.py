"""Changes of topics and stored settings, one after the other and off the event loop.

Creating a topic makes directories and files and syncs them, so the disk decides how long it takes.
`Workers` do that, and the event loop does the rest between [connections/turns]. As in Kafka's
controller one change ends before the next begins, so a change sees no other one half done
[topics/one-change-at-a-time].

A change is a generator. It checks and changes the broker's state, and yields what it waits for: the
steps of work that a thread does, or other work; an exception of it is raised where it was yielded.
None only lets others be served. A change is made within another one with `yield from`.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

from coterie.server.environment import Environment
from coterie.server.slices import SLICE_S
from coterie.server.workers import Done, Workers

# Begins some work, and calls the given function when it is done.
Work = Callable[[Done], None]
Result = TypeVar("Result")
Change = Generator[Iterator[object] | Work | None, None, Result]

# Called with the result of a change, or with the exception that ended it.
Changed = Callable[[Any, Exception | None], None]


class TopicChanges:
    """The changes that wait, and the one in progress."""

    def __init__(self, environment: Environment, disk: Workers) -> None:
        """Start without changes."""
        self._loop = environment.loop
        self._slice_clock_s = environment.slice_clock_s
        self._disk = disk
        self._queue: deque[tuple[Change[Any], Changed]] = deque()

    @property
    def idle(self) -> bool:
        """Whether all changes are done."""
        return not self._queue

    def submit(self, change: Change[Any], changed: Changed) -> None:
        """Make a change when the earlier ones are made; `changed` may be called at once."""
        self._queue.append((change, changed))
        if len(self._queue) == 1:
            self._continue()

    def _continue(self, error: Exception | None = None) -> None:
        """Go on with the change in progress, and with the next ones if it is done."""
        assert self._queue, "a change that goes on is the first of the queue"
        deadline_s = self._slice_clock_s() + SLICE_S
        while self._queue:
            change, changed = self._queue[0]
            result, failure = None, None
            try:
                work = next(change) if error is None else change.throw(error)
            except StopIteration as end:
                result = end.value
            except Exception as raised:  # noqa: BLE001 - reported to the owner of the change
                failure = raised
            else:
                if work is not None:
                    if callable(work):
                        work(self._continue)
                    else:
                        self._disk.submit(work, self._continue)
                    return
                error = None
                if self._slice_clock_s() >= deadline_s:
                    self._loop.call_soon(self._continue)
                    return
                continue
            error = None
            self._queue.popleft()
            changed(result, failure)


def make_now(change: Change[Result]) -> Result:
    """Make a change here and now, and return its result: only while the broker starts or stops."""
    error: Exception | None = None
    try:
        while True:
            work = next(change) if error is None else change.throw(error)
            error = None if work is None else _outcome(work)
    except StopIteration as end:
        result: Result = end.value
        return result


def _outcome(work: Iterator[object] | Work) -> Exception | None:
    """Do some work here and now; return the exception that ended it, or None."""
    if callable(work):
        outcome: list[Exception | None] = []
        work(outcome.append)
        assert len(outcome) == 1, "work that is done here and now is done once, at once"
        return outcome[0]
    try:
        for _ in work:
            pass
    except Exception as error:  # noqa: BLE001 - raised in the change
        return error
    return None
