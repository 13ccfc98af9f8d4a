"""CreatePartitions: a topic gets more partitions (KIP-195)."""

from typing import TYPE_CHECKING

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
    CreatePartitionsResponseResult,
)
from coterie.server.logs.topic_rules import (
    MAX_PARTITIONS_PER_REQUEST,
    TopicRefused,
    check_replicas,
)

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection


def handle(
    broker: "Broker", request: CreatePartitionsRequest, _connection: "Connection"
) -> CreatePartitionsResponse:
    """Add partitions, or only check whether they could be added."""
    times: dict[str, int] = {}
    for each in request.topics:
        times[each.name] = times.get(each.name, 0) + 1
    results: dict[str, CreatePartitionsResponseResult] = {}
    for each in request.topics:
        error, text = ErrorCode.NONE, None
        try:
            _add(broker, each, once=times[each.name] == 1, only_check=request.validate_only)
        except TopicRefused as refused:
            error, text = refused.error, refused.text
        results[each.name] = CreatePartitionsResponseResult(
            name=each.name, error_code=error, error_message=text
        )
    return CreatePartitionsResponse(results=list(results.values()))


def _add(
    broker: "Broker", asked: CreatePartitionsRequestTopic, *, once: bool, only_check: bool
) -> None:
    if not once:
        raise TopicRefused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    topic = broker.topics.by_name.get(asked.name)
    if topic is None:
        raise TopicRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    there = len(topic.partitions)
    more = asked.count - there
    text = None
    if more == 0:
        text = f"Topic already has {there} partition(s)."
    elif more < 0:
        text = (
            f"The topic {topic.name} currently has {there} partition(s);"
            f" {asked.count} would not be an increase."
        )
    elif more > MAX_PARTITIONS_PER_REQUEST:
        text = f"At most {MAX_PARTITIONS_PER_REQUEST} partitions are added by one request."
    elif topic.is_own:
        # Kafka would do it, and then look for every group in another partition than before.
        text = f"The number of partitions of {topic.name} is fixed once it exists."
    if text is not None:
        raise TopicRefused(ErrorCode.INVALID_PARTITIONS, text)
    if asked.assignments is not None:
        if len(asked.assignments) != more:
            raise TopicRefused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {more} additional partition(s), but only"
                f" {len(asked.assignments)} assignment(s) were specified.",
            )
        for assignment in asked.assignments:
            check_replicas(assignment.broker_ids, broker.node_id)
    if not only_check:
        broker.topics.add_partitions(topic, asked.count)
