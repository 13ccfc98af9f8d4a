"""One step of a group: what the functions of a verb receive. A type derives its own from it.

A step is made for a request to one group, a timer of one group, or a record of one group that has
become durable. It holds what the functions need and collects what follows.
"""

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.kernel.append import Record
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.operation import Operation
from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.protocol.messages.journal_records import Fact

# The context of a step that no request has caused.
NO_REQUEST = RequestContext(ClientContext(), 0, None)


# A type of groups.
G = TypeVar("G", bound=GroupLike)


class GroupStep(Generic[G]):
    """A step of one group.

    Attributes:
        partition: the partition of the group.
        group: the group.
        now_ms: the time.
        context: the client whose request it is.
        effects: receives what follows.
    """

    __slots__ = ("context", "effects", "group", "now_ms", "partition")

    def __init__(
        self,
        partition: PartitionState,
        group: G,
        now_ms: int,
        effects: Effects[Any],
        context: RequestContext = NO_REQUEST,
    ) -> None:
        self.partition = partition
        self.group = group
        self.now_ms = now_ms
        self.effects = effects
        self.context = context

    def arm(self, kind: str, member_id: str, deadline_ms: int) -> None:
        """Arm a timer of the group, or of one of its members; "" stands for the group."""
        self.effects.arm(kind, self.group.group_id, member_id, deadline_ms)

    def cancel(self, kind: str, member_id: str = "") -> None:
        """Cancel a timer of the group, or of one of its members."""
        self.effects.cancel(kind, self.group.group_id, member_id)

    def write(self, record: Record) -> Operation:
        """Add a record to the operation of the step, and return the operation."""
        operation = self.effects.operation
        if operation is None:
            operation = self.effects.operation = Operation(self.group.group_id, [])
        assert operation.key == self.group.group_id, f"{self.group} writes for {operation.key}"
        operation.records.append(record)
        return operation

    def note(self, fact: Fact) -> None:
        """Add the event that something has happened to the group."""
        self.effects.note(self.group.group_id, fact)

    def reply(self, to: Hashable, response: Any) -> None:
        """Answer a delayed request."""
        self.effects.reply(to, response)
