"""Where an empty share group begins to read: its offsets are set and deleted.

The offsets are those of the share coordinator. The group writes what it is about to change, asks,
and writes that it is done; then the client is answered [share-groups/alter-offsets],
[share-groups/delete-offsets].
"""

from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.heartbeat import first_step
from coterie.coordinator.groups.recorded.lookup import (
    check_room_for_group,
    existing_group,
    find_group,
)
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.groups.share.initialization import (
    ask_when_durable,
    state_to_create,
    state_to_delete,
    write_state,
)
from coterie.coordinator.groups.share.refusal import offsets_error
from coterie.coordinator.groups.share.state_partitions import Topic
from coterie.coordinator.groups.share.state_request import OffsetsResponse, StateRequest
from coterie.coordinator.groups.share.step import Step
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.coordinator.topic_image import TopicImage
from coterie.protocol.errors import DEFAULT_MESSAGES, ErrorCode
from coterie.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from coterie.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from coterie.protocol.wire import ZERO_UUID

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_UNKNOWN_TEXT = DEFAULT_MESSAGES[_UNKNOWN]
# What one request may change: it is one operation, in one turn of the event loop. Changing so many
# partitions takes some ten milliseconds.
MAX_CHANGED = 4_000
_NOTHING_TEXT = "There is no offset information to delete."


def alter_offsets(
    partition: PartitionState,
    now_ms: int,
    request: AlterShareGroupOffsetsRequest,
    context: RequestContext,
) -> Effects[OffsetsResponse]:
    """Let partitions begin at other offsets; a group that does not exist is created.

    Whether an offset exists is not checked, and of a partition that is named twice the last one
    counts, as in Kafka.
    """
    try:
        _check_count(sum(len(each.partitions) + 1 for each in request.topics))
        group = _empty_group(partition, request.group_id)
        known = _answered_topics(partition, request)
        offsets, response = _altered(known, request)
        if not known:
            return Effects(response)
        if group is None:
            check_room_for_group(partition)
            step = first_step(Step, ShareGroup, partition, request.group_id, now_ms, context)
        else:
            step = Step(partition, group, now_ms, context)
        begun = {
            topic.topic_id: Topic(name, frozenset(offsets[topic.topic_id]))
            for name, topic in known.items()
            if topic.topic_id in offsets
        }
        # Without a partition that exists the group is created all the same, as in Kafka.
        write_state(step, step.group.state_partitions.begun(begun))
        step.require_fit()
    except Refusal as refusal:
        return Effects(offsets_error(request, refusal.error, text=refusal.text))
    if not offsets:
        step.effects.response = response
        return step.effects
    assert step.group.is_empty, f"the offsets of {step.group} change while members read"
    message = state_to_create(step.group, offsets)
    to = context.to
    asked = StateRequest(step.group, message, context, to, asked=request, response=response)
    ask_when_durable(step, asked)
    return step.effects


def _answered_topics(
    partition: PartitionState, request: AlterShareGroupOffsetsRequest
) -> dict[str, TopicImage]:
    """Return those topics of a request that exist."""
    by_name = partition.topics.by_name
    names = dict.fromkeys(each.topic_name for each in request.topics)
    return {name: by_name[name] for name in names if name in by_name}


def _altered(
    known: dict[str, TopicImage], request: AlterShareGroupOffsetsRequest
) -> tuple[dict[bytes, dict[int, int]], AlterShareGroupOffsetsResponse]:
    """Return the offsets of partitions that exist, and the response if all of them are altered.

    Topics that do not exist come first.
    """
    offsets: dict[bytes, dict[int, int]] = {}
    results: dict[str, AlterShareGroupOffsetsResponseTopic] = {}
    for asked in sorted(request.topics, key=lambda each: each.topic_name in known):
        topic = known.get(asked.topic_name)
        result = results.get(asked.topic_name)
        if result is None:
            result = results[asked.topic_name] = AlterShareGroupOffsetsResponseTopic(
                topic_name=asked.topic_name,
                topic_id=ZERO_UUID if topic is None else topic.topic_id,
                partitions=[],
            )
        result.partitions += _results(asked, 0 if topic is None else topic.partitions)
        if topic is not None:
            for each in asked.partitions:
                if 0 <= each.partition_index < topic.partitions:
                    of_topic = offsets.setdefault(topic.topic_id, {})
                    of_topic[each.partition_index] = each.start_offset
    return offsets, AlterShareGroupOffsetsResponse(responses=list(results.values()))


