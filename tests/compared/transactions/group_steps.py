"""Requests to the group coordinator."""

from dataclasses import dataclass
from typing import Any

from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from coterie.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.compared.transactions.side import Side, Who
from tests.compared.transactions.step import Partitions, Step, by_topic

# The first versions with groups, with members, and of topics by id.
_FETCH_OF_GROUPS = 8
_FETCH_BY_ID = 10
_COMMIT_BY_ID = 10
_MEMBERS = 3


@dataclass(frozen=True)
class CommitInTransaction(Step):
    """TxnOffsetCommit."""

    who: Who
    group: str
    partitions: Partitions
    offset: int
    metadata: str | None = ""
    generation: int = -1
    member: str = ""
    instance: str | None = None

    def request(self, side: Side) -> Any:
        identity = side.identity(self.who)
        topics = [
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=self.offset,
                        committed_metadata=self.metadata,
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(self.partitions).items()
        ]
        has_member = self.version >= _MEMBERS
        member = side.member_id(self.group) if self.member == "member" else self.member
        return TxnOffsetCommitRequest(
            transactional_id=self.who.name,
            group_id=self.group,
            producer_id=identity.id,
            producer_epoch=identity.epoch,
            generation_id=self.generation if has_member else -1,
            member_id=member if has_member else "",
            group_instance_id=self.instance if has_member else None,
            topics=topics,
        )


@dataclass(frozen=True)
class Commit(Step):
    """OffsetCommit of a client that is no member, or of the member."""

    group: str
    partitions: Partitions
    offset: int
    is_member: bool = False

    def request(self, side: Side) -> Any:
        by_id = self.version >= _COMMIT_BY_ID
        topics = [
            OffsetCommitRequestTopic(
                name="" if by_id else topic,
                topic_id=side.topic_id(topic) if by_id else bytes(16),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=self.offset,
                        committed_metadata="plain",
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(self.partitions).items()
        ]
        return OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=1 if self.is_member else -1,
            member_id=side.member_id(self.group) if self.is_member else "",
            topics=topics,
        )


@dataclass(frozen=True)
class FetchOffsets(Step):
    """OffsetFetch of one group; of all partitions if none is named."""

    group: str
    partitions: Partitions | None
    stable: bool

    def request(self, side: Side) -> Any:
        by_id = self.version >= _FETCH_BY_ID
        topics = None
        if self.partitions is not None:
            topics = [
                OffsetFetchRequestTopic(
                    name="" if by_id else topic,
                    topic_id=side.topic_id(topic) if by_id else bytes(16),
                    partition_indexes=numbers,
                )
                for topic, numbers in by_topic(self.partitions).items()
            ]
        if self.version < _FETCH_OF_GROUPS:
            stable = self.stable and self.version == _FETCH_OF_GROUPS - 1
            return OffsetFetchRequest(group_id=self.group, topics=topics, require_stable=stable)
        group = OffsetFetchRequestGroup(group_id=self.group, topics=topics)
        return OffsetFetchRequest(groups=[group], require_stable=self.stable)


@dataclass(frozen=True)
class DeleteOffsets(Step):
    """OffsetDelete."""

    group: str
    partitions: Partitions

    def request(self, side: Side) -> Any:
        topics = [
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=each) for each in numbers],
            )
            for topic, numbers in by_topic(self.partitions).items()
        ]
        return OffsetDeleteRequest(group_id=self.group, topics=topics)


@dataclass(frozen=True)
class DeleteGroup(Step):
    """DeleteGroups of one group."""

    group: str

    def request(self, side: Side) -> Any:
        return DeleteGroupsRequest(groups_names=[self.group])
