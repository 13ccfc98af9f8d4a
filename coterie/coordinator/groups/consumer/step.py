"""One step of a consumer group: its records change the group at once, and can be taken back."""

from collections.abc import Iterable, Sequence

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.member import ConsumerMember
from coterie.coordinator.groups.consumer.records import ConsumerRecords
from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.step import NO_REQUEST, GroupStep
from coterie.coordinator.kernel.append import Record
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.journal_records import Fact
from coterie.protocol.wire import Message


class Step(GroupStep[ConsumerGroup]):
    """A step of one consumer group: the value that every function of a verb receives.

    A verb makes its records first. Then it asks whether they fit one batch, and only if they do it
    arms timers, adds events and answers: a verb that is refused has done nothing
    [consumer-groups/large-operation].

    Attributes:
        replaces: the group of another type, or without members, whose place this one takes.
        creates: whether the group is a new one.
        becomes: the group of another type that takes the place of this one.
        left: the members that the group had before it became another one.
        facts: what has happened, until it is known that the records fit.
        took_over: the member that has the place of a static member since this step.
    """

    __slots__ = (
        "_before",
        "_checked_version",
        "becomes",
        "creates",
        "facts",
        "left",
        "replaces",
        "took_over",
    )

    def __init__(
        self,
        partition: PartitionState,
        group: ConsumerGroup,
        now_ms: int,
        context: RequestContext = NO_REQUEST,
    ) -> None:
        super().__init__(partition, group, now_ms, Effects(), context)
        self.replaces: GroupLike | None = None
        self.creates = False
        self.becomes: GroupLike | None = None
        self.left: Sequence[ConsumerMember] = ()
        self.took_over: str | None = None
        self.facts: list[Fact] = []
        self._checked_version = group.checked_version
        # The values that the records have replaced.
        self._before: list[Record] = []

    def set(self, key: Message, value: Message | None) -> None:
        """Write a record and apply it; null removes what the group has under the key."""
        self._before.append((key, self.group.apply(key, value)))
        self.write((key, value))

    def remove(self, keys: Iterable[Message]) -> None:
        """Write tombstones and apply them."""
        for key in keys:
            self.set(key, None)

    def undo(self) -> None:
        """Take all records back."""
        for key, value in reversed(self._before):
            self.group.apply(key, value)
        self._before.clear()
        self.facts.clear()
        self.effects.operation = None
        # The epoch that a changed topic has raised may be among what was taken back.
        self.group.checked_version = self._checked_version

    def fits(self) -> bool:
        """Return whether the records fit one batch; otherwise they are taken back.

        If they do, the group takes its place in the partition with the operation.
        """
        operation = self.effects.operation
        if operation is None:
            return True
        if not self.partition.fits(operation):
            self.undo()
            return False
        for fact in self.facts:
            self.note(fact)
        group, replaces = self.group, self.replaces
        if self.creates:
            records_of(self.partition).groups[group.group_id] = group
            operation.creates, operation.removes = group, replaces
            if replaces is not None and not replaces.is_empty:
                error = ErrorCode.REBALANCE_IN_PROGRESS
                self.partition.close(replaces, error, self.now_ms, self.effects)
        if self.becomes is not None:
            operation.creates, operation.removes = self.becomes, group
        return True


def records_of(partition: PartitionState) -> ConsumerRecords:
    """Return the consumer groups of a partition, as its log describes them."""
    records = partition.logged.of_types[ConsumerGroup.TYPE]
    assert isinstance(records, ConsumerRecords), records
    return records
