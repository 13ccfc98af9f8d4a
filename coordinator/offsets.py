"""Committing, reading and deleting offsets (spec sections 9, 10 and 11).

A commit is a record a partition; all records of one request share the fate of one append. What is
read is the newest state; the shard lets the answer wait until that state is durable.
"""

from coterie.coordinator.answers import commit_error
from coterie.coordinator.effects import Effects
from coterie.coordinator.group import CONSUMER_PROTOCOL_TYPE, Group, GroupState
from coterie.coordinator.members import identity_error
from coterie.coordinator.partition_state import PartitionState
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.log_records import NO_EXPIRY, OffsetCommitKey, OffsetCommitValue
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from coterie.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequestTopic,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from coterie.protocol.wire import ZERO_UUID

# From this version on a generation of an unknown group is GROUP_ID_NOT_FOUND, before it is
# ILLEGAL_GENERATION.
_MEMBER_EPOCH_SINCE = 9
_LAST_MS = 2**63 - 1


def commit(
    partition: PartitionState, now_ms: int, request: OffsetCommitRequest, version: int
) -> Effects:
    """Handle an OffsetCommit whose topics the handler found to exist and gave both name and id."""
    group = partition.groups.get(request.group_id)
    effects = Effects()
    error = _commit_error(partition, group, now_ms, request, version, effects)
    if error:
        effects.answer = commit_error(request, error)
        return effects
    largest = partition.config.offset_metadata_max_size
    # A character has two UTF-16 units at the most, so shorter texts need no counting.
    largest_sure = largest // 2
    retention_ms = request.retention_time_ms
    # A client may ask for more time than a timestamp can hold.
    expire_ms = min(now_ms + retention_ms, _LAST_MS) if retention_ms != -1 else NO_EXPIRY
    topics = []
    records = effects.records
    group_id = request.group_id
    for topic in request.topics:
        name, topic_id = topic.name, topic.topic_id
        partitions = []
        for each in topic.partitions:
            index = each.partition_index
            metadata = each.committed_metadata or ""
            if len(metadata) > largest_sure and _utf16_units(metadata) > largest:
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                code = ErrorCode.NONE
                offset, epoch = each.committed_offset, each.committed_leader_epoch
                value = OffsetCommitValue.of(offset, epoch, metadata, now_ms, expire_ms, topic_id)
                records.append((OffsetCommitKey.of(group_id, name, index), value))
            partitions.append(OffsetCommitResponsePartition.of(index, code))
        topics.append(OffsetCommitResponseTopic.of(name, topic_id, partitions))
    effects.answer = OffsetCommitResponse.of(0, topics)
    return effects


def _utf16_units(text: str) -> int:
    """The length of a text as Java counts it (quirk 6)."""
    return len(text.encode("utf-16-le")) // 2


def _commit_error(
    partition: PartitionState,
    group: Group | None,
    now_ms: int,
    request: OffsetCommitRequest,
    version: int,
    effects: Effects,
) -> ErrorCode:
    """Validate the committer in Kafka's order; create a simple group; a valid member's session
    starts again.
    """
    generation_id = request.generation_id_or_member_epoch
    if group is None:
        if generation_id >= 0:
            if version >= _MEMBER_EPOCH_SINCE:
                return ErrorCode.GROUP_ID_NOT_FOUND
            return ErrorCode.ILLEGAL_GENERATION
        if not partition.has_room_for_group():
            return ErrorCode.POLICY_VIOLATION
        partition.create_group(request.group_id, now_ms, effects)
        return ErrorCode.NONE
    state = group.state
    if state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation_id < 0 and state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation_id >= 0 or request.member_id or request.group_instance_id is not None:
        error = identity_error(group, request.member_id, request.group_instance_id)
        if error:
            return error
        if generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
    else:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    member = group.members[request.member_id]
    member.deadline_ms = now_ms + member.session_timeout_ms
    return ErrorCode.NONE


def fetch(
    partition: PartitionState, group_id: str, topics: list[OffsetFetchRequestTopic] | None
) -> list[OffsetFetchResponseTopic]:
    """The committed offsets of one group (spec section 10).

    Args:
        partition: the partition of the group.
        group_id: which group; an unknown one has committed nothing.
        topics: what is asked for; None for everything with an offset.
    """
    group = partition.groups.get(group_id)
    known = group is not None and group.state is not GroupState.DEAD
    committed = partition.logged.offsets.get(group_id, {}) if known else {}
    if topics is None:
        return [
            OffsetFetchResponseTopic(
                name=name,
                topic_id=next(iter(partitions.values())).topic_id,
                partitions=[_fetched(index, value) for index, value in partitions.items()],
            )
            for name, partitions in committed.items()
        ]
    answer = []
    for topic in topics:
        name, topic_id = topic.name, topic.topic_id
        stored = committed.get(name, {})
        partitions = [
            _fetched(index, _current(stored.get(index), topic_id))
            for index in topic.partition_indexes
        ]
        answer.append(OffsetFetchResponseTopic.of(name, topic_id, partitions))
    return answer


def _current(value: OffsetCommitValue | None, topic_id: bytes) -> OffsetCommitValue | None:
    """A stored offset, unless it was committed for an earlier topic of the same name (S118)."""
    if value is None or value.topic_id == topic_id or ZERO_UUID in (topic_id, value.topic_id):
        return value
    return None


def _fetched(index: int, value: OffsetCommitValue | None) -> OffsetFetchResponsePartition:
    made: OffsetFetchResponsePartition
    if value is None:
        made = OffsetFetchResponsePartition.of(index, -1, -1, "", ErrorCode.NONE)
    else:
        made = OffsetFetchResponsePartition.of(
            index, value.offset, value.leader_epoch, value.metadata, ErrorCode.NONE
        )
    return made


def delete_offsets(partition: PartitionState, request: OffsetDeleteRequest) -> Effects:
    """Handle an OffsetDelete (spec section 11): absent offsets count as deleted."""
    group = partition.groups.get(request.group_id)
    if group is None or group.state is GroupState.DEAD:
        return Effects(OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND, topics=[]))
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return Effects(OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP, topics=[]))
    effects = Effects()
    committed = partition.logged.offsets.get(request.group_id, {})
    topics = []
    for topic in request.topics:
        used = group.state is not GroupState.EMPTY and group.is_subscribed(topic.name)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if used else ErrorCode.NONE
        partitions = []
        for each in topic.partitions:
            index = each.partition_index
            if not used and index in committed.get(topic.name, {}):
                key = OffsetCommitKey(group=request.group_id, topic=topic.name, partition=index)
                effects.records.append((key, None))
            partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    effects.answer = OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)
    return effects
