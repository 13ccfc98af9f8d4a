"""What becomes of the answers of the share coordinator, and of the clients that wait for them.

An answer is an operation of its own: the group writes what it says of its partitions. Clients that
delete a group, or change its offsets, are answered when that is durable.
"""

from typing import Any

from coterie.coordinator.groups.admin import delete_group
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.groups.share.initialization import write_state
from coterie.coordinator.groups.share.refusal import offsets_error
from coterie.coordinator.groups.share.state_partitions import Topic
from coterie.coordinator.groups.share.state_request import OffsetsResponse, StateRequest
from coterie.coordinator.groups.share.step import Step
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.shard import send_response
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from coterie.protocol.messages.delete_groups import DeleteGroupsResponseResult
from coterie.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
)

# By topic id and partition: error and text.
_Errors = dict[tuple[bytes, int], tuple[int, str | None]]


def state_answered(
    partition: PartitionState, request: StateRequest, answer: Any, now_ms: int
) -> Effects[Any]:
    """Handle the answer of the share coordinator about a group that is still the same one.

    Args:
        partition: the partition of the group.
        request: what was asked.
        answer: the response to `request.message`, with a result for each partition.
        now_ms: the time.

    Returns:
        What follows; with the answer to the client that waits, if one does.
    """
    group: ShareGroup = request.group
    assert not group.is_gone, f"{group} was given up and is answered"
    errors: _Errors = {
        (topic.topic_id, each.partition): (each.error_code, each.error_message)
        for topic in answer.results
        for each in topic.partitions
        if each.error_code
    }
    # A client that waited for too long has its answer already.
    waits = request in group.waiting
    if waits:
        group.waiting.remove(request)
    if request.asked is not None and request.response is None:
        return _group_deleted(partition, request, errors, now_ms) if waits else Effects()
    step = Step(partition, group, now_ms)
    if isinstance(request.message, InitializeShareGroupStateRequest):
        _initialized(step, request.message, failed=bool(errors))
    else:
        _deleted(step, request, errors)
    if waits and request.response is not None:
        _fill_in(request.response, errors)
        step.effects.response = request.response
    return step.effects


def _initialized(step: Step, message: InitializeShareGroupStateRequest, *, failed: bool) -> None:
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


def _deleted(step: Step, request: StateRequest, errors: _Errors) -> None:
    """Write which topics have no state any more; others are deleted by a later request."""
    failed = {topic_id for topic_id, _ in errors}
    gone = {each.topic_id for each in request.message.topics} - failed
    parts = step.group.state_partitions
    if not gone.isdisjoint(parts.deleting):
        write_state(step, parts.deleted(gone))
        step.fits()


def _fill_in(response: OffsetsResponse, errors: _Errors) -> None:
    """Give the errors of partitions to a response in which all that were asked about are good."""
    if isinstance(response, AlterShareGroupOffsetsResponse):
        for topic in response.responses:
            for each in topic.partitions:
                place = topic.topic_id, each.partition_index
                if place in errors:
                    each.error_code, each.error_message = errors[place]
        return
    by_topic = {topic_id: error for (topic_id, _), error in errors.items()}
    for result in response.responses:
        if result.topic_id in by_topic:
            result.error_code, result.error_message = by_topic[result.topic_id]


def _group_deleted(
    partition: PartitionState, request: StateRequest, errors: _Errors, now_ms: int
) -> Effects[DeleteGroupsResponseResult]:
    """Delete a group whose state is gone [share-groups/delete]."""
    group_id = request.group.group_id
    if not errors:
        return delete_group(partition, group_id, now_ms, request.context)
    code, text = next(iter(errors.values()))
    return Effects(
        DeleteGroupsResponseResult(group_id=group_id, error_code=code, error_message=text)
    )


def refuse_waiting(request: StateRequest, error: ErrorCode, effects: Effects[Any]) -> None:
    """Answer a client whose request will not come to its end; what was written stays."""
    group: ShareGroup = request.group
    assert error, f"{request} is refused without an error"
    if request not in group.waiting:
        return
    group.waiting.remove(request)
    response: Any = DeleteGroupsResponseResult(group_id=group.group_id, error_code=error)
    if request.response is not None:
        response = offsets_error(request.asked, error)
    send_response(request.to, response, effects)
