"""A share group: what its records add up to, and the answers that a group of any type gives.

Invariant: `by_name` counts the members that subscribe to each topic, and has no zero.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from coterie.coordinator.groups.group_like import SeenMember
from coterie.coordinator.groups.recorded.group import RecordedGroup
from coterie.coordinator.groups.seen_members import seen_member
from coterie.coordinator.groups.share.member import Partitions, ShareMember, partitions_of
from coterie.coordinator.groups.share.state_partitions import NOTHING, StatePartitions
from coterie.coordinator.groups.share.state_request import StateRequest
from coterie.coordinator.groups.share.states import GroupState
from coterie.coordinator.kernel.append import Record
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.log_records import OffsetCommitValue
from coterie.protocol.messages.offset_commit import OffsetCommitRequest
from coterie.protocol.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from coterie.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from coterie.protocol.wire import Message

# The name of the type and of the protocol type.
SHARE = "share"


class Rest(NamedTuple):
    """What decides whether a heartbeat has partitions to initialize or to assign.

    Most heartbeats see what the one before has seen, so they need not look at each partition.
    """

    topics_version: int
    epoch: int
    state_value: ShareGroupStatePartitionMetadataValue | None
    target_metadata: ShareGroupTargetAssignmentMetadataValue | None


class ShareGroup(RecordedGroup):
    """One share group.

    Attributes:
        by_name: the topics to which members subscribe, with the number of these members.
        state_value: record 15 as it is logged; None if the log has none.
        state_partitions: what it says.

        initializing_since: by topic id, when its partitions began to be initialized; not logged.
        at_rest: what a heartbeat saw that had nothing to write; None after a load.
        waiting: the requests of clients that wait for the share coordinator.
    """

    __slots__ = (
        "at_rest", "by_name", "initializing_since", "state_partitions", "state_value", "waiting",
    )  # fmt: skip

    def __init__(self, group_id: str) -> None:
        """Create a group without records."""
        super().__init__(group_id, SHARE)
        self.members: dict[str, ShareMember] = {}
        self.by_name: dict[str, int] = {}
        self.state_value: ShareGroupStatePartitionMetadataValue | None = None
        self.state_partitions = NOTHING
        self.initializing_since: dict[bytes, int] = {}
        self.at_rest: Rest | None = None
        self.waiting: list[StateRequest] = []

    def __repr__(self) -> str:
        return (
            f"ShareGroup({self.group_id!r}, {self.state_name}, epoch={self.epoch}, "
            f"target={self.target_epoch}, members={list(self.members.values())})"
        )

    # -- what the records say ----------------------------------------------------------------------

    def target(self, member_id: str) -> Partitions:
        """Return the partitions that a member shall have."""
        value = self.target_values.get(member_id)
        return {} if value is None else partitions_of(value.topic_partitions)

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing has changed since a heartbeat that had nothing to write."""
        rest = self.at_rest
        return (
            rest is not None
            and rest.topics_version == self.topics.version
            and rest.epoch == self.epoch
            and rest.state_value is self.state_value
            and rest.target_metadata is self.target_metadata
        )

    def note_rest(self) -> None:
        """Note that a heartbeat has looked at each partition, and had nothing to write."""
        is_done = self.target_epoch >= self.epoch and not self.state_partitions.initializing
        self.at_rest = None
        if is_done:
            self.at_rest = Rest(
                self.topics.version, self.epoch, self.state_value, self.target_metadata
            )

    def subscribed_topics(self) -> Collection[str]:
        """Return the topics to which members subscribe, whether they exist or not."""
        return self.by_name

    def is_homogeneous(self) -> bool:
        """Return whether all members subscribe to the same."""
        return all(count == len(self.members) for count in self.by_name.values())

    def ordered_members(self) -> list[ShareMember]:
        """Return the members in Kafka's order of listings."""
        return [self.members[each] for each in self.ordered_ids()]

    @property
    def is_blank(self) -> bool:
        """See `RecordedGroup`."""
        return super().is_blank and self.state_value is None

    def named_values(self) -> Iterator[tuple[str, Message | None]]:
        """See `RecordedGroup`."""
        yield from super().named_values()
        yield "state partitions", self.state_value

    # -- records -----------------------------------------------------------------------------------

    def apply(self, key: Message, value: Any) -> Any:
        """See `RecordedGroup`."""
        kind = type(key)
        if kind is ShareGroupMemberMetadataKey:
            return self._set_subscription(key.member_id, value)  # type: ignore[attr-defined]
        if kind is ShareGroupCurrentMemberAssignmentKey:
            return self._set_current(key.member_id, value)  # type: ignore[attr-defined]
        if kind is ShareGroupTargetAssignmentMemberKey:
            return self.set_target(key.member_id, value)  # type: ignore[attr-defined]
        if kind is ShareGroupMetadataKey:
            return self.set_metadata(value)
        if kind is ShareGroupTargetAssignmentMetadataKey:
            return self.set_target_metadata(value)
        assert kind is ShareGroupStatePartitionMetadataKey, key
        old, self.state_value = self.state_value, value
        self.state_partitions = StatePartitions.of(value)
        return old

    def _set_subscription(self, member_id: str, value: Any) -> Any:
        member = self._member(member_id)
        before = member.subscription
        for name in member.names:
            self.by_name[name] -= 1
            if not self.by_name[name]:
                del self.by_name[name]
        member.set_subscription(value)
        for name in member.names:
            self.by_name[name] = self.by_name.get(name, 0) + 1
        self.leave_out_blank(member)
        return before

    def _set_current(self, member_id: str, value: Any) -> Any:
        member = self._member(member_id)
        before = member.current
        member.set_current(value)
        self.leave_out_blank(member)
        return before

    def _member(self, member_id: str) -> ShareMember:
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = ShareMember(member_id)
            self.most_members = max(self.most_members, len(self.members))
        return member

    # -- what all groups have in common ------------------------------------------------------------

    @property
    def group_type(self) -> str:
        """See `GroupLike`."""
        return SHARE

    @property
    def state_name(self) -> str:
        """See `GroupLike`."""
        if self.is_gone:
            return GroupState.DEAD.value
        return (GroupState.STABLE if self.members else GroupState.EMPTY).value

    @property
    def expires(self) -> bool:
        """See `GroupLike`: a share group stays until it is deleted [share-groups/group-states]."""
        return False

    def seen_members(self) -> Sequence[SeenMember]:
        """See `GroupLike`."""
        return [
            seen_member(member, member.names, member.assigned, self.topics)
            for member in self.members.values()
        ]

    def waits_for(self, now_ms: int) -> str | None:  # noqa: ARG002
        """See `GroupLike`."""
        if self.state_partitions.deleting:
            return "the share coordinator, which deletes the state of partitions"
        if self.state_partitions.initializing:
            return "the share coordinator, which initializes the state of partitions"
        if self.computation is not None:
            return "the computation of the assignment"
        if self.members and self.epoch > self.target_epoch:
            return "the next heartbeat of a member, which computes the assignment"
        return None

    # -- offsets -----------------------------------------------------------------------------------

    def commit_error(self, now_ms: int, request: OffsetCommitRequest, version: int) -> ErrorCode:  # noqa: ARG002
        """See `GroupLike`: it has no committed offsets [share-groups/offsets]."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def transactional_commit_error(self, request: TxnOffsetCommitRequest) -> ErrorCode:  # noqa: ARG002
        """See `GroupLike`."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:  # noqa: ARG002
        """See `GroupLike`: there is nothing to be found [share-groups/offsets]."""
        return ErrorCode.NONE

    def offset_delete_error(self) -> ErrorCode:
        """See `GroupLike`."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def is_consuming(self, topic: str) -> bool:
        """See `GroupLike`."""
        return topic in self.by_name

    def expiry_base_ms(self, topic: str, value: OffsetCommitValue) -> int | None:  # noqa: ARG002
        """See `GroupLike`."""
        return None

    # -- administration ----------------------------------------------------------------------------

    def tombstones(self) -> Sequence[Record]:
        """See `GroupLike` [share-groups/delete]."""
        group_id = self.group_id
        members = [member.member_id for member in self.ordered_members()]
        targets = [*members, *(each for each in self.target_values if each not in self.members)]
        keys: list[Message] = [
            *(
                ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=each)
                for each in members
            ),
            *(
                ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=each)
                for each in targets
            ),
            ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
            *(ShareGroupMemberMetadataKey(group_id=group_id, member_id=each) for each in members),
            ShareGroupStatePartitionMetadataKey(group_id=group_id),
            ShareGroupMetadataKey(group_id=group_id),
        ]
        return [(key, None) for key in keys]
