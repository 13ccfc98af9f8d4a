"""Metadata: the broker, and topics by name or id; a topic that is missing may be created by asking.

As in Kafka the first answer about a topic created this way is UNKNOWN_TOPIC_OR_PARTITION (spec
section 26): clients ask again.
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

# Topics one request may create by asking; the others are created when the client asks again. A
# topic is a directory, and 20,000 names fit into a small frame.
MOST_CREATED = 100

_IDS_SINCE = 10  # the request has room for them
_IDS_ANSWERED_SINCE = 12


def handle(
    broker: "Broker", request: MetadataRequest, connection: "Connection"
) -> MetadataResponse:
    """Describe the broker and the topics asked for."""
    asked = request.topics
    if asked is None or (connection.version == 0 and not asked):
        topics = [
            _topic(broker, topic, request)
            for topic in broker.topics.by_name.values()
            # The journal, which a Kafka does not have, would be met by everybody who subscribes to
            # a pattern or compares the list of topics. Who knows its name may ask for it.
            if topic.is_internal or not topic.is_own
        ]
    else:
        refusal = _refusal(asked, connection.version)
        if refusal:
            return _refused(asked, refusal)
        topics = _asked_topics(broker, asked, request)
    wanted = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.node_id, host=broker.host, port=broker.port)
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if wanted
        else AUTHORIZED_OPERATIONS_OMITTED,
    )


def _refusal(asked: list[MetadataRequestTopic], version: int) -> ErrorCode:
    """Versions 10 and 11 have room for ids and take none (KAFKA-9774)."""
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
    """A topic that is not there (yet)."""
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if invalid_name(name) is not None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif may_create and broker.config.get_bool("auto.create.topics.enable"):
        try:
            broker.topics.create(name, -1, {})
        except TopicRefused as refused:
            error = refused.error
    return MetadataResponseTopic(
        error_code=error, name=name, is_internal=name in INTERNAL_TOPICS, partitions=[]
    )


def _topic(broker: "Broker", topic: Topic, request: MetadataRequest) -> MetadataResponseTopic:
    node = [broker.node_id]
    wanted = request.include_topic_authorized_operations
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
            if partition.online
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
        topic_authorized_operations=TOPIC_OPERATIONS if wanted else AUTHORIZED_OPERATIONS_OMITTED,
    )
