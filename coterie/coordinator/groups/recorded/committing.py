"""What members of groups that commit offsets at member epochs may commit and fetch."""

from collections.abc import Iterable
from typing import Any, Generic

from coterie.coordinator.groups.recorded.group import M, RecordedGroup
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.log_records import OffsetCommitValue
from coterie.protocol.messages.offset_commit import OffsetCommitRequest
from coterie.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from coterie.protocol.wire import ZERO_UUID

# From this version on OffsetCommit knows member epochs.
_EPOCHS_SINCE = 9

_NONE = ErrorCode.NONE


class CommittingGroup(RecordedGroup[M], Generic[M]):
    """A group whose members commit the offsets of what they are assigned."""

    __slots__ = ()

    def is_classic(self, member: Any) -> bool:  # noqa: ARG002 - for types that have some
        """Return whether a member uses the classic protocol, whose clients know no epochs."""
        return False

    def received_epoch(self, member: Any, topic: str, topic_id: bytes, index: int) -> int | None:
        """Return the epoch at which a member received a partition; None if it does not have it.

        A partition that it has been asked to give up is still one that it has.
        """
        raise NotImplementedError

    def commit_error(self, now_ms: int, request: OffsetCommitRequest, version: int) -> ErrorCode:  # noqa: ARG002
        """See `GroupLike` [consumer-groups/commit]; it does not start a session anew."""
        epoch = request.generation_id_or_member_epoch
        if epoch < 0 and not self.members:
            return _NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if version < _EPOCHS_SINCE and not self.is_classic(member):
            return ErrorCode.UNSUPPORTED_VERSION
        if epoch == member.epoch:
            return _NONE
        if epoch < member.epoch:
            partitions = (
                (topic.name, topic.topic_id, each.partition_index)
                for topic in request.topics
                for each in topic.partitions
            )
            if self._may_commit_late(member, epoch, partitions):
                return _NONE
        return self._stale(member)

    def transactional_commit_error(self, request: TxnOffsetCommitRequest) -> ErrorCode:
        """See `GroupLike` [consumer-groups/late-commit]."""
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
            partitions = (
                (topic.name, self._topic_id(topic.name), each.partition_index)
                for topic in request.topics
                for each in topic.partitions
            )
            if self._may_commit_late(member, epoch, partitions):
                return _NONE
        return ErrorCode.ILLEGAL_GENERATION

    def _topic_id(self, name: str) -> bytes:
        topic = self.topics.by_name.get(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def _may_commit_late(
        self, member: Any, epoch: int, partitions: Iterable[tuple[str, bytes, int]]
    ) -> bool:
        """Return whether a commit at an older epoch is of partitions that the member had then.

        All are accepted or none [consumer-groups/late-commit].
        """
        for topic, topic_id, index in partitions:
            received = self.received_epoch(member, topic, topic_id, index)
            if received is None or epoch < received:
                return False
        return True

    def _stale(self, member: Any) -> ErrorCode:
        """Return the error of a wrong epoch; clients of the classic protocol know another one."""
        if self.is_classic(member):
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.STALE_MEMBER_EPOCH

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """See `GroupLike` [consumer-groups/commit]."""
        if member_id is None:
            return _NONE if member_epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return _NONE if member_epoch == member.epoch else self._stale(member)

    def offset_delete_error(self) -> ErrorCode:
        """See `GroupLike`; each topic decides for itself."""
        return _NONE

    def expiry_base_ms(self, topic: str, value: OffsetCommitValue) -> int | None:
        """See `GroupLike`; there is no time at which the group became Empty."""
        return None if self.is_consuming(topic) else value.commit_timestamp
