"""What the runtime of a coordinator uses of the broker around it."""

from collections.abc import Callable

from coterie.server.environment import Environment
from coterie.server.loggers import GROUP_COORDINATOR
from coterie.server.logs.flusher import Flusher
from coterie.server.logs.log_opener import LogOpener
from coterie.server.logs.partition import Partition
from coterie.server.network.delayed_response import PendingWrites
from coterie.storage.errors import OutOfHandles


class Host:
    """The surroundings of a runtime.

    Attributes:
        loop, now_ms, log: those of the environment.
        flusher: syncs logs.
        opener: opens logs.
        pending_writes: collects the responses of a turn.
        handles_short: called when a file could not be opened because of a shortage.
        leads: returns whether this broker leads a partition, and so owns it.
        node_id: which of several brokers it is; -1 for the only one.
    """

    __slots__ = (
        "flusher", "handles_short", "leads", "log", "loop", "node_id", "now_ms", "opener",
        "pending_writes",
    )  # fmt: skip

    def __init__(
        self,
        environment: Environment,
        flusher: Flusher,
        opener: LogOpener,
        pending_writes: PendingWrites,
        handles_short: Callable[[OutOfHandles], None],
        leads: Callable[[Partition], bool],
    ) -> None:
        self.loop = environment.loop
        self.now_ms = environment.now_ms
        self.log = environment.loggers.named(GROUP_COORDINATOR)
        self.flusher = flusher
        self.opener = opener
        self.pending_writes = pending_writes
        self.handles_short = handles_short
        self.leads = leads
        self.node_id = -1
