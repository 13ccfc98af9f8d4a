"""One step of a streams group: its records change the group at once, and can be taken back."""

from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.step import NO_REQUEST
from coterie.coordinator.groups.streams.group import StreamsGroup
from coterie.coordinator.groups.tentative_step import TentativeStep
from coterie.coordinator.kernel.request import RequestContext


class Step(TentativeStep[StreamsGroup]):
    """A step of one streams group: the value that every function of a verb receives.

    Attributes:
        replaces: the Empty classic group whose place this one takes.
    """

    __slots__ = ("replaces",)

    def __init__(
        self,
        partition: PartitionState,
        group: StreamsGroup,
        now_ms: int,
        context: RequestContext = NO_REQUEST,
    ) -> None:
        super().__init__(partition, group, now_ms, context)
        self.replaces: GroupLike | None = None

    def enter(self) -> None:
        """See `TentativeStep`; the group may take the place of a classic one."""
        super().enter()
        operation = self.effects.operation
        assert operation is not None, f"{self.group} enters without a record"
        operation.removes = self.replaces
