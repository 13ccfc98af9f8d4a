"""The delivery state of a group's partitions: when it is created, and when it is deleted.

A heartbeat writes that partitions are being initialized, together with its other records. When
these are durable the share coordinator is asked. Heartbeats do not wait for it
[share-groups/initialization]; what becomes of its answers is in `state_answers`.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.records import logged_groups
from coterie.coordinator.groups.responses import DeletedGroup
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.groups.share.state_partitions import StatePartitions, Topic, Topics
from coterie.coordinator.groups.share.state_request import StateRequest
from coterie.coordinator.groups.share.step import Step
from coterie.coordinator.kernel.append_errors import LARGE_OPERATION_ERROR
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
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

# By topic id and partition.
StartOffsets = Mapping[bytes, Mapping[int, int]]


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
    if not topics:
        return
    message = state_to_create(
        step.group,
        {
            topic_id: dict.fromkeys(sorted(topic.partitions), _NOT_KNOWN)
            for topic_id, topic in topics.items()
        },
    )
    ask_when_durable(step, StateRequest(step.group, message, step.context))


def state_to_create(group: ShareGroup, offsets: StartOffsets) -> InitializeShareGroupStateRequest:
    """Return what asks for the state of partitions, which begin at some offsets."""
    return InitializeShareGroupStateRequest(
        group_id=group.group_id,
        topics=[
            InitializeStateTopic(
                topic_id=topic_id,
                partitions=[
                    InitializeStatePartition(
                        partition=index, state_epoch=group.epoch, start_offset=offset
                    )
                    for index, offset in partitions.items()
                ],
            )
            for topic_id, partitions in sorted(offsets.items())
        ],
    )


def ask_when_durable(step: Step, request: StateRequest) -> None:
    """Ask the share coordinator when the records of a step are durable, which fit a batch."""
    operation = step.effects.operation
    assert operation is not None, f"{step.group} asks for state without a record"
    assert request.group is step.group, f"{request} is about another group than {step.group}"
    assert operation.completion is None, f"{step.group} asks twice in one step"
    operation.completion = request
    if request.to is not None:
        step.group.waiting.append(request)


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
    request = StateRequest(
        group, state_to_delete(group, state), context, to, asked=DeletedGroup(group.group_id)
    )
    ask_when_durable(step, request)
    return step.effects


def state_to_delete(
    group: ShareGroup, partitions: Mapping[bytes, Collection[int]]
) -> DeleteShareGroupStateRequest:
    """Return what asks for the end of the state of partitions, which are given by topic id."""
    return DeleteShareGroupStateRequest(
        group_id=group.group_id,
        topics=[
            DeleteStateTopic(
                topic_id=topic_id,
                partitions=[DeleteStatePartition(partition=index) for index in indexes],
            )
            for topic_id, indexes in partitions.items()
        ],
    )


def forget_topic(partition: PartitionState, topic_id: bytes, now_ms: int) -> Iterator[Effects[Any]]:
    """Yield the steps by which groups forget the state of a topic that was deleted.

    The share coordinator removes the state itself [share-groups/initialization].
    """
    for group in list(logged_groups(partition, ShareGroup).values()):
        is_live = partition.groups.get(group.group_id) is group
        if is_live and group.state_partitions.knows([topic_id]):
            step = Step(partition, group, now_ms)
            write_state(step, group.state_partitions.without_topics({topic_id}))
            if step.fits():
                yield step.effects
