"""CreateTopics: create topics, or only check whether they could be created (KIP-4).

[topics/creation-checks]
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseConfig,
    CreateTopicsResponseTopic,
)
from coterie.protocol.topic_names import SHARE_GROUPS_TOPIC, TRANSACTIONS_TOPIC
from coterie.server.config.described import topic_settings
from coterie.server.config.topic_config import TopicConfig
from coterie.server.handlers.topic_changes import answer_with_change
from coterie.server.logs.partition import Topic
from coterie.server.metadata.placing import Replicas
from coterie.server.metadata.topic_changes import Change
from coterie.server.metadata.topic_rules import (
    MAX_PARTITIONS_PER_REQUEST,
    TopicRefused,
    check_new_topic,
)
from coterie.server.network.delayed_response import Exchange
from coterie.server.quotas.mutations import Mutations
from coterie.server.services import Services

# The first version that is refused above the quota of changes (KIP-599).
_STRICT_SINCE = 6


def handle(
    broker: Services, request: CreateTopicsRequest, connection: Exchange
) -> CreateTopicsResponse | None:
    """Create the topics that can be created, and answer for each name."""
    mutations = Mutations(broker, connection, _STRICT_SINCE)
    return answer_with_change(broker, connection, _create_all(broker, request, mutations))


def _create_all(
    broker: Services, request: CreateTopicsRequest, mutations: Mutations
) -> Change[CreateTopicsResponse]:
    counts = [
        len(each.assignments) if each.assignments else each.num_partitions
        for each in request.topics
    ]
    times = Counter(each.name for each in request.topics)
    too_many = sum(max(count, 0) for count in counts) > MAX_PARTITIONS_PER_REQUEST
    answers: dict[str, CreateTopicsResponseTopic] = {}
    if not (too_many or request.validate_only):
        wanted = yield from _with_settings(broker, request, times)
        if len(wanted) > 1:
            yield from broker.controller.prepared.prepare(wanted)
    for each in request.topics:
        try:
            yield None
            answers[each.name] = yield from _create(
                broker,
                each,
                is_repeated=times[each.name] > 1,
                too_many=too_many,
                only_check=request.validate_only,
                mutations=mutations,
            )
        except TopicRefused as refused:
            answers[each.name] = CreateTopicsResponseTopic(
                name=each.name, error_code=refused.error, error_message=refused.text, configs=[]
            )
    broker.controller.prepared.forget()
    return CreateTopicsResponse(throttle_time_ms=mutations.wait_ms, topics=list(answers.values()))


def _with_settings(
    broker: Services, request: CreateTopicsRequest, times: Mapping[str, int]
) -> Change[dict[str, dict[str, str]]]:
    """Return the settings of the topics that have settings and can be created."""
    wanted = {}
    for each in request.topics:
        if each.configs and times[each.name] == 1 and each.name not in broker.topics.hidden:
            yield None
            with suppress(TopicRefused):
                broker.topics.check_name(each.name)
                check_new_topic(each, broker.image.nodes)
                wanted[each.name] = _settings(each)
    return wanted


def _settings(asked: CreateTopicsRequestTopic) -> dict[str, str]:
    return {config.name: config.value or "" for config in asked.configs}


def _replicas(asked: CreateTopicsRequestTopic) -> Replicas:
    """Return where the partitions of a topic are to be placed."""
    if not asked.assignments:
        return asked.replication_factor
    by_index = sorted(asked.assignments, key=lambda each: each.partition_index)
    return [each.broker_ids for each in by_index]


def new_topic(broker: Services, asked: CreateTopicsRequestTopic) -> Change[Topic]:
    """Create a topic that no client has asked for.

    Raises:
        TopicRefused: it cannot be created.
    """
    broker.topics.check_name(asked.name)
    partitions = check_new_topic(asked, broker.image.nodes)
    settings, replicas = _settings(asked), _replicas(asked)
    broker.controller.placing.new_replicas(asked.name, 1, replicas)
    return (yield from broker.controller.creation(asked.name, partitions, settings, replicas))


def _create(
    broker: Services,
    asked: CreateTopicsRequestTopic,
    *,
    is_repeated: bool,
    too_many: bool,
    only_check: bool,
    mutations: Mutations,
) -> Change[CreateTopicsResponseTopic]:
    """Create one topic, or only check whether it could be created.

    Args:
        broker: the broker.
        asked: the topic.
        is_repeated: whether the request names the topic more than once.
        too_many: whether the request asks for too many partitions in all.
        only_check: do not create it.
        mutations: counts the partitions.

    Raises:
        TopicRefused: it cannot be created.
    """
    if is_repeated:
        raise TopicRefused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if too_many:
        text = "Excessively large number of partitions per request."
        raise TopicRefused(ErrorCode.POLICY_VIOLATION, text)
    broker.topics.check_name(asked.name)
    partitions = check_new_topic(asked, broker.image.nodes)
    settings, replicas = _settings(asked), _replicas(asked)
    placed = broker.controller.placing.new_replicas(asked.name, 1, replicas)
    if partitions == -1:
        partitions = broker.config.get_int("num.partitions")
    broker.topics.check_hidden(asked.name, partitions)
    mutations.count(partitions)
    if only_check:
        topic_id = broker.environment.new_topic_id()
        config = TopicConfig(broker.config, settings)
    else:
        topic = yield from broker.controller.creation(asked.name, partitions, settings, replicas)
        topic_id, config = topic.topic_id, topic.config
        if asked.name == TRANSACTIONS_TOPIC:
            broker.transaction_runtime.create_topic()
        elif asked.name == SHARE_GROUPS_TOPIC:
            broker.share_state.create_topic()
    return CreateTopicsResponseTopic(
        name=asked.name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=partitions,
        replication_factor=len(placed[0]) if placed else 1,
        configs=[
            CreateTopicsResponseConfig(
                name=setting.name,
                # Kafka answers the topic's own values as they were given.
                value=config.overrides.get(setting.name, setting.value),
                read_only=False,
                config_source=setting.source,
                is_sensitive=False,
            )
            for setting in topic_settings(broker.config, config)
        ],
    )
