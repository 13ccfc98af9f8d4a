"""Toy groups: members meet, and each meeting raises the epoch of the group.

They borrow two record types of consumer groups, which are not served. A member that does not meet
again in time is forgotten by a timer. A meeting in a group of another type turns that into a toy
group, with the offsets that it has.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.group_type import GroupType
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.replay import GroupRecords
from coterie.coordinator.groups.step import NO_REQUEST, GroupStep
from coterie.coordinator.kernel.append import Record
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from coterie.protocol.wire import Message

SESSION_MS = 5_000
_SESSION = "toy-session"


class Meet:
    """A request; its response is the epoch of the meeting, or an error below zero."""

    def __init__(self, group_id: str, member_id: str) -> None:
        self.group_id = group_id
        self.member_id = member_id


class Meeting(NamedTuple):
    """A meeting that is being written."""

    group: "ToyGroup"
    epoch: int


class ToyGroup(GroupLike):
    """A toy group."""

    __slots__ = ("durable_epoch", "epoch", "is_gone", "members")

    def __init__(self, group_id: str, epoch: int = 0, members: Iterable[str] = ()) -> None:
        self.group_id, self.protocol_type, self.id_hash = group_id, "toy", None
        self.epoch = self.durable_epoch = epoch
        self.members = set(members)
        self.is_gone = False

    @property
    def group_type(self) -> str:
        return "toy"

    @property
    def state_name(self) -> str:
        return "Met" if self.members else "Empty"

    @property
    def exists(self) -> bool:
        return not self.is_gone

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def member_count(self) -> int:
        return len(self.members)

    def logged_generation(self) -> int:
        return self.epoch

    def tombstones(self) -> Sequence[Record]:
        keys = [_member_key(self.group_id, each) for each in self.members]
        return [(key, None) for key in (*keys, ConsumerGroupMetadataKey(group_id=self.group_id))]


def _member_key(group_id: str, member_id: str) -> ConsumerGroupTargetAssignmentMemberKey:
    return ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)


class ToyRecords(GroupRecords):
    """Epochs and members by group."""

    def __init__(self) -> None:
        super().__init__((ConsumerGroupMetadataKey, ConsumerGroupTargetAssignmentMemberKey))
        self.epochs: dict[str, int] = {}
        self.members: dict[str, set[str]] = {}

    def apply(self, key: Message, value: Message | None) -> None:
        if isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
            members = self.members.setdefault(key.group_id, set())
            (members.discard if value is None else members.add)(key.member_id)
        elif isinstance(key, ConsumerGroupMetadataKey):
            if isinstance(value, ConsumerGroupMetadataValue):
                self.epochs[key.group_id] = value.epoch
            else:
                self.epochs.pop(key.group_id, None)


def meet(
    partition: PartitionState, now_ms: int, request: Meet, context: RequestContext
) -> Effects[Any]:
    """Let a member meet; in a group of another type too, which is then replaced."""
    group_id, effects = request.group_id, Effects[Any]()
    before = partition.groups.get(group_id)
    group = before if isinstance(before, ToyGroup) else ToyGroup(group_id)
    step = GroupStep(partition, group, now_ms, effects, context)
    if before is not None and before is not group:
        for tombstone in before.tombstones():
            step.write(tombstone).removes = before
        partition.close(before, ErrorCode.REBALANCE_IN_PROGRESS, now_ms, effects)
    group.members.add(request.member_id)
    key = _member_key(group_id, request.member_id)
    step.write((key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=[])))
    _raise_epoch(step).creates = None if before is group else group
    step.arm(_SESSION, request.member_id, now_ms + SESSION_MS)
    effects.response = group.epoch
    return effects


def _raise_epoch(step: GroupStep[ToyGroup]) -> Any:
    group = step.group
    group.epoch += 1
    value = ConsumerGroupMetadataValue(epoch=group.epoch)
    operation = step.write((ConsumerGroupMetadataKey(group_id=group.group_id), value))
    operation.completion = Meeting(group, group.epoch)
    return operation


class ToyType(GroupType):
    """The type."""

    name = "toy"
    timers = frozenset({_SESSION})
    error_responses = {Meet: lambda _, error, __: -int(error)}

    def records(self) -> GroupRecords:
        return ToyRecords()

    def restored(self, records: Any) -> Iterable[ToyGroup]:
        return [ToyGroup(g, n, records.members.get(g, ())) for g, n in records.epochs.items()]

    def loaded(self, partition: Any, group: Any, now_ms: int, effects: Effects[Any]) -> None:
        for member_id in group.members:
            effects.arm(_SESSION, group.group_id, member_id, now_ms + SESSION_MS)

    def removed(self, group: Any, effects: Effects[Any]) -> None:
        for member_id in group.members:
            effects.cancel(_SESSION, group.group_id, member_id)

    def close(self, group: Any, error: ErrorCode, now_ms: int, effects: Effects[Any]) -> None:
        group.is_gone = True
        self.removed(group, effects)

    def timer_fired(
        self, partition: Any, group: Any, kind: str, member_id: str, now_ms: int, effects: Any
    ) -> None:
        assert kind == _SESSION
        group.members.remove(member_id)
        step = GroupStep(partition, group, now_ms, effects, NO_REQUEST)
        step.write((_member_key(group.group_id, member_id), None))
        _raise_epoch(step)

    def complete(
        self, partition: Any, group: Any, completion: Any, now_ms: int, effects: Any
    ) -> None:
        group.durable_epoch = completion.epoch

    def handle(
        self, partition: Any, group: Any, now_ms: int, request: Any, context: Any
    ) -> Effects[Any]:
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return Effects(partition.error_response(request, error, context.version))
