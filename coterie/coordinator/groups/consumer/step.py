"""One step of a consumer group: its records change the group at once, and can be taken back."""

from collections.abc import Callable, Sequence
from typing import Any

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.member import ConsumerMember
from coterie.coordinator.groups.consumer.records import ConsumerRecords
from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.step import NO_REQUEST
from coterie.coordinator.groups.tentative_step import TentativeStep
from coterie.coordinator.kernel.append import Pair, Record
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.wire import Message


class Step(TentativeStep[ConsumerGroup]):
    """A step of one consumer group: the value that every function of a verb receives.

    Attributes:
        replaces: the group of another type, or without members, whose place this one takes.
        becomes: the group of another type that takes the place of this one.
        left: the members that the group had before it became another one.
        took_over: the member that has the place of a static member since this step.
        downgrades_later: whether the group is to become a classic one after this step.
        is_long: whether it has taken some milliseconds, so that a target is left to the next turns.
        needs_too_much: whether it needs a target whose records are known not to fit one batch.
    """

    __slots__ = (
        "_adopts", "_at_once", "_dissolved", "becomes", "downgrades_later", "is_long", "left",
        "needs_too_much", "replaces", "took_over",
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
        TentativeStep.__init__(self, partition, group, now_ms, context)
        self.replaces: GroupLike | None = None
        self.becomes: GroupLike | None = None
        self.left: Sequence[ConsumerMember] = ()
        self.took_over: str | None = None
        self.downgrades_later = False
        self.is_long = False
        self.needs_too_much = False
        # Whether its group was made before it.
        self._adopts = False
        # How many records were applied together, and what the group had before.
        self._at_once = 0
        self._dissolved: dict[str, Any] | None = None

    @property
    def applied(self) -> int:
        """See `TentativeStep`."""
        return len(self._before) + self._at_once

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
        """See `TentativeStep`."""
        group = self.group
        if self._dissolved is not None:
            group.put_back(self._dissolved)
            self._dissolved = None
        super().undo()
        self._at_once = 0
        self.becomes, self.left = None, ()

    def _is_as_new(self) -> bool:
        """See `TentativeStep`; one that was made before the step has its records."""
        return self._adopts or super()._is_as_new()

    def has_small_records(self) -> bool:
        """See `TentativeStep`."""
        return not self.needs_too_much and super().has_small_records()

    def enter(self) -> None:
        """See `TentativeStep`; the group may take the place of another one, or lose its own."""
        group, replaces, operation = self.group, self.replaces, self.effects.operation
        assert operation is not None, f"{group} enters without a record"
        assert self.creates or replaces is None, f"{group} exists and takes the place of {replaces}"
        assert not (self.creates and self.becomes), f"{group} is created and replaced"
        super().enter()
        if replaces is not None:
            operation.removes = replaces
            if not replaces.is_empty:
                error = ErrorCode.REBALANCE_IN_PROGRESS
                self.partition.close(replaces, error, self.now_ms, self.effects)
        if self.becomes is not None:
            operation.creates, operation.removes = self.becomes, group


def records_of(partition: PartitionState) -> ConsumerRecords:
    """Return the consumer groups of a partition, as its log describes them."""
    records = partition.logged.of_types[ConsumerGroup.TYPE]
    assert isinstance(records, ConsumerRecords), records
    return records
