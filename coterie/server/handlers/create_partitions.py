"""CreatePartitions: raise numbers of partitions of topics (KIP-195) [topics/partition-limits]."""

from collections import Counter

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
    CreatePartitionsResponseResult,
)
from coterie.server.handlers.topic_changes import answer_with_change
from coterie.server.logs.partition import Topic
from coterie.server.metadata.placing import DEFAULT_FACTOR, Replicas
from coterie.server.metadata.topic_changes import Change
from coterie.server.metadata.topic_rules import (
    MAX_PARTITIONS_PER_REQUEST,
    TopicRefused,
    check_replicas,
    check_same_factor,
)
from coterie.server.network.delayed_response import Exchange
from coterie.server.quotas.mutations import Mutations
from coterie.server.services import Services

# The first version that is refused above the quota of changes (KIP-599).
_STRICT_SINCE = 3


def handle(
    broker: Services, request: CreatePartitionsRequest, connection: Exchange
) -> CreatePartitionsResponse | None:
    """Add partitions, or only check whether they could be added; answer for each name."""
    mutations = Mutations(broker, connection, _STRICT_SINCE)
    return answer_with_change(broker, connection, _extend_all(broker, request, mutations))


def _extend_all(
    broker: Services, request: CreatePartitionsRequest, mutations: Mutations
) -> Change[CreatePartitionsResponse]:
    times = Counter(each.name for each in request.topics)
    results: dict[str, CreatePartitionsResponseResult] = {}
    for each in request.topics:
        error, text = ErrorCode.NONE, None
        yield None
        try:
            topic = _check(
                broker,
                each,
                is_repeated=times[each.name] > 1,
                validate_only=request.validate_only,
            )
            mutations.count(each.count - topic.partition_count)
            if not request.validate_only:
                yield from broker.controller.extension(topic, each.count, _replicas(each, topic))
        except TopicRefused as refused:
            error, text = refused.error, refused.text
        results[each.name] = CreatePartitionsResponseResult(
            name=each.name, error_code=error, error_message=text
        )
    return CreatePartitionsResponse(
        throttle_time_ms=mutations.wait_ms, results=list(results.values())
    )


def _check(
    broker: Services,
    asked: CreatePartitionsRequestTopic,
    *,
    is_repeated: bool,
    validate_only: bool,
) -> Topic:
    """Return the topic to extend.

    Raises:
        TopicRefused: it cannot be extended as asked.
    """
    if is_repeated:
        raise TopicRefused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    topic = broker.topics.by_name.get(asked.name)
    if topic is None:
        raise TopicRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    existing = topic.partition_count
    added = asked.count - existing
    text = None
    if added == 0:
        text = f"Topic already has {existing} partition(s)."
    elif added < 0:
        text = (
            f"The topic {topic.name} currently has {existing} partition(s);"
            f" {asked.count} would not be an increase."
        )
    elif added > MAX_PARTITIONS_PER_REQUEST:
        text = f"One request can add at most {MAX_PARTITIONS_PER_REQUEST} partitions."
    elif topic.is_own and not (validate_only and topic.is_internal):
        # Kafka extends __consumer_offsets, and then looks for every group in another partition.
        text = f"The number of partitions of {topic.name} is fixed once it exists."
    if text is not None:
        raise TopicRefused(ErrorCode.INVALID_PARTITIONS, text)
    if asked.assignments is not None:
        if len(asked.assignments) != added:
            raise TopicRefused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {added} additional partition(s), but only"
                f" {len(asked.assignments)} assignment(s) were specified.",
            )
        for assignment in asked.assignments:
            check_replicas(assignment.broker_ids, broker.image.nodes)
            if topic.replicas:
                check_same_factor(assignment.broker_ids, len(topic.replicas[0]))
    return topic


def _replicas(asked: CreatePartitionsRequestTopic, topic: Topic) -> Replicas:
    """Return where new partitions are to be placed: as often as the first one by default."""
    if asked.assignments is None:
        return len(topic.replicas[0]) if topic.replicas else DEFAULT_FACTOR
    return [each.broker_ids for each in asked.assignments]
