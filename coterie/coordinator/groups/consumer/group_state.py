"""What the records of a consumer group add up to.

Invariants: `static_members` maps instance ids to members; `owners` has for each partition the
member that has it in `assigned` or `pending`; `by_name`, `by_regex` and `protocols` count members
and have no zero.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, TypeVar

from coterie.coordinator.groups.consumer.member import ConsumerMember, Owned
from coterie.coordinator.groups.consumer.states import GroupState, MemberState
from coterie.coordinator.groups.recorded.committing import CommittingGroup
from coterie.coordinator.groups.recorded.group import RecordKeys, count_name
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from coterie.protocol.wire import Message

# The name of the type and of the protocol type.
CONSUMER = "consumer"

# The partitions of each topic id.
Partitions = dict[bytes, tuple[int, ...]]

V = TypeVar("V")

# What a group has of which most have nothing. It gets a table of its own before something is added.
_NOTHING: dict[str, Any] = {}

# What the records of a group add up to, by the names of the attributes.
_LOGGED = (
    "by_name", "by_regex", "classic_count", "epoch", "has_old_metadata", "members", "metadata",
    "owners", "protocols", "regexes", "settled", "static_members", "target_epoch",
    "target_metadata", "target_values",
)  # fmt: skip


class ResolvedRegex(NamedTuple):
    """What a regular expression matches.

    Attributes:
        topics: the names of the topics that matched.
        value: as it is logged.
    """

    topics: frozenset[str]
    value: ConsumerGroupRegularExpressionValue


class ConsumerGroupState(CommittingGroup[ConsumerMember]):
    """What the records of one consumer group add up to.

    Attributes:
        has_old_metadata: whether the log has a record of Kafka 4.0 about its topics.
        static_members: instance id to member id.
        settled: the number of members that have reached the target.
        regexes: the regular expressions that were resolved.
        owners: topic id to partition to the member that owns it or has to give it up.
        by_name: the topics to which members subscribe by name, with the number of these members.
        by_regex: the regular expressions of members, with the number of these members.
        protocols: the names of the protocols of classic members, with the number of these members.
        classic_count: the number of members that use the classic protocol.
    """

    TYPE: ClassVar[str] = CONSUMER
    KEYS: ClassVar[RecordKeys] = RecordKeys(
        ConsumerGroupMetadataKey,
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupCurrentMemberAssignmentKey,
        (ConsumerGroupPartitionMetadataKey, ConsumerGroupRegularExpressionKey),
    )

    __slots__ = (
        "by_name", "by_regex", "classic_count", "has_old_metadata", "owners", "protocols",
        "regexes", "settled", "static_members",
    )  # fmt: skip

    def __init__(self, group_id: str) -> None:
        """Create a group without records."""
        super().__init__(group_id)
        self.has_old_metadata: Message | None = None
        self.settled = 0
        self.static_members: dict[str, str] = _NOTHING
        self.regexes: dict[str, ResolvedRegex] = _NOTHING
        self.owners: dict[bytes, dict[int, str]] = {}
        self.by_name: dict[str, int] = {}
        self.by_regex: dict[str, int] = _NOTHING
        self.protocols: dict[str, int] = _NOTHING
        self.classic_count = 0

    def take_all(self) -> dict[str, Any]:
        """Forget all that the records add up to; return it for `put_back`."""
        taken = {name: getattr(self, name) for name in _LOGGED}
        empty = ConsumerGroupState(self.group_id)
        self.put_back({name: getattr(empty, name) for name in _LOGGED})
        assert self.is_blank, f"{self} has records"
        return taken

    def put_back(self, taken: dict[str, Any]) -> None:
        """Take over what `take_all` has returned."""
        for name in _LOGGED:
            setattr(self, name, taken[name])

    # -- epochs ------------------------------------------------------------------------------------

    @property
    def is_blank(self) -> bool:
        """See `RecordedGroup`."""
        return super().is_blank and not self.regexes and self.has_old_metadata is None

    def named_values(self) -> Iterator[tuple[str, Message | None]]:
        """See `RecordedGroup`."""
        yield from super().named_values()
        yield "old topics", self.has_old_metadata
        for regex, resolved in self.regexes.items():
            yield f"regex {regex}", resolved.value

    def derived_state(self) -> GroupState:
        """See `RecordedGroup`."""
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        settled = self.settled == len(self.members)
        return GroupState.STABLE if settled else GroupState.RECONCILING

    def is_settled(self, member: ConsumerMember) -> bool:
        """Return whether a member has reached the target."""
        # A member without this record has epoch 0, as a target in a log of other software may have.
        known = member.current is not None
        return known and member.epoch == self.target_epoch and member.state is MemberState.STABLE

    # -- subscriptions -----------------------------------------------------------------------------

    def subscribed_topics(self) -> set[str]:
        """Return the topics to which members subscribe, whether they exist or not."""
        topics = set(self.by_name)
        for regex in self.by_regex:
            resolved = self.regexes.get(regex)
            if resolved is not None:
                topics |= resolved.topics
        return topics

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics of a member; a regular expression that is not resolved has none."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        if resolved is None:
            return member.names
        return member.names | resolved.topics if member.names else resolved.topics

    def resolved_ms(self) -> int | None:
        """Return when its regular expressions were last resolved; None if none is."""
        times = (each.value.timestamp for each in self.regexes.values())
        return max(times, default=None)

    def is_homogeneous(self) -> bool:
        """Return whether all members subscribe to the same [assignors/uniform]."""
        everyone = len(self.members)
        if not self.by_regex:
            return all(count == everyone for count in self.by_name.values())
        return not self.by_name and list(self.by_regex.values()) == [everyone]

    def target(self, member_id: str) -> Partitions:
        """Return the partitions that a member shall have, each topic's in order.

        They are looked at when a member comes to a new epoch, so only the logged value is kept.
        """
        return partitions_of(self.target_values.get(member_id))

    @property
    def owned_count(self) -> int:
        """How many partitions members own or have to give up."""
        return sum(map(len, self.owners.values()))

    def owner(self, topic_id: bytes, partition: int) -> str | None:
        """Return the member that owns a partition or has to give it up."""
        return self.owners.get(topic_id, {}).get(partition)

    # -- records -----------------------------------------------------------------------------------

    def new_member(self, member_id: str) -> ConsumerMember:
        """See `RecordedGroup`."""
        return ConsumerMember(member_id)

    def set_target_metadata(self, value: Any) -> Any:
        """See `RecordedGroup`."""
        before = super().set_target_metadata(value)
        epoch = self.target_epoch
        there = [each for each in self.members.values() if each.epoch == epoch]
        self.settled = sum(map(self.is_settled, there))
        assert self.settled <= len(self.members), f"{self} counts its members wrong"
        return before

    def set_other(self, key: Any, value: Any) -> Any:
        """See `RecordedGroup`."""
        if type(key) is ConsumerGroupRegularExpressionKey:
            return self._set_regex(key.regular_expression, value)
        before, self.has_old_metadata = self.has_old_metadata, value
        return before

    def count(self, member: ConsumerMember, step: int) -> None:
        """See `RecordedGroup`."""
        for name in member.names:
            count_name(self.by_name, name, step)
        if member.regex:
            self.by_regex = _own(self.by_regex)
            count_name(self.by_regex, member.regex, step)
        instance = member.instance_id
        if instance is not None:
            if step > 0:
                self.static_members = _own(self.static_members)
                self.static_members[instance] = member.member_id
            elif self.static_members.get(instance) == member.member_id:
                del self.static_members[instance]
        if member.classic is not None:
            self.classic_count += step
            self.protocols = _own(self.protocols)
            for name in {each.name for each in member.classic.supported_protocols}:
                count_name(self.protocols, name, step)
        assert 0 <= self.classic_count <= len(self.members), f"{self} counts its members wrong"

    def replace_current(
        self, member: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        """See `RecordedGroup`: note who owns partitions, and how many members have settled."""
        member_id = member.member_id
        self.settled -= self.is_settled(member)
        assigned, pending = member.assigned, member.pending
        member.set_current(value)
        if member.assigned is not assigned:
            self._release(assigned, member_id)
        if pending:
            self._release(pending, member_id)
        self.settled += self.is_settled(member)
        assert 0 <= self.settled <= len(self.members), f"{self} counts its members wrong"
        if value is not None:
            self._occupy(member.assigned, member)
            if member.pending:
                self._occupy(member.pending, member)

    def _occupy(self, owned: Owned, member: ConsumerMember) -> None:
        """Note the owner of partitions; of two the one of the larger epoch owns one.

        A static member that is away has no such epoch: it comes after the member that owned its
        partitions before, of which a compacted log may show an old record
        [consumer-groups/two-owners].
        """
        for topic_id, partitions in owned.items():
            owners = self.owners.setdefault(topic_id, {})
            for index in partitions:
                owner = owners.get(index)
                if owner == member.member_id:
                    continue
                other = None if owner is None else self.members.get(owner)
                if other is None or other.epoch <= member.epoch or member.epoch < 0:
                    owners[index] = member.member_id

    def _release(self, owned: Owned, member_id: str) -> None:
        for topic_id, partitions in owned.items():
            owners = self.owners.get(topic_id, {})
            for index in partitions:
                if owners.get(index) == member_id:
                    del owners[index]
            if not owners:
                self.owners.pop(topic_id, None)

    def _set_regex(
        self, regex: str, value: ConsumerGroupRegularExpressionValue | None
    ) -> ConsumerGroupRegularExpressionValue | None:
        before = self.regexes.get(regex)
        if value is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes = _own(self.regexes)
            self.regexes[regex] = ResolvedRegex(frozenset(value.topics), value)
        return None if before is None else before.value

    def last_keys(self) -> Iterator[Message]:
        """See `RecordedGroup`."""
        group_id = self.group_id
        for regex in self.regexes:
            yield ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
        # Also if the log has none: it ends a log of Kafka 4.0 [consumer-groups/records].
        yield ConsumerGroupPartitionMetadataKey(group_id=group_id)
        yield ConsumerGroupMetadataKey(group_id=group_id)


def _own(table: dict[str, V]) -> dict[str, V]:
    """Return a table that may be changed."""
    assert not _NOTHING, "what all groups share stays empty"
    return {} if table is _NOTHING else table


def partitions_of(value: ConsumerGroupTargetAssignmentMemberValue | None) -> Partitions:
    """Return the partitions of a logged target, each topic's in order; none without a value."""
    if value is None:
        return {}
    return {topic.topic_id: tuple(sorted(topic.partitions)) for topic in value.topic_partitions}
