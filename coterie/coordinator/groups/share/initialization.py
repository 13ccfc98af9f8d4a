"""The delivery state of a group's partitions: when it is created, and what becomes of the answers.

A heartbeat writes that partitions are being initialized, together with its other records. When
these are durable the share coordinator is asked. Heartbeats do not wait for it
[share-groups/initialization].
"""

from collections.abc import Iterator
from typing import Any

from coterie.coordinator.groups.admin import delete_group
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.groups.share.state_partitions import StatePartitions, Topic, Topics
from coterie.coordinator.groups.share.state_request import StateRequest
from coterie.coordinator.groups.share.step import Step, records_of
from coterie.coordinator.kernel.append_errors import LARGE_OPERATION_ERROR
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsResponseResult
from coterie.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStatePartition,
    DeleteStateTopic,
)
from coterie.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStatePartition,
    InitializeStateTopic,
)
from coterie.protocol.messages.share_group_records import ShareGroupStatePartitionMetadataKey

# The start offset of partitions from which nothing was read: their leaders choose it.
_NOT_KNOWN = -1


def write_state(step: Step, parts: StatePartitions) -> None:
    """Write which partitions have state."""
    group = step.group
    step.set(ShareGroupStatePartitionMetadataKey(group_id=group.group_id), parts.value())
    group.initializing_since = dict.fromkeys(parts.initializing, step.now_ms)


def begin_initialization(step: Step) -> Topics:
    """Write that partitions of subscribed topics are being initialized; return those that begin."""
    if step.group.is_at_rest:
        return {}
    topics = _without_state(step.group, step.now_ms, step.partition)
    if topics:
        write_state(step, step.group.state_partitions.begun(topics))
    return topics


def ask_for_state(step: Step, topics: Topics) -> None:
    """Ask for the state of partitions as soon as the records of the step are durable."""
    group, operation = step.group, step.effects.operation
    if not topics:
        return
    assert operation is not None, f"{group} asks for state without a record"
    message = InitializeShareGroupStateRequest(
        group_id=group.group_id,
        topics=[
            InitializeStateTopic(
                topic_id=topic_id,
                partitions=[
                    InitializeStatePartition(
                        partition=index, state_epoch=group.epoch, start_offset=_NOT_KNOWN
                    )
                    for index in sorted(topic.partitions)
                ],
            )
            for topic_id, topic in sorted(topics.items())
        ],
    )
    operation.completion = StateRequest(group, message, step.context)


def _without_state(group: ShareGroup, now_ms: int, partition: PartitionState) -> Topics:
    """Return the partitions of subscribed topics that nobody initializes or has initialized."""
    parts, by_name = group.state_partitions, group.topics.by_name
    retry_ms = partition.config.share.initialize_retry_interval_ms
    found = {}
    for name in sorted(group.by_name):
        topic = by_name.get(name)
        if topic is None:
            continue
        topic_id = topic.topic_id
        missing = frozenset(range(topic.partitions))
        if topic_id in parts.initialized:
            missing -= parts.initialized[topic_id].partitions
        if topic_id in parts.initializing:
            since_ms = group.initializing_since.get(topic_id, now_ms)
            if now_ms - since_ms < retry_ms:
                missing -= parts.initializing[topic_id].partitions
        if missing:
            found[topic_id] = Topic(name, missing)
    return found


# -- answers ---------------------------------------------------------------------------------------


def state_answered(
    partition: PartitionState, request: StateRequest, answer: Any, now_ms: int
) -> Effects[DeleteGroupsResponseResult]:
    """Handle the answer of the share coordinator about a group that is still the same one.

    Args:
        partition: the partition of the group.
        request: what was asked.
        answer: the response to `request.message`, with a result for each partition.
        now_ms: the time.
    """
    group: ShareGroup = request.group
    failures = [each for topic in answer.results for each in topic.partitions if each.error_code]
    if isinstance(request.message, InitializeShareGroupStateRequest):
        return _initialized(Step(partition, group, now_ms), request.message, failed=bool(failures))
    group.deletions.remove(request)
    if not failures:
        return delete_group(partition, group.group_id, now_ms, request.context)
    return Effects(
        DeleteGroupsResponseResult(
            group_id=group.group_id,
            error_code=failures[0].error_code,
            error_message=failures[0].error_message,
        )
    )


def _initialized(
    step: Step, message: InitializeShareGroupStateRequest, *, failed: bool
) -> Effects[Any]:
    """Write that the state of partitions exists, or that none of them is being initialized."""
    parts = step.group.state_partitions
    topics = {
        topic.topic_id: Topic(
            parts.initializing[topic.topic_id].name,
            parts.initializing[topic.topic_id].partitions.intersection(
                each.partition for each in topic.partitions
            ),
        )
        for topic in message.topics
        # A topic may have been deleted meanwhile.
        if topic.topic_id in parts.initializing
    }
    if topics:
        write_state(step, parts.failed(topics) if failed else parts.done(topics))
        # If they do not fit the partitions stay as they are, and are initialized again later.
        step.fits()
    return step.effects


# -- deletion --------------------------------------------------------------------------------------


def delete_state_first(
    partition: PartitionState, group: ShareGroup, now_ms: int, context: RequestContext, to: Any
) -> Effects[Any] | None:
    """Ask for the deletion of all state of a group that is to be deleted [share-groups/delete].

    Returns:
        None if there is none, so that the group can be deleted at once.
    """
    state = group.state_partitions.with_state(group.topics)
    if not state:
        return None
    step = Step(partition, group, now_ms, context)
    write_state(step, group.state_partitions.all_deleting())
    if not step.fits():
        return Effects(
            DeleteGroupsResponseResult(group_id=group.group_id, error_code=LARGE_OPERATION_ERROR)
        )
    message = DeleteShareGroupStateRequest(
        group_id=group.group_id,
        topics=[
            DeleteStateTopic(
                topic_id=topic_id,
                partitions=[DeleteStatePartition(partition=index) for index in indexes],
            )
            for topic_id, indexes in state.items()
        ],
    )
    request = StateRequest(group, message, context, to)
    group.deletions.append(request)
    assert step.effects.operation is not None, f"{group} is deleted without a record"
    step.effects.operation.completion = request
    return step.effects


def refuse_deletion(request: StateRequest, error: ErrorCode, effects: Effects[Any]) -> None:
    """Answer a deletion that will not come to its end; what was written stays."""
    group: ShareGroup = request.group
    if request in group.deletions:
        group.deletions.remove(request)
        result = DeleteGroupsResponseResult(group_id=group.group_id, error_code=error)
        request.to.deliver(result, effects)


def forget_topic(partition: PartitionState, topic_id: bytes, now_ms: int) -> Iterator[Effects[Any]]:
    """Yield the steps by which groups forget the state of a topic that was deleted.

    The share coordinator removes the state itself [share-groups/topic-deletion].
    """
    for group in list(records_of(partition).groups.values()):
        is_live = partition.groups.get(group.group_id) is group
        if is_live and group.state_partitions.knows([topic_id]):
            step = Step(partition, group, now_ms)
            write_state(step, group.state_partitions.without_topics({topic_id}))
            if step.fits():
                yield step.effects
