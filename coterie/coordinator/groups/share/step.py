"""One step of a share group: its records change the group at once, and can be taken back."""

from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.groups.step import NO_REQUEST
from coterie.coordinator.groups.tentative_step import TentativeStep
from coterie.coordinator.kernel.request import RequestContext


class Step(TentativeStep[ShareGroup]):
    """A step of one share group: the value that every function of a verb receives."""

    __slots__ = ("_initializing_since",)

    def __init__(
        self,
        partition: PartitionState,
        group: ShareGroup,
        now_ms: int,
        context: RequestContext = NO_REQUEST,
    ) -> None:
        super().__init__(partition, group, now_ms, context)
        self._initializing_since = group.initializing_since

    def undo(self) -> None:
        """See `TentativeStep`."""
        super().undo()
        self.group.initializing_since = self._initializing_since
