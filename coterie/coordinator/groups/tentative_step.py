"""A step of a group whose records change it at once, and can be taken back.

A verb makes its records first. Then it asks whether they fit one batch, and only if they do it arms
timers, adds events and answers: a verb that is refused has done nothing
[coordinator/operation-size].
"""

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from coterie.coordinator.groups.batch_size import encoded_batch
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.group import RecordedGroup
from coterie.coordinator.groups.recorded.records import logged_groups
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.groups.step import NO_REQUEST, GroupStep
from coterie.coordinator.kernel.append import Pair, Record
from coterie.coordinator.kernel.append_errors import LARGE_OPERATION_ERROR
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.messages.journal_records import Fact
from coterie.protocol.wire import Message

G = TypeVar("G", bound=RecordedGroup[Any])


class TentativeStep(GroupStep[G], Generic[G]):
    """A step of one group that its verb may take back.

    Attributes:
        creates: whether the group is a new one.
        computation: the computation of a large target that follows this step.
        facts: what has happened, until it is known that the records fit.
    """

    __slots__ = (
        "_before", "_bumped_ms", "_checked_version", "_encoded", "_members", "_most_members",
        "computation", "creates", "facts",
    )  # fmt: skip

    def __init__(
        self,
        partition: PartitionState,
        group: G,
        now_ms: int,
        context: RequestContext = NO_REQUEST,
    ) -> None:
        # Not by `super`, for what each heartbeat costs.
        GroupStep.__init__(self, partition, group, now_ms, Effects(), context)
        self.creates = False
        self.facts: list[Fact] = []
        self.computation: Any = None
        self._checked_version, self._bumped_ms = group.checked_version, group.bumped_ms
        self._most_members = group.most_members
        # The values that the records have replaced.
        self._before: list[Record] = []
        # Records that are encoded already, by their places.
        self._encoded: dict[int, Pair] = {}
        # The members before the first of them was removed: they have sessions, which are not
        # logged.
        self._members: dict[str, Any] | None = None

    def set(self, key: Message, value: Message | None, encoded: Pair | None = None) -> None:
        """Write a record and apply it; null removes what the group has under the key.

        Args:
            key: its key.
            value: its value.
            encoded: both as bytes, if they are encoded already.
        """
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

    @property
    def applied(self) -> int:
        """The number of records that the step has applied."""
        return len(self._before)

    def undo(self) -> None:
        """Take all records back: the group is as before the step, its members' sessions too."""
        group, members, applied = self.group, self._members, self.applied
        for key, value in reversed(self._before):
            group.apply(key, value)
        if members is not None:
            assert group.members.keys() == members.keys(), f"{group} has other members"
            for member_id, member in members.items():
                member.take_records(group.members[member_id])
            group.members = members
        group.unlogged -= applied
        assert group.unlogged == 0, f"{group} has records of another step"
        self._before.clear()
        self._encoded.clear()
        self.facts.clear()
        self.effects.operation = None
        # The epoch that a changed topic has raised may be among what was taken back.
        group.checked_version, group.bumped_ms = self._checked_version, self._bumped_ms
        assert self._most_members <= group.most_members, f"{group} forgets members that it has had"
        group.most_members = self._most_members
        assert not self.creates or self._is_as_new(), f"{group} is new and has records"

    def _is_as_new(self) -> bool:
        """Return whether a new group has nothing but what it had when the step began."""
        return self.group.is_blank

    def has_small_records(self) -> bool:
        """Return whether the records fit one batch.

        Few records may be too large, too: a subscription has as many names as its member sends.
        """
        operation = self.effects.operation
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
        group = self.group
        assert group.unlogged == self.applied, f"{group} has records of another step"
        if self.effects.operation is not None:
            for fact in self.facts:
                self.note(fact)
            self.enter()
        return True

    def require_fit(self) -> None:
        """Let the step happen.

        Raises:
            Refusal: its records do not fit one batch, and were taken back.
        """
        if not self.fits():
            text = "The records of the operation do not fit one batch of the group log."
            raise Refusal(LARGE_OPERATION_ERROR, text)

    def enter(self) -> None:
        """Let a new group take its place in the partition."""
        group, operation = self.group, self.effects.operation
        assert operation is not None, f"{group} enters without a record"
        if self.creates:
            logged = logged_groups(self.partition, type(group))
            assert group.group_id not in logged, f"{group.group_id} is in the log"
            logged[group.group_id] = group
            operation.creates = group
