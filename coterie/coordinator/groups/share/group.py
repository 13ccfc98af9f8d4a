"""A share group: what its records add up to, and the answers that a group of any type gives.

Invariant: `by_name` counts the members that subscribe to each topic, and has no zero.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.group_like import SeenMember
from coterie.coordinator.groups.recorded.group import RecordedGroup, RecordKeys, count_name
from coterie.coordinator.groups.seen_members import seen_member
from coterie.coordinator.groups.share.member import Partitions, ShareMember, partitions_of
from coterie.coordinator.groups.share.state_partitions import NOTHING, StatePartitions
from coterie.coordinator.groups.share.state_request import StateRequest
from coterie.coordinator.groups.share.states import GroupState
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.log_records import OffsetCommitValue
from coterie.protocol.messages.offset_commit import OffsetCommitRequest
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
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


class ShareGroup(RecordedGroup[ShareMember]):
    """One share group.

    Attributes:
        by_name: the topics to which members subscribe, with the number of these members.
        state_value: record 15 as it is logged; None if the log has none.
        state_partitions: what it says.

        initializing_since: by topic id, when its partitions began to be initialized; not logged.
        at_rest: what a heartbeat saw that had nothing to write; None after a load.
        waiting: the requests of clients that wait for the share coordinator.
    """

    TYPE: ClassVar[str] = SHARE
    KEYS: ClassVar[RecordKeys] = RecordKeys(
        ShareGroupMetadataKey,
        ShareGroupMemberMetadataKey,
        ShareGroupTargetAssignmentMetadataKey,
        ShareGroupTargetAssignmentMemberKey,
        ShareGroupCurrentMemberAssignmentKey,
        (ShareGroupStatePartitionMetadataKey,),
    )

    __slots__ = (
        "at_rest", "by_name", "initializing_since", "state_partitions", "state_value", "waiting",
    )  # fmt: skip

    def __init__(self, group_id: str) -> None:
        """Create a group without records."""
        super().__init__(group_id)
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

    def hears_nothing_new(self, request: Any, member: ShareMember, config: GroupConfig) -> bool:
        """See `RecordedGroup`."""
        table = config.share.settings
        return (
            isinstance(request, ShareGroupHeartbeatRequest)
            and request.subscribed_topic_names is None
            and request.rack_id is None
            and table.own.get(self.group_id, table.default) is member.settings
            and self.is_at_rest
        )

    def subscribed_topics(self) -> Collection[str]:
        """Return the topics to which members subscribe, whether they exist or not."""
        return self.by_name

    def is_homogeneous(self) -> bool:
        """Return whether all members subscribe to the same."""
        return all(count == len(self.members) for count in self.by_name.values())

    def derived_state(self) -> GroupState:
        """See `RecordedGroup`."""
        return GroupState.STABLE if self.members else GroupState.EMPTY

    @property
    def is_blank(self) -> bool:
        """See `RecordedGroup`."""
        return super().is_blank and self.state_value is None

    def named_values(self) -> Iterator[tuple[str, Message | None]]:
        """See `RecordedGroup`."""
        yield from super().named_values()
        yield "state partitions", self.state_value

    # -- records -----------------------------------------------------------------------------------

    def new_member(self, member_id: str) -> ShareMember:
        """See `RecordedGroup`."""
        return ShareMember(member_id)

    def set_other(self, key: Any, value: Any) -> Any:  # noqa: ARG002 - it is record 15
        """See `RecordedGroup`."""
        before, self.state_value = self.state_value, value
        self.state_partitions = StatePartitions.of(value)
        return before

    def count(self, member: ShareMember, step: int) -> None:
        """See `RecordedGroup`."""
        for name in member.names:
            count_name(self.by_name, name, step)

    # -- what all groups have in common ------------------------------------------------------------

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
        """See `GroupLike`: it has no committed offsets [share-groups/describe]."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def transactional_commit_error(self, request: TxnOffsetCommitRequest) -> ErrorCode:  # noqa: ARG002
        """See `GroupLike`."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:  # noqa: ARG002
        """See `GroupLike`: there is nothing to be found [share-groups/describe]."""
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

    def last_keys(self) -> Iterator[Message]:
        """See `RecordedGroup` [share-groups/delete]."""
        yield ShareGroupStatePartitionMetadataKey(group_id=self.group_id)
        yield ShareGroupMetadataKey(group_id=self.group_id)
