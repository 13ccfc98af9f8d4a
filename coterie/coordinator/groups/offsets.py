"""OffsetCommit, OffsetFetch and OffsetDelete.

A commit is one record per partition; all records of a request share one append
[offsets/commit-record]. A fetch returns the newest state, and the shard delays the response until
that state is durable [offsets/fetch-is-durable].
"""

from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.kernel.append import Record
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.operation import Operation
from coterie.coordinator.kernel.request import RequestContext
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
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from coterie.protocol.refusals import refusal
from coterie.protocol.wire import ZERO_UUID

# The first version in which a generation of an unknown group is GROUP_ID_NOT_FOUND, as for member
# epochs, and not ILLEGAL_GENERATION [offsets/unknown-group-commit].
_MEMBER_EPOCH_SINCE = 9
# The only version in which a client sends commit timestamps.
_COMMIT_TIMESTAMP_VERSION = 1
_LARGEST_TIMESTAMP_MS = 2**63 - 1


# -- OffsetCommit ----------------------------------------------------------------------------------


def commit(
    partition: PartitionState, now_ms: int, request: OffsetCommitRequest, version: int
) -> Effects[OffsetCommitResponse]:
    """Handle an OffsetCommit.

    The server has already refused partitions that do not exist, and has set both name and id of
    every topic.
    """
    group = partition.groups.get(request.group_id)
    effects: Effects[OffsetCommitResponse] = Effects()
    if group is None:
        error = _unknown_group_error(partition, request, version)
    else:
        error = group.commit_error(now_ms, request, version)
    if error:
        effects.response = refusal(request, error, version)
        return effects
    max_units = partition.config.offset_metadata_max_size
    # A character has at most two UTF-16 code units, so the units of shorter strings need not be
    # counted.
    always_fitting = max_units // 2
    retention_ms = request.retention_time_ms
    expire_ms = NO_EXPIRY
    if retention_ms != -1:
        # A client may ask for more time than a timestamp can hold [offsets/own-retention].
        expire_ms = min(now_ms + retention_ms, _LARGEST_TIMESTAMP_MS)
    topics = []
    group_id = request.group_id
    operation = Operation(group_id, [])
    records = operation.records
    accepted = ErrorCode.NONE
    for topic in request.topics:
        name, topic_id = topic.name, topic.topic_id
        partitions = []
        for each in topic.partitions:
            index = each.partition_index
            metadata = each.committed_metadata or ""
            if len(metadata) > always_fitting and is_metadata_too_large(metadata, max_units):
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                code = accepted
                offset, epoch = each.committed_offset, each.committed_leader_epoch
                value = OffsetCommitValue.of(offset, epoch, metadata, now_ms, expire_ms, topic_id)
                records.append((OffsetCommitKey.of(group_id, name, index), value))
            partitions.append(OffsetCommitResponsePartition.of(index, code))
        topics.append(OffsetCommitResponseTopic.of(name, topic_id, partitions))
    if version == _COMMIT_TIMESTAMP_VERSION:
        _set_timestamps(records, request)
    if records:
        effects.operation = operation
        if group is None:
            # See [offsets/unknown-group-commit].
            operation.creates = partition.new_group(group_id, now_ms)
    effects.response = OffsetCommitResponse.of(0, topics)
    return effects


def _set_timestamps(records: list[Record], request: OffsetCommitRequest) -> None:
    """Give the records the clients' own commit timestamps [offsets/oldest-versions]."""
    own = {
        (topic.name, each.partition_index): each.commit_timestamp
        for topic in request.topics
        for each in topic.partitions
        if each.commit_timestamp != -1
    }
    for key, value in records:
        assert isinstance(key, OffsetCommitKey), key
        assert isinstance(value, OffsetCommitValue), value
        value.commit_timestamp = own.get((key.topic, key.partition), value.commit_timestamp)


def is_metadata_too_large(metadata: str, max_units: int) -> bool:
    """Return whether metadata is longer than allowed, as Java counts it [offsets/metadata-size]."""
    return len(metadata.encode("utf-16-le")) // 2 > max_units


def _unknown_group_error(
    partition: PartitionState, request: OffsetCommitRequest, version: int
) -> ErrorCode:
    """Return the error of a commit to an unknown group [offsets/unknown-group-commit].

    Without a generation it is accepted: its records create the group.
    """
    if request.generation_id_or_member_epoch >= 0:
        if version >= _MEMBER_EPOCH_SINCE:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE if partition.has_room_for_group() else ErrorCode.POLICY_VIOLATION


# -- OffsetFetch -----------------------------------------------------------------------------------