def _results(
    asked: AlterShareGroupOffsetsRequestTopic, count: int
) -> list[AlterShareGroupOffsetsResponsePartition]:
    """Return a result for each partition of a topic of a request, which has `count`."""
    results = []
    for each in asked.partitions:
        exists = 0 <= each.partition_index < count
        results.append(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=each.partition_index,
                error_code=ErrorCode.NONE if exists else _UNKNOWN,
                error_message=None if exists else _UNKNOWN_TEXT,
            )
        )
    return results


def delete_offsets(
    partition: PartitionState,
    now_ms: int,
    request: DeleteShareGroupOffsetsRequest,
    context: RequestContext,
) -> Effects[OffsetsResponse]:
    """Forget the state of topics, so that they are initialized anew; each topic counts once."""
    try:
        _check_count(len(request.topics))
        group = _existing_group(partition, request.group_id)
        if group.state_value is None:
            # Nothing was ever initialized: Kafka says nothing of the topics.
            return Effects(DeleteShareGroupOffsetsResponse(responses=[]))
        names = list(dict.fromkeys(each.topic_name for each in request.topics))
        by_id = _with_state(partition, group, names)
        response = _deleted(partition, by_id, names)
        if not by_id:
            return Effects(response)
        step = Step(partition, group, now_ms, context)
        state = group.state_partitions.with_state(group.topics)
        write_state(step, group.state_partitions.deleting_begun(by_id))
        step.require_fit()
    except Refusal as refusal:
        return Effects(offsets_error(request, refusal.error, text=refusal.text))
    assert group.is_empty, f"the offsets of {group} are deleted while members read"
    message = state_to_delete(group, {each: state[each] for each in by_id})
    to = context.to
    asked = StateRequest(group, message, context, to, asked=request, response=response)
    ask_when_durable(step, asked)
    return step.effects


def _with_state(
    partition: PartitionState, group: ShareGroup, names: list[str]
) -> dict[bytes, TopicImage]:
    """Return the topics that have state, or whose deletion was begun before, by their ids."""
    parts, by_name = group.state_partitions, partition.topics.by_name
    topics = [by_name[name] for name in names if name in by_name]
    return {
        each.topic_id: each
        for each in topics
        if each.topic_id in parts.initialized or each.topic_id in parts.deleting
    }


def _deleted(
    partition: PartitionState, by_id: dict[bytes, TopicImage], names: list[str]
) -> DeleteShareGroupOffsetsResponse:
    """Return the response if all topics with state are deleted: these come first, as in Kafka."""
    gone = {each.name for each in by_id.values()}
    results = [
        DeleteShareGroupOffsetsResponseTopic(
            topic_name=each.name, topic_id=each.topic_id, error_code=ErrorCode.NONE
        )
        for each in by_id.values()
    ]
    for name in names:
        if name not in gone:
            exists = name in partition.topics.by_name
            text = _NOTHING_TEXT if exists else _UNKNOWN_TEXT
            result = DeleteShareGroupOffsetsResponseTopic(
                topic_name=name, topic_id=ZERO_UUID, error_code=_UNKNOWN, error_message=text
            )
            results.append(result)
    return DeleteShareGroupOffsetsResponse(responses=results)


def _empty_group(partition: PartitionState, group_id: str) -> ShareGroup | None:
    """Return a group without members; None if there is no group of this id.

    Raises:
        Refusal: the group has members, or is of another type.
    """
    group = find_group(partition, group_id, ShareGroup)
    if group is not None:
        _check_empty(group)
    return group


def _existing_group(partition: PartitionState, group_id: str) -> ShareGroup:
    """Return a group without members.

    Raises:
        Refusal: there is no such group, it has members, or it is of another type.
    """
    group = existing_group(partition, group_id, ShareGroup)
    _check_empty(group)
    return group


def _check_empty(group: ShareGroup) -> None:
    if group.members:
        raise Refusal(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def _check_count(count: int) -> None:
    if count > MAX_CHANGED:
        text = f"A request changes at most {MAX_CHANGED} topics and partitions."
        raise Refusal(ErrorCode.POLICY_VIOLATION, text)
