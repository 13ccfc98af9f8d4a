"""Metadata: the broker, and topics by name or id; a missing topic may be created by the request.

As in Kafka, the first response about such a topic has UNKNOWN_TOPIC_OR_PARTITION, and the client
asks again [topics/auto-creation].
"""

from collections.abc import Generator

from coterie.protocol.authorized_operations import AUTHORIZED_OPERATIONS_OMITTED
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
)
from coterie.protocol.topic_names import SHARE_GROUPS_TOPIC, TRANSACTIONS_TOPIC
from coterie.protocol.wire import ZERO_UUID
from coterie.server.handlers.topic_descriptions import EVERYTHING, TopicDescriptions, Visibility
from coterie.server.loggers import REQUESTS
from coterie.server.logs.partition import Topic
from coterie.server.metadata.topic_rules import INTERNAL_TOPICS, TopicRefused, invalid_name
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_in_slices
from coterie.server.services import Services

# The most topics that one request creates; the client asks again for the others. A topic is a
# directory, and 20,000 names fit into a small request.
MOST_CREATED = 100

_AUTO_CREATE = "auto.create.topics.enable"
_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED

# Requests have topic ids since version 10, but Kafka answers them since version 12 only.
_IDS_SINCE = 10
_IDS_ANSWERED_SINCE = 12


def handle(
    broker: Services,
    request: MetadataRequest,
    connection: Exchange,
    visibility: Visibility = EVERYTHING,
) -> MetadataResponse | None:
    """Describe the broker, and the visible ones of the topics of the request or of all topics."""
    return answer_in_slices(broker, connection, _answer(broker, request, connection, visibility))


def _answer(
    broker: Services, request: MetadataRequest, connection: Exchange, visibility: Visibility
) -> Generator[None, None, MetadataResponse]:
    asked, version = request.topics, connection.version
    image = broker.image
    topics = TopicDescriptions(
        broker, version, visibility, with_operations=request.include_topic_authorized_operations
    )
    if asked is None or (version == 0 and not asked):
        # The journal is described only by its name [journal/hidden-topic]. Kafka has no such topic,
        # and clients subscribe to patterns or compare lists of topics.
        yield from topics.add_all(
            topic
            for topic in list(broker.topics.by_name.values())
            if topic.is_internal or not topic.is_own
        )
    else:
        refusal = _refusal(asked, version)
        if refusal:
            for each in asked:
                topics.add_error(each.name or "", each.topic_id, refusal)
            return MetadataResponse(brokers=[], topics=topics.encoded)
        yield from _add_asked(broker, asked, request, topics, visibility)
    operations = AUTHORIZED_OPERATIONS_OMITTED
    if request.include_cluster_authorized_operations:
        operations = visibility.cluster_operations()
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=each.node_id, host=each.host, port=each.port, rack=each.rack
            )
            for each in image.endpoints(connection.client.listener)
        ],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics.encoded,
        cluster_authorized_operations=operations,
    )


def _refusal(asked: list[MetadataRequestTopic], version: int) -> ErrorCode:
    """Return the error of the whole request [topics/metadata-by-id]."""
    if _IDS_SINCE <= version < _IDS_ANSWERED_SINCE:
        if any(each.name is None or each.topic_id != ZERO_UUID for each in asked):
            return ErrorCode.INVALID_REQUEST
    elif any(each.name is None and each.topic_id == ZERO_UUID for each in asked):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NONE


def _add_asked(
    broker: Services,
    asked: list[MetadataRequestTopic],
    request: MetadataRequest,
    topics: TopicDescriptions,
    visibility: Visibility,
) -> Generator[None, None, None]:
    """Describe topics by name or id; one that is named twice is described once."""
    described: set[str | bytes] = set()
    created = 0
    for each in asked:
        yield
        by_id = each.topic_id != ZERO_UUID
        name = each.name or ""
        topic = broker.topics.by_id.get(each.topic_id) if by_id else broker.topics.by_name.get(name)
        key = topic.name if topic is not None else each.topic_id if by_id else name
        if key in described:
            continue
        described.add(key)
        real_name = topic.name if topic is not None else name
        if not (topic is None and by_id) and not visibility.may_describe(real_name):
            # It looks the same whether it exists or not.
            topics.add_error(each.name, each.topic_id, _DENIED)
        elif topic is not None:
            yield from topics.add(topic)
        elif by_id:
            topics.add_error(None, each.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        elif _may_be_created(broker, request) and not visibility.may_create(name):
            topics.add_error(name, ZERO_UUID, _DENIED, is_internal=name in INTERNAL_TOPICS)
        else:
            may_create = request.allow_auto_topic_creation and created < MOST_CREATED
            created += may_create
            error = _create_missing(broker, name, may_create=may_create)
            topics.add_missing(name, error, is_internal=name in INTERNAL_TOPICS)


def _may_be_created(broker: Services, request: MetadataRequest) -> bool:
    return request.allow_auto_topic_creation and broker.config.get_bool(_AUTO_CREATE)


def _create_missing(broker: Services, name: str, *, may_create: bool) -> ErrorCode:
    """Begin to create a topic that does not exist, if that is allowed; return the error for it."""
    if invalid_name(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    being_created = broker.topics.being_created
    if not may_create or name in being_created or not broker.config.get_bool(_AUTO_CREATE):
        return error

    if name in broker.topics.hidden:
        broker.topics.show(name)
        return error
    if name == TRANSACTIONS_TOPIC:
        broker.transaction_runtime.create_topic()
        return error
    if name == SHARE_GROUPS_TOPIC:
        broker.share_state.create_topic()
        return error

    def created(_topic: Topic | None, failure: Exception | None) -> None:
        nonlocal error
        being_created.discard(name)
        if isinstance(failure, TopicRefused):
            # Kafka says no more about a prohibited name, and for a topic that is being deleted the
            # client asks again.
            if failure.error not in (ErrorCode.INVALID_REQUEST, ErrorCode.TOPIC_ALREADY_EXISTS):
                error = failure.error
        elif failure is not None:
            broker.environment.loggers.named(REQUESTS).error(
                "topic not created", topic=name, exc_info=failure
            )

    being_created.add(name)
    changes = broker.changes
    changes.submit(broker.controller.creation(name, -1, {}), created)
    return error
