"""Asks the share coordinator of a share partition, on whichever broker it is."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from coterie.coordinator.share_state.requests import StateRequest, StateResult
from coterie.coordinator.share_state.service import coordinator_key
from coterie.protocol.errors import ErrorCode
from coterie.server.cluster.image import CoordinatorType
from coterie.server.share_state.runtime import ShareStateRuntime

if TYPE_CHECKING:
    import asyncio

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

    def ask(self, request: StateRequest, done: Done) -> None:
        """Ask the coordinator, again if there is none at the moment.

        Args:
            request: the request.
            done: called with the answer, now or later.
        """
        tries = 0

        def attempt() -> None:
            nonlocal tries
            tries += 1
            runtime = self._coordinator(request)
            if runtime is None or not runtime.exists:
                self._runtime.create_topic()
                answered(StateResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            else:
                runtime.ask(request, answered)

        def answered(result: StateResult) -> None:
            if result.error not in _RETRIED or tries >= _MAX_TRIES:
                done(result)
                return
            self._loop.call_later(_FIRST_PAUSE_S * 2 ** (tries - 1), attempt)

        attempt()

    def _coordinator(self, request: StateRequest) -> ShareStateRuntime | None:
        """Return the runtime that coordinates a share partition; None if no broker does."""
        if self._leadership is None:
            return self._runtime
        key = coordinator_key(request.key)
        member = self._leadership.coordinator(CoordinatorType.SHARE, key)
        return None if member is None else member.share_state