def fetch_group(
    partition: PartitionState, asked: OffsetFetchRequestGroup, *, stable: bool
) -> OffsetFetchResponseGroup:
    """Return the committed offsets of one group of a request that may name several."""
    group = partition.groups.get(asked.group_id)
    error = ErrorCode.NONE
    if group is not None:
        error = group.fetch_error(asked.member_id, asked.member_epoch)
    topics = [] if error else fetch(partition, asked.group_id, asked.topics, stable=stable)
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics, error_code=error)


def fetch(
    partition: PartitionState,
    group_id: str,
    topics: list[OffsetFetchRequestTopic] | None,
    *,
    stable: bool,
) -> list[OffsetFetchResponseTopic]:
    """Return the committed offsets of one group [offsets/fetch].

    Args:
        partition: the partition of the group.
        group_id: the group; an unknown one has no committed offsets.
        topics: the requested topics; None for every partition with an offset.
        stable: refuse partitions with pending offsets.
    """
    fetched = _fetch(partition, group_id, topics)
    if stable and group_id in partition.logged.pending.by_group:
        _refuse_unstable(partition, group_id, fetched)
    return fetched


def _refuse_unstable(
    partition: PartitionState, group_id: str, fetched: list[OffsetFetchResponseTopic]
) -> None:
    """Put the error of pending offsets in the place of committed ones [offsets/require-stable]."""
    pending = partition.logged.pending
    for topic in fetched:
        topic.partitions = [
            OffsetFetchResponsePartition.of(
                each.partition_index, -1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT
            )
            if pending.is_pending(group_id, topic.name, each.partition_index)
            else each
            for each in topic.partitions
        ]


def _fetch(
    partition: PartitionState, group_id: str, topics: list[OffsetFetchRequestTopic] | None
) -> list[OffsetFetchResponseTopic]:
    group = partition.groups.get(group_id)
    known = group is not None and group.exists
    committed = partition.logged.offsets.get(group_id, {}) if known else {}
    if partition.holds:
        committed = partition.held_offsets.get(group_id, committed)
    if topics is None:
        return [
            OffsetFetchResponseTopic(
                name=name,
                topic_id=next(iter(partitions.values())).topic_id,
                partitions=[
                    _fetched_partition(index, value) for index, value in partitions.items()
                ],
            )
            for name, partitions in committed.items()
        ]
    fetched = []
    for topic in topics:
        name, topic_id = topic.name, topic.topic_id
        stored = committed.get(name, {})
        partitions = [
            _fetched_partition(index, _of_this_topic(stored.get(index), topic_id))
            for index in topic.partition_indexes
        ]
        fetched.append(OffsetFetchResponseTopic.of(name, topic_id, partitions))
    return fetched


def _of_this_topic(value: OffsetCommitValue | None, topic_id: bytes) -> OffsetCommitValue | None:
    """Return an offset unless it is of another topic of that name [offsets/fetch-by-topic-id]."""
    if value is None or value.topic_id == topic_id or ZERO_UUID in (topic_id, value.topic_id):
        return value
    return None


def _fetched_partition(index: int, value: OffsetCommitValue | None) -> OffsetFetchResponsePartition:
    fetched: OffsetFetchResponsePartition
    if value is None:
        fetched = OffsetFetchResponsePartition.of(index, -1, -1, "", ErrorCode.NONE)
    else:
        fetched = OffsetFetchResponsePartition.of(
            index, value.offset, value.leader_epoch, value.metadata, ErrorCode.NONE
        )
    return fetched


# -- OffsetDelete ----------------------------------------------------------------------------------


def delete_offsets(
    partition: PartitionState,
    _now_ms: int,
    request: OffsetDeleteRequest,
    _context: RequestContext,
) -> Effects[OffsetDeleteResponse]:
    """Handle an OffsetDelete of partitions that exist [offsets/delete]."""
    group = partition.groups.get(request.group_id)
    if group is None or not group.exists:
        return Effects(OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND, topics=[]))
    error = group.offset_delete_error()
    if error:
        return Effects(OffsetDeleteResponse(error_code=error, topics=[]))
    operation = Operation(request.group_id, [])
    committed = partition.logged.offsets.get(request.group_id, {})
    pending = partition.logged.pending
    topics = []
    for topic in request.topics:
        # See [offsets/delete].
        in_use = group.is_consuming(topic.name)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use else ErrorCode.NONE
        partitions = []
        for each in topic.partitions:
            index = each.partition_index
            if not in_use and (
                index in committed.get(topic.name, {})
                or pending.is_pending(request.group_id, topic.name, index)
            ):
                key = OffsetCommitKey(group=request.group_id, topic=topic.name, partition=index)
                operation.records.append((key, None))
            partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    effects = Effects(OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics))
    if operation.records:
        effects.operation = operation
    return effects
