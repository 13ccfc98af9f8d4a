"""One step of a consumer group: its records change the group at once, and can be taken back."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from coterie.coordinator.groups.batch_size import encoded_batch
from coterie.coordinator.groups.consumer.computation import Later, TargetComputation
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.member import ConsumerMember
from coterie.coordinator.groups.consumer.records import ConsumerRecords
from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.step import NO_REQUEST, GroupStep
from coterie.coordinator.kernel.append import Pair, Record
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
        downgrades_later: whether the group is to become a classic one after this step.
        is_long: whether it has taken some milliseconds, so that a target is left to the next turns.
        needs_too_much: whether it needs a target whose records are known not to fit one batch.
    """

    __slots__ = (
        "_adopts", "_at_once", "_before", "_bumped_ms", "_checked_version", "_dissolved",
        "_encoded", "_members", "_most_members", "becomes", "computation", "creates",
        "downgrades_later", "facts", "is_long", "left", "needs_too_much", "replaces", "took_over",
    )  # fmt: skip

    def __init__(
        self,
        partition: PartitionState,
        group: ConsumerGroup,
        now_ms: int,
        context: RequestContext = NO_REQUEST,
    ) -> None:
        # Not by `super`, which takes as long as half of the rest: each heartbeat that changes
        # something makes a step.
        GroupStep.__init__(self, partition, group, now_ms, Effects(), context)
        self.replaces: GroupLike | None = None
        self.creates = False
        self.becomes: GroupLike | None = None
        self.left: Sequence[ConsumerMember] = ()
        self.took_over: str | None = None
        self.computation: TargetComputation | Later | None = None
        self.downgrades_later = False
        self.is_long = False
        self.needs_too_much = False
        self.facts: list[Fact] = []
        self._checked_version = group.checked_version
        # The values that the records have replaced.
        self._before: list[Record] = []
        # Records that are encoded already, by their places.
        self._encoded: dict[int, Pair] = {}
        # Whether its group was made before it.
        self._adopts = False
        # How many records were applied together, and what the group had before.
        self._at_once = 0
        self._dissolved: dict[str, Any] | None = None
        # The members before the first of them was removed: they have sessions, which are not
        # logged.
        self._members: dict[str, ConsumerMember] | None = None
        self._most_members, self._bumped_ms = group.most_members, group.bumped_ms

    def set(self, key: Message, value: Message | None, encoded: Pair | None = None) -> None:
        """Write a record and apply it; null removes what the group has under the key.

        Args:
            key: its key.
            value: its value.
            encoded: both as bytes, if they are encoded already.
        """
        assert self.becomes is None, f"{self.group} is replaced by {self.becomes}"
        self._before.append((key, self.group.apply(key, value)))
        self.group.unlogged += 1
        operation = self.write((key, value))
        if encoded is not None:
            self._encoded[len(operation.records) - 1] = encoded

    def adopt(self, group: ConsumerGroup, records: Sequence[Record], pairs: Sequence[Pair]) -> None:
        """Go on with a new group that was made before the step, and write what it is made of.

        Args:
            group: the group, to which the records are applied.
            records: its records.
            pairs: they as bytes.
        """
        assert self.creates, f"{self.group} exists"
        assert not self._before, f"{self.group} has records"
        assert len(records) == len(pairs), "each record is encoded"
        self.group = group
        self._checked_version, self._bumped_ms = group.checked_version, group.bumped_ms
        self._most_members = group.most_members
        self._adopts = True
        self._at_once = group.unlogged = len(records)
        for record, pair in zip(records, pairs, strict=True):
            written = self.write(record).records
            self._encoded[len(written) - 1] = pair

    def remove(self, keys: Iterable[Message]) -> None:
        """Write tombstones and apply them."""
        if self._members is None:
            self._members = dict(self.group.members)
        for key in keys:
            self.set(key, None)

    def dissolve(self, encoded: Callable[[Message], Pair | None]) -> None:
        """Write tombstones of all that the group has, and let it have nothing.

        Args:
            encoded: returns the tombstone of a key as bytes, if it is encoded already.
        """
        group = self.group
        keys = list(group.keys(group.ordered_ids()))
        self._dissolved = group.take_all()
        for key in keys:
            written, pair = self.write((key, None)).records, encoded(key)
            if pair is not None:
                self._encoded[len(written) - 1] = pair
        self._at_once += len(keys)
        group.unlogged += len(keys)

    def undo(self) -> None:
        """Take all records back: the group is as before the step, its members' sessions too."""
        group, members = self.group, self._members
        if self._dissolved is not None:
            group.put_back(self._dissolved)
            self._dissolved = None
        for key, value in reversed(self._before):
            group.apply(key, value)
        if members is not None:
            assert group.members.keys() == members.keys(), f"{group} has other members"
            for member_id, member in members.items():
                member.take_records(group.members[member_id])
            group.members = members
        group.unlogged -= len(self._before) + self._at_once
        assert group.unlogged == 0, f"{group} has records of another step"
        is_blank = group.is_blank or self._adopts
        assert not self.creates or is_blank, f"{group} is new and has records"
        self._at_once = 0
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
        is_encoded = operation is not None and len(operation.pairs or ()) == len(operation.records)
        if operation is not None and not is_encoded:
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
        of_this_step = len(self._before) + self._at_once
        assert group.unlogged == of_this_step, f"{group} has records of another step"
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
