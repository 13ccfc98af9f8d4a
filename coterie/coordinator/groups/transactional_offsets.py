"""TxnOffsetCommit: offsets that a group commits as a part of a transaction.

The records of a TxnOffsetCommit are a batch of their own, with the producer's id and epoch. Their
offsets are pending until the marker of the transaction is applied [offsets/pending].
"""

from typing import Any

from coterie.coordinator.groups.offsets import is_metadata_too_large
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.kernel.append import BatchForm
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.operation import Operation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.log_records import NO_EXPIRY, OffsetCommitKey, OffsetCommitValue
from coterie.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from coterie.protocol.record_batch_layout import TRANSACTIONAL
from coterie.protocol.refusals import refusal
from coterie.protocol.wire import ZERO_UUID

# Kafka does not count the batches of a group log [offsets/pending].
_BASE_SEQUENCE = 0


def commit_transactional(
    partition: PartitionState,
    now_ms: int,
    request: TxnOffsetCommitRequest,
    version: int,
    logged_epoch: int,
) -> Effects[TxnOffsetCommitResponse]:
    """Handle a TxnOffsetCommit whose transaction was checked.

    Args:
        partition: the partition of the group.
        now_ms: the time.
        request: the offsets of partitions that exist.
        version: its version.
        logged_epoch: the producer's epoch in the log of the partition; -1 if it has none there.
    """
    group = partition.groups.get(request.group_id)
    if group is not None:
        error = group.transactional_commit_error(request)
    elif request.generation_id >= 0:
        error = ErrorCode.ILLEGAL_GENERATION
    else:
        error = ErrorCode.NONE if partition.has_room_for_group() else ErrorCode.POLICY_VIOLATION
    if not error and request.producer_epoch < max(
        logged_epoch, partition.producer_epoch(request.producer_id)
    ):
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    if error:
        return Effects(refusal(request, error, version))
    operation = Operation(request.group_id, [])
    max_units = partition.config.offset_metadata_max_size
    topics = []
    for topic in request.topics:
        partitions = []
        for each in topic.partitions:
            metadata = each.committed_metadata or ""
            if is_metadata_too_large(metadata, max_units):
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                code = ErrorCode.NONE
                key = OffsetCommitKey.of(request.group_id, topic.name, each.partition_index)
                offset, epoch = each.committed_offset, each.committed_leader_epoch
                value = OffsetCommitValue.of(offset, epoch, metadata, now_ms, NO_EXPIRY, ZERO_UUID)
                operation.records.append((key, value))
            partitions.append(TxnOffsetCommitResponsePartition.of(each.partition_index, code))
        topics.append(TxnOffsetCommitResponseTopic.of(topic.name, partitions))
    operation.form = BatchForm(
        TRANSACTIONAL, request.producer_id, request.producer_epoch, _BASE_SEQUENCE
    )
    effects: Effects[TxnOffsetCommitResponse] = Effects(TxnOffsetCommitResponse.of(0, topics))
    if operation.records:
        effects.operation = operation
        if group is None:
            operation.creates = partition.new_group(request.group_id, now_ms)
    return effects


def pending_keys(partition: PartitionState, group_id: str) -> list[OffsetCommitKey]:
    """Return the keys of a group's pending offsets for which nothing is committed."""
    if group_id not in partition.logged.pending.by_group:
        return []
    committed: dict[str, Any] = dict(partition.logged.offsets.get(group_id, {}))
    return [
        OffsetCommitKey(group=group_id, topic=topic, partition=index)
        for topic, index in partition.logged.pending.partitions(group_id)
        if index not in committed.get(topic, ())
    ]
