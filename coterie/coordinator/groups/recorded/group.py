"""A group that is what its records add up to, and the answers that all such groups give.

`apply` takes one record, and is the only code that changes what is logged. A verb applies each of
its records at once, so its next step sees what the one before it has done, and takes them back if
they do not fit one batch (`tentative_step.py`).
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.epochs import FIRST_EPOCH
from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.listing_order import in_listing_order
from coterie.coordinator.groups.recorded.member import RecordedMember
from coterie.coordinator.kernel.append import Record
from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_groups import DescribeGroupsResponseGroup
from coterie.protocol.wire import Message

_NO_TOPICS = TopicsImage({}, {})
# The state of a group of any type whose partition was given up.
_DEAD = "Dead"

M = TypeVar("M", bound=RecordedMember)


class RecordKeys(NamedTuple):
    """The classes of the keys of the records of one type.

    Attributes:
        epoch: of the epoch of a group and the hash of its topics.
        subscription: of what a member says of itself.
        target_epoch: of the epoch of the target.
        target: of what a member shall have.
        current: of what a member has.
        others: of records that no other type has.
    """

    epoch: type[Any]
    subscription: type[Any]
    target_epoch: type[Any]
    target: type[Any]
    current: type[Any]
    others: tuple[type[Any], ...]

    @property
    def all(self) -> tuple[type[Message], ...]:
        """All of them."""
        return (*self[:-1], *self.others)


class RecordedGroup(GroupLike, Generic[M]):
    """A group that is what its records add up to, and what is not logged.

    Attributes:
        TYPE: the name of its type, which is that of its protocol type.
        KEYS: the classes of the keys of its records.

        metadata: its epoch and the hash of its topics, as logged; None before the first record.
        epoch: the group epoch: it rises when members, subscriptions or topics change.
        target_metadata: the epoch of its target and when it was computed; None before the first.
        target_epoch: the group epoch for which the target was computed.
        target_values: by member id, what it shall have, as it is logged.
        members: by id, in the order in which they joined; see `RecordedMember`.

        most_members: the most members that it has had.
        unlogged: the number of records that a verb has applied and the partition has not yet.
        topics: the topics of the cluster.
        checked_version: the version of the topics for which the metadata hash was compared; None
            after creation and after a load.
        bumped_ms: when the epoch rose last, for people.
        computation: the computation of a large target that is under way; None if there is none.
        is_gone: whether its partition was given up.
    """

    TYPE: ClassVar[str]
    KEYS: ClassVar[RecordKeys]

    __slots__ = (
        "bumped_ms", "checked_version", "computation", "epoch", "is_gone", "members", "metadata",
        "most_members", "target_epoch", "target_metadata", "target_values", "topics", "unlogged",
    )  # fmt: skip

    def __init__(self, group_id: str) -> None:
        """Create a group without records."""
        self.group_id = group_id
        self.id_hash = None
        self.protocol_type = self.TYPE
        self.metadata: Any = None
        self.epoch = FIRST_EPOCH
        self.target_metadata: Any = None
        self.target_epoch = FIRST_EPOCH
        self.target_values: dict[str, Any] = {}
        self.members: dict[str, M] = {}
        self.most_members = 0
        self.unlogged = 0
        self.topics = _NO_TOPICS
        self.checked_version: int | None = None
        self.bumped_ms = 0
        self.computation: Any = None
        self.is_gone = False

    # -- records -----------------------------------------------------------------------------------

    def new_member(self, member_id: str) -> M:
        """Return a member without records."""
        raise NotImplementedError

    def apply(self, key: Any, value: Any) -> Any:
        """Apply one record and return the value that it replaces; null removes one."""
        kind, keys = type(key), self.KEYS
        if kind is keys.current:
            return self.set_current(key.member_id, value)
        if kind is keys.target:
            return self.set_target(key.member_id, value)
        if kind is keys.subscription:
            return self.set_subscription(key.member_id, value)
        if kind is keys.epoch:
            return self.set_metadata(value)
        if kind is keys.target_epoch:
            return self.set_target_metadata(value)
        assert kind in keys.others, key
        return self.set_other(key, value)

    def set_other(self, key: Any, value: Any) -> Any:
        """Take over a record of a kind that no other type has; return the one before."""
        raise NotImplementedError

    def set_subscription(self, member_id: str, value: Any) -> Any:
        """Take over what a member says of itself; return what it said before."""
        member = self.members.get(member_id)
        before = None if member is None else member.subscription
        if before is value:
            return before
        if member is None:
            member = self.add_member(member_id)
        self.count(member, -1)
        member.set_subscription(value)
        self.count(member, 1)
        if value is None:
            self._leave_out_blank(member)
        return before

    def set_current(self, member_id: str, value: Any) -> Any:
        """Take over what a member has; return the one before."""
        member = self.members.get(member_id)
        before = None if member is None else member.current
        if before is value:
            return before
        if member is None:
            member = self.add_member(member_id)
        self.replace_current(member, value)
        if value is None:
            self._leave_out_blank(member)
        return before

    def add_member(self, member_id: str) -> M:
        """Add a member of which the log has said nothing yet."""
        assert member_id not in self.members, f"{member_id} is in {self}"
        member = self.members[member_id] = self.new_member(member_id)
        self.most_members = max(self.most_members, len(self.members))
        return member

    def count(self, member: M, step: int) -> None:
        """Count what a member says of itself in the tables of the group, or no more.

        Args:
            member: the member.
            step: 1 after a change of its subscription, -1 before it.
        """
        raise NotImplementedError

    def replace_current(self, member: M, value: Any) -> None:
        """Let a member have what a record says; a type may keep tables of it."""
        member.set_current(value)

    def set_metadata(self, value: Any) -> Any:
        """Take over the record of its epoch; return the one before."""
        before, self.metadata = self.metadata, value
        self.epoch = FIRST_EPOCH if value is None else value.epoch
        return before

    def set_target_metadata(self, value: Any) -> Any:
        """Take over the record of the epoch of its target; return the one before."""
        before, self.target_metadata = self.target_metadata, value
        self.target_epoch = FIRST_EPOCH if value is None else value.assignment_epoch
        return before

    def set_target(self, member_id: str, value: Any) -> Any:
        """Take over the target of a member; return the one before. One that stays has its place."""
        before = self.target_values.get(member_id)
        if value is None:
            self.target_values.pop(member_id, None)
        else:
            self.target_values[member_id] = value
        return before

    def _leave_out_blank(self, member: M) -> None:
        """Forget a member of which the log says nothing."""
        if member.is_blank:
            del self.members[member.member_id]

    @property
    def is_blank(self) -> bool:
        """Whether the log says nothing of it."""
        return not (self.members or self.target_values) and (
            self.metadata is None and self.target_metadata is None
        )

    def named_values(self) -> Iterator[tuple[str, Message | None]]:
        """Yield the values that count under names, so that two logs compare; null for none."""
        yield "epoch", self.metadata
        yield "target epoch", self.target_metadata
        for member_id, member in self.members.items():
            yield f"subscription {member_id}", member.subscription
            yield f"assignment {member_id}", member.current
        for member_id, target in self.target_values.items():
            yield f"target {member_id}", target

    # -- what the records say ----------------------------------------------------------------------

    @property
    def metadata_hash(self) -> int:
        """The hash of the topics at the latest change of the epoch."""
        metadata = self.metadata
        found: int = 0 if metadata is None else metadata.metadata_hash
        return found

    @property
    def target_ms(self) -> int:
        """When the target was computed; 0 if that is not known, so that one is due."""
        value = self.target_metadata
        found: int = 0 if value is None else value.assignment_timestamp
        return found

    def derived_state(self) -> StrEnum:
        """Return the state that follows from the records, of the states of its type."""
        raise NotImplementedError

    def ordered_ids(self) -> list[str]:
        """Return the ids of the members in Kafka's order of listings."""
        # Each member is stored twice when it joins, and the second time its table grows, too.
        return in_listing_order(list(self.members), self.most_members + 1)

    def ordered_members(self) -> list[M]:
        """Return the members in Kafka's order of listings."""
        ordered = [self.members[each] for each in self.ordered_ids()]
        assert len(ordered) == len(self.members), f"{self} has each member once"
        return ordered

    def assigned_members(self) -> list[M]:
        """Return the members as they are listed, a new one last.

        Kafka's assignors put them into a hash table; this order decides between ids of the same
        bucket.
        """
        return sorted(self.ordered_members(), key=lambda member: member.current is None)

    def holder(self, request: Any) -> str | None:  # noqa: ARG002 - most have no static members
        """Return the member that has the instance id of a heartbeat; None if it names none."""
        return None

    def hears_nothing_new(self, request: Any, member: Any, config: GroupConfig) -> bool:
        """Return whether a heartbeat of a member that is at rest says nothing but its epoch.

        Args:
            request: a heartbeat of any type.
            member: its member, which is at the epoch of the group.
            config: the settings of the coordinator: those of the group are the same as before.
        """
        raise NotImplementedError

    # -- what removes it ---------------------------------------------------------------------------

    def member_tombstones(self, member_id: str) -> list[Message]:
        """Return the keys of a member's records, in Kafka's order of their removal."""
        group_id, keys = self.group_id, self.KEYS
        return [
            kind(group_id=group_id, member_id=member_id)
            for kind in (keys.current, keys.target, keys.subscription)
        ]

    def keys(self, members: Sequence[str]) -> Iterator[Message]:
        """Yield the keys of all records, in Kafka's order of their removal.

        Args:
            members: the ids of the members in Kafka's order.
        """
        group_id, keys = self.group_id, self.KEYS
        for member_id in members:
            yield keys.current(group_id=group_id, member_id=member_id)
        for member_id in members:
            yield keys.target(group_id=group_id, member_id=member_id)
        for member_id in self.target_values:
            if member_id not in self.members:
                yield keys.target(group_id=group_id, member_id=member_id)
        yield keys.target_epoch(group_id=group_id)
        for member_id in members:
            yield keys.subscription(group_id=group_id, member_id=member_id)
        yield from self.last_keys()

    def last_keys(self) -> Iterator[Message]:
        """Yield the keys of the epoch and of the records that no other type has."""
        raise NotImplementedError

    def tombstones(self) -> Sequence[Record]:
        """See `GroupLike`."""
        return [(key, None) for key in self.keys(self.ordered_ids())]

    # -- what all groups have in common ------------------------------------------------------------

    @property
    def group_type(self) -> str:
        """See `GroupLike`."""
        return self.TYPE

    @property
    def state_name(self) -> str:
        """See `GroupLike`."""
        return _DEAD if self.is_gone else str(self.derived_state())

    @property
    def exists(self) -> bool:
        """See `GroupLike`."""
        return not self.is_gone

    @property
    def is_empty(self) -> bool:
        """See `GroupLike`."""
        return not self.members

    @property
    def member_count(self) -> int:
        """See `GroupLike`."""
        return len(self.members)

    def delete_error(self) -> tuple[ErrorCode, str | None]:
        """See `GroupLike`."""
        if not self.members:
            return ErrorCode.NONE, None
        text = f"Group {self.group_id} has {len(self.members)} members in state {self.state_name}."
        return ErrorCode.NON_EMPTY_GROUP, text

    def logged_generation(self) -> int:
        """See `GroupLike`."""
        return self.epoch

    def describe(self, operations: int) -> DescribeGroupsResponseGroup | None:  # noqa: ARG002
        """See `GroupLike`; it cannot be described as a classic group."""
        return None


def count_name(counts: dict[str, int], name: str, step: int) -> None:
    """Count one member more or less under a name; a table of counts has no zero."""
    assert step in (1, -1), "one member is counted at a time"
    count = counts.get(name, 0) + step
    assert count >= 0, f"{name} is counted wrong"
    if count:
        counts[name] = count
    else:
        del counts[name]
