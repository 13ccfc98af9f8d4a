"""AlterPartitionReassignments: put partitions on other brokers, if there are any (KIP-455).

It is done at once, because all brokers of a process have the same logs. A single broker accepts
what is so already [topics/one-broker].
"""

from collections.abc import Generator
from functools import partial

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestPartition,
    AlterPartitionReassignmentsResponse,
    AlterPartitionReassignmentsResponsePartition,
    AlterPartitionReassignmentsResponseTopic,
)
from coterie.server.cluster.elections import reassigned
from coterie.server.metadata.topic_rules import TopicRefused, check_replicas
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_in_slices, made_in_steps
from coterie.server.services import Services


def handle(
    broker: Services, request: AlterPartitionReassignmentsRequest, connection: Exchange
) -> AlterPartitionReassignmentsResponse | None:
    """Put each partition on the brokers of the request, and refuse those that do not exist."""
    return answer_in_slices(broker, connection, _answer(broker, request))


def _answer(
    broker: Services, request: AlterPartitionReassignmentsRequest
) -> Generator[None, None, AlterPartitionReassignmentsResponse]:
    responses = []
    for topic in request.topics:
        yield
        result = partial(
            _result, broker, topic.name, keeps_factor=not request.allow_replication_factor_change
        )
        partitions = yield from made_in_steps(result, topic.partitions)
        responses.append(
            AlterPartitionReassignmentsResponseTopic(name=topic.name, partitions=partitions)
        )
    return AlterPartitionReassignmentsResponse(
        # Kafka answers a request without topics with defaults, among them an empty text.
        allow_replication_factor_change=request.allow_replication_factor_change or not responses,
        error_code=ErrorCode.NONE,
        error_message=None if responses else "",
        responses=responses,
    )


def _result(
    broker: Services,
    name: str,
    asked: AlterPartitionReassignmentsRequestPartition,
    *,
    keeps_factor: bool,
) -> AlterPartitionReassignmentsResponsePartition:
    error, text = ErrorCode.NONE, None
    try:
        _check(broker, name, asked)
        if keeps_factor:
            _check_factor(broker, name, asked)
        _reassign(broker, name, asked)
    except TopicRefused as refused:
        error, text = refused.error, refused.text
    return AlterPartitionReassignmentsResponsePartition(
        partition_index=asked.partition_index, error_code=error, error_message=text
    )


def _reassign(
    broker: Services, name: str, asked: AlterPartitionReassignmentsRequestPartition
) -> None:
    """Let the brokers of a partition be those of the request, whatever it is that they had."""
    leadership = broker.leadership
    if leadership is not None and asked.replicas is not None:
        image, index = leadership.image, asked.partition_index
        if image.placements[name][index].replicas != asked.replicas:
            leadership.change(reassigned(image, name, index, asked.replicas))


def _check(broker: Services, name: str, asked: AlterPartitionReassignmentsRequestPartition) -> None:
    """Check that a partition may be where it is to be.

    Raises:
        TopicRefused: it may not.
    """
    topic = broker.topics.by_name.get(name)
    if topic is None:
        text = f"Unable to find a topic named {name}."
        raise TopicRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    if not topic.has(asked.partition_index):
        text = f"Unable to find partition {name}:{asked.partition_index}."
        raise TopicRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    if asked.replicas is None:
        raise TopicRefused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)
    check_replicas(asked.replicas, broker.image.nodes)


def _check_factor(
    broker: Services, name: str, asked: AlterPartitionReassignmentsRequestPartition
) -> None:
    """Check that a partition gets as many replicas as it has (KIP-860).

    Raises:
        TopicRefused: it does not (INVALID_REPLICATION_FACTOR).
    """
    where = broker.image.placed(name, asked.partition_index)
    # A single broker has been found to be the only replica that is asked for.
    if where is None or asked.replicas is None or len(where.replicas) == len(asked.replicas):
        return
    text = f"The replication factor is changed from {len(where.replicas)} to {len(asked.replicas)}"
    raise TopicRefused(ErrorCode.INVALID_REPLICATION_FACTOR, text)
