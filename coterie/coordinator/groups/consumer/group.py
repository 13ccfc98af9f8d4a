"""A consumer group, with the answers that a group of any type gives."""

from collections.abc import Sequence
from typing import Any, ClassVar

from coterie.coordinator.groups.consumer.group_state import CONSUMER, ConsumerGroupState
from coterie.coordinator.groups.consumer.member import ConsumerMember
from coterie.coordinator.groups.consumer.states import GroupState, MemberState
from coterie.coordinator.groups.group_like import SeenMember
from coterie.coordinator.groups.seen_members import seen_member
from coterie.coordinator.kernel.append import Record
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.log_records import OffsetCommitValue
from coterie.protocol.messages.offset_commit import OffsetCommitRequest
from coterie.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from coterie.protocol.wire import ZERO_UUID

# From this version on OffsetCommit knows member epochs.
_EPOCHS_SINCE = 9

_NONE = ErrorCode.NONE


class ConsumerGroup(ConsumerGroupState):
    """One consumer group: its records, and what is not logged.

    Attributes:
        resolution: the matching of regular expressions that is under way; None if there is none.
        downgrade: the conversion of a large group that is to become a classic one; None if it is
            not.
        too_large_epoch: the epoch whose target was larger than a batch; -1 if none was.
        resolved_version: the version of the topics at the latest resolution; None after a load.
        too_large_ms: when the result of a resolution was larger than a batch; 0 if that never was.
    """

    TYPE: ClassVar[str] = CONSUMER

    __slots__ = (
        "downgrade", "resolution", "resolved_version", "too_large_epoch", "too_large_ms",
    )  # fmt: skip

    def __init__(self, group_id: str) -> None:
        """Create a group without records."""
        super().__init__(group_id)
        self.resolution: Any = None
        self.downgrade: Any = None
        self.too_large_epoch = -1
        self.resolved_version: int | None = None
        self.too_large_ms = 0

    def __repr__(self) -> str:
        return (
            f"ConsumerGroup({self.group_id!r}, {self.derived_state().value}, epoch={self.epoch}, "
            f"target={self.target_epoch}, members={list(self.members.values())})"
        )

    # -- members -----------------------------------------------------------------------------------

    def ordered_members(self) -> list[ConsumerMember]:
        """Return the members in Kafka's order of listings."""
        ordered = [self.members[each] for each in self.ordered_ids()]
        assert len(ordered) == len(self.members), f"{self} has each member once"
        return ordered

    def preferred_assignor(self, default: str, asking: str | None = None) -> str:
        """Return the assignor that most members ask for [consumer-groups/preferred-assignor].

        Of equals "uniform" comes first in Kafka's tables, unless the member whose request computes
        the target is the only one that asks for the other.

        Args:
            default: the assignor of a group whose members ask for none.
            asking: what the member asks for whose request computes the target.
        """
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.assignor
            if name is not None:
                votes[name] = votes.get(name, 0) + 1
        if not votes:
            return default
        most = max(votes.values())
        assert most <= len(self.members), f"a member of {self} has one vote"
        if most == 1 and asking is not None:
            return asking
        return max(name for name, count in votes.items() if count == most)

    # -- what all groups have in common ------------------------------------------------------------

    @property
    def group_type(self) -> str:
        """See `GroupLike`."""
        return CONSUMER

    @property
    def state_name(self) -> str:
        """See `GroupLike`."""
        return (GroupState.DEAD if self.is_gone else self.derived_state()).value

    def seen_members(self) -> Sequence[SeenMember]:
        """See `GroupLike`."""
        return [
            seen_member(member, self.topics_of(member), member.assigned, self.topics)
            for member in self.members.values()
        ]

    def waits_for(self, now_ms: int) -> str | None:
        """See `GroupLike`."""
        state = self.derived_state()
        if self.computation is not None:
            return "the computation of the assignment"
        if state is GroupState.ASSIGNING:
            return "the next heartbeat of a member, which computes the assignment"
        if state is not GroupState.RECONCILING:
            return None
        parts = []
        for member in self.members.values():
            name, since_ms = member.client_id or member.member_id, now_ms - member.changed_ms
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                count = sum(map(len, member.pending.values()))
                parts.append(f"{name} to give up {count} partitions ({since_ms / 1000:.1f} s)")
            elif member.epoch < self.target_epoch:
                parts.append(f"a heartbeat of {name}")
        return ", ".join(parts) or "partitions that are not released yet"

    # -- offsets -----------------------------------------------------------------------------------

    def commit_error(self, now_ms: int, request: OffsetCommitRequest, version: int) -> ErrorCode:  # noqa: ARG002
        """See `GroupLike` [consumer-groups/commit]; it does not start a session anew."""
        epoch = request.generation_id_or_member_epoch
        if epoch < 0 and not self.members:
            return _NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.classic is None and version < _EPOCHS_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        if epoch == member.epoch:
            return _NONE
        if epoch < member.epoch:
            partitions = [
                (topic.topic_id, each.partition_index)
                for topic in request.topics
                for each in topic.partitions
            ]
            if _may_commit_late(member, epoch, partitions):
                return _NONE
        return _stale(member)

    def transactional_commit_error(self, request: TxnOffsetCommitRequest) -> ErrorCode:
        """See `GroupLike` [consumer-groups/transactional-commit]."""
        epoch = request.generation_id
        named = request.member_id or request.group_instance_id is not None
        if epoch < 0 and (not self.members or not named):
            return _NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == member.epoch:
            return _NONE
        if epoch < member.epoch:
            partitions = [
                (self._topic_id(topic.name), each.partition_index)
                for topic in request.topics
                for each in topic.partitions
            ]
            if _may_commit_late(member, epoch, partitions):
                return _NONE
        return ErrorCode.ILLEGAL_GENERATION

    def _topic_id(self, name: str) -> bytes:
        topic = self.topics.by_name.get(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """See `GroupLike` [consumer-groups/fetch-offsets]."""
        if member_id is None:
            return _NONE if member_epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return _NONE if member_epoch == member.epoch else _stale(member)

    def offset_delete_error(self) -> ErrorCode:
        """See `GroupLike`; each topic decides for itself."""
        return _NONE

    def is_consuming(self, topic: str) -> bool:
        """See `GroupLike`."""
        if topic in self.by_name:
            return True
        return any(topic in each.topics for each in self.regexes.values())

    def expiry_base_ms(self, topic: str, value: OffsetCommitValue) -> int | None:
        """See `GroupLike`; there is no time at which the group became Empty."""
        return None if self.is_consuming(topic) else value.commit_timestamp

    # -- administration ----------------------------------------------------------------------------

    def tombstones(self) -> Sequence[Record]:
        """See `GroupLike`."""
        return [(key, None) for key in self.keys(self.ordered_ids())]


def _may_commit_late(
    member: ConsumerMember, epoch: int, partitions: Sequence[tuple[bytes, int]]
) -> bool:
    """Return whether a commit at an older epoch is of partitions that the member had then.

    All are accepted or none [consumer-groups/late-commit].
    """
    for topic_id, index in partitions:
        received = member.assigned.get(topic_id, {}).get(index)
        if received is None:
            received = member.pending.get(topic_id, {}).get(index)
        if received is None or epoch < received:
            return False
    return True


def _stale(member: ConsumerMember) -> ErrorCode:
    """Return the error of a wrong epoch; clients of the classic protocol know another one."""
    if member.classic is None:
        return ErrorCode.STALE_MEMBER_EPOCH
    return ErrorCode.ILLEGAL_GENERATION
