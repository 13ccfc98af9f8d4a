"""Metadata: the broker, and topics by name or id; a missing topic may be created by the request.

As in Kafka, the first response about such a topic has UNKNOWN_TOPIC_OR_PARTITION, and the client
asks again [topics/auto-creation].
"""

from typing import TYPE_CHECKING

from coterie.protocol.authorized_operations import (
    AUTHORIZED_OPERATIONS_OMITTED,
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
)
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from coterie.protocol.wire import ZERO_UUID
from coterie.server.logs.topic_rules import INTERNAL_TOPICS, TopicRefused, invalid_name
from coterie.server.logs.topics import Topic

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection

# The most topics that one request creates; the client asks again for the others. A topic is a
# directory, and 20,000 names fit into a small request.
MOST_CREATED = 100

# Requests have topic ids since version 10, but Kafka answers them since version 12 only.
_IDS_SINCE = 10
_IDS_ANSWERED_SINCE = 12


def handle(
    broker: "Broker", request: MetadataRequest, connection: "Connection"
) -> MetadataResponse:
    """Describe the broker and the topics of the request, or all topics."""
    asked = request.topics
    if asked is None or (connection.version == 0 and not asked):
        topics = [
            _topic(broker, topic, request)
            for topic in broker.topics.by_name.values()
            # The journal is described only by its name [journal/hidden-topic]. Kafka has no such
            # topic, and clients subscribe to patterns or compare lists of topics.
            if topic.is_internal or not topic.is_own
        ]
    else:
        refusal = _refusal(asked, connection.version)
        if refusal:
            return _refused(asked, refusal)
        topics = _asked_topics(broker, asked, request)
    operations = AUTHORIZED_OPERATIONS_OMITTED
    if request.include_cluster_authorized_operations:
        operations = CLUSTER_OPERATIONS
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.node_id, host=broker.host, port=broker.port)
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        topics=topics,
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


def _refused(asked: list[MetadataRequestTopic], error: ErrorCode) -> MetadataResponse:
    topics = [
        MetadataResponseTopic(
            error_code=error, name=each.name or "", topic_id=each.topic_id, partitions=[]
        )
        for each in asked
    ]
    return MetadataResponse(brokers=[], topics=topics)


def _asked_topics(
    broker: "Broker", asked: list[MetadataRequestTopic], request: MetadataRequest
) -> list[MetadataResponseTopic]:
    # By name, or by id if that is unknown: a topic that is named twice is described once.
    topics = {}
    created = 0
    for each in asked:
        if each.topic_id != ZERO_UUID:
            topic = broker.topics.by_id.get(each.topic_id)
            if topic is None:
                topics[each.topic_id.hex()] = MetadataResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                    name=None,
                    topic_id=each.topic_id,
                    partitions=[],
                )
                continue
        else:
            name = each.name or ""
            topic = broker.topics.by_name.get(name)
            if topic is None:
                may_create = request.allow_auto_topic_creation and created < MOST_CREATED
                topics[name] = _missing(broker, name, may_create=may_create)
                created += name in broker.topics.by_name
                continue
        topics[topic.name] = _topic(broker, topic, request)
    return list(topics.values())


def _missing(broker: "Broker", name: str, *, may_create: bool) -> MetadataResponseTopic:
    """Answer for a topic that does not exist, and create it if that is allowed."""
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if invalid_name(name) is not None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif may_create and broker.config.get_bool("auto.create.topics.enable"):
        try:
            broker.topics.create(name, -1, {})
        except TopicRefused as refused:
            # Kafka says no more about a prohibited name, and for a topic that is being deleted the
            # client asks again.
            if refused.error not in (ErrorCode.INVALID_REQUEST, ErrorCode.TOPIC_ALREADY_EXISTS):
                error = refused.error
    return MetadataResponseTopic(
        error_code=error, name=name, is_internal=name in INTERNAL_TOPICS, partitions=[]
    )


def _topic(broker: "Broker", topic: Topic, request: MetadataRequest) -> MetadataResponseTopic:
    """Describe a topic; partitions without a log are offline [topics/offline-partitions]."""
    node = [broker.node_id]
    operations = AUTHORIZED_OPERATIONS_OMITTED
    if request.include_topic_authorized_operations:
        operations = TOPIC_OPERATIONS
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(
                error_code=ErrorCode.NONE,
                partition_index=partition.index,
                leader_id=broker.node_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=node,
                isr_nodes=node,
            )
            if not partition.failed
            else MetadataResponsePartition(
                error_code=ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=partition.index,
                leader_id=-1,
                replica_nodes=node,
                isr_nodes=[],
                offline_replicas=node,
            )
            for partition in topic.partitions
        ],
        topic_authorized_operations=operations,
    )
