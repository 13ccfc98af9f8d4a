"""What the runtime of a coordinator uses of the broker around it."""

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from coterie.server.logs.flusher import Flusher
from coterie.server.logs.log_opener import LogOpener
from coterie.server.network.delayed_response import PendingWrites
from coterie.storage.errors import OutOfHandles

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class Host(NamedTuple):
    """The surroundings of a runtime.

    Attributes:
        loop: the event loop.
        now_ms: the clock.
        log: the broker's log.
        flusher: syncs logs.
        opener: opens logs.
        pending_writes: collects the responses of a turn.
        handles_short: called when a file could not be opened because of a shortage.
    """

    loop: AbstractEventLoop
    now_ms: Callable[[], int]
    log: "FilteringBoundLogger"
    flusher: Flusher
    opener: LogOpener
    pending_writes: PendingWrites
    handles_short: Callable[[OutOfHandles], None]
