"""The life of a partition of a coordinator, and when it serves requests."""

from enum import Enum

from coterie.protocol.errors import ErrorCode


class ShardState(Enum):
    """The life of a shard [coordinator/load] [coordinator/unload]."""

    INITIAL = "initial"
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


# Read for every request: a global is read faster than a member of an enumeration.
ACTIVE = ShardState.ACTIVE
_NONE = ErrorCode.NONE


def availability_error(state: ShardState) -> ErrorCode:
    """Return why a partition cannot serve requests, or NONE [coordinator/availability]."""
    if state is ACTIVE:
        return _NONE
    if state is ShardState.LOADING:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.NOT_COORDINATOR
