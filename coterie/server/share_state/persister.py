"""Asks the share coordinator of a share partition, on whichever broker it is."""

from collections.abc import Callable

from coterie.coordinator.share_state.requests import StateRequest, StateResult
from coterie.coordinator.share_state.service import coordinator_key
from coterie.protocol.errors import ErrorCode
from coterie.server.cluster.image import CoordinatorType
from coterie.server.services import Services
from coterie.server.share_state.runtime import ShareStateRuntime

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


def share_coordinator(broker: Services, request: StateRequest) -> ShareStateRuntime | None:
    """Return the runtime that coordinates a share partition; None if no broker does."""
    leadership = broker.leadership
    if leadership is None:
        return broker.share_state
    member = leadership.coordinator(CoordinatorType.SHARE, coordinator_key(request.key))
    return None if member is None else member.share_state


def persist(broker: Services, request: StateRequest, done: Done) -> None:
    """Ask the coordinator, again if there is none at the moment.

    Args:
        broker: the broker that asks.
        request: the request.
        done: called with the answer, now or later.
    """
    tries = 0

    def attempt() -> None:
        nonlocal tries
        tries += 1
        runtime = share_coordinator(broker, request)
        if runtime is None or not runtime.exists:
            broker.share_state.create_topic()
            answered(StateResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            runtime.ask(request, answered)

    def answered(result: StateResult) -> None:
        if result.error not in _RETRIED or tries >= _MAX_TRIES:
            done(result)
            return
        pause_s = _FIRST_PAUSE_S * 2 ** (tries - 1)
        broker.loop.call_later(pause_s, attempt)

    attempt()
