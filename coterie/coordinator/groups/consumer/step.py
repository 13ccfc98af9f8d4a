"""One step of a consumer group: its records change the group at once, and can be taken back."""

from collections.abc import Iterable, Sequence

from coterie.coordinator.groups.batch_size import encoded_batch
from coterie.coordinator.groups.consumer.computation import TargetComputation
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
        computation: the computation of a large target that follows this step.
        needs_too_much: whether it needs a target whose records are known not to fit one batch.
    """

    __slots__ = (
        "_before", "_bumped_ms", "_checked_version", "_encoded", "_members", "_most_members",
        "becomes", "computation", "creates", "facts", "left", "needs_too_much", "replaces",
        "took_over",
    )  # fmt: skip

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
        self.computation: TargetComputation | None = None
        self.needs_too_much = False
        self.facts: list[Fact] = []
        self._checked_version = group.checked_version
        # The values that the records have replaced.
        self._before: list[Record] = []
        # Values that are encoded already, by their places among the records.
        self._encoded: dict[int, bytes] = {}
        # The members before the first of them was removed: they have sessions, which are not
        # logged.
        self._members: dict[str, ConsumerMember] | None = None
        self._most_members, self._bumped_ms = group.most_members, group.bumped_ms

    def set(self, key: Message, value: Message | None, encoded: bytes | None = None) -> None:
        """Write a record and apply it; null removes what the group has under the key.

        Args:
            key: its key.
            value: its value.
            encoded: the value as bytes, if it is encoded already.
        """
        assert self.becomes is None, f"{self.group} is replaced by {self.becomes}"
        self._before.append((key, self.group.apply(key, value)))
        self.group.unlogged += 1
        operation = self.write((key, value))
        if encoded is not None:
            self._encoded[len(operation.records) - 1] = encoded

    def remove(self, keys: Iterable[Message]) -> None:
        """Write tombstones and apply them."""
        if self._members is None:
            self._members = dict(self.group.members)
        for key in keys:
            self.set(key, None)

    def undo(self) -> None:
        """Take all records back: the group is as before the step, its members' sessions too."""
        group, members = self.group, self._members
        for key, value in reversed(self._before):
            group.apply(key, value)
        if members is not None:
            assert group.members.keys() == members.keys(), f"{group} has other members"
            for member_id, member in members.items():
                member.take_records(group.members[member_id])
            group.members = members
        group.unlogged -= len(self._before)
        assert group.unlogged == 0, f"{group} has records of another step"
        assert not self.creates or group.is_blank, f"{group} is new and has records"
        self._before.clear()
        self._encoded.clear()
        self.facts.clear()
        self.effects.operation, self.becomes, self.left = None, None, ()
        assert self._most_members <= group.most_members, f"{group} forgets members that it has had"
        group.most_members, group.bumped_ms = self._most_members, self._bumped_ms
        # The epoch that a changed topic has raised may be among what was taken back.
        group.checked_version = self._checked_version

    def has_small_records(self) -> bool:
        """Return whether the records fit one batch.

        Few records may be too large, too: a subscription has as many names as its member sends.
        """
        operation = self.effects.operation
        if self.needs_too_much:
            return False
        if operation is not None:
            operation.pairs = encoded_batch(operation.records, self._encoded)
        return operation is None or operation.pairs is not None

    def fits(self) -> bool:
        """Return whether the records fit one batch; otherwise they are taken back.

        If they do, the group takes its place in the partition with the operation.
        """
        if not self.has_small_records():
            self.undo()
            return False
        group, replaces = self.group, self.replaces
        assert group.unlogged == len(self._before), f"{group} has records of another step"
        assert self.creates or replaces is None, f"{group} exists and takes the place of {replaces}"
        assert not (self.creates and self.becomes), f"{group} is created and replaced"
        operation = self.effects.operation
        if operation is None:
            return True
        for fact in self.facts:
            self.note(fact)
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
