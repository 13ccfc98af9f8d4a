"""What requests about topics need, where the declaration does not say all [security/topics]."""

from collections import Counter
from functools import partial
from typing import Any

from coterie.protocol.authorized_operations import (
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
    AclOperation,
)
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import CreateTopicsRequest
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponseTopic
from coterie.protocol.messages.describe_cluster import DescribeClusterRequest
from coterie.protocol.messages.describe_producers import DescribeProducersRequest
from coterie.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from coterie.protocol.refusals import refused_elements
from coterie.protocol.resources import ResourceType
from coterie.protocol.wire import ZERO_UUID
from coterie.security.acl import CLUSTER_NAME
from coterie.server.authorization.access import ClientAccess
from coterie.server.authorization.declared import Need, check_elements, topic_name
from coterie.server.authorization.outcome import (
    Allowed,
    Handled,
    Outcome,
    answered,
    appended,
    text_of,
)
from coterie.server.handlers import describe_topic_partitions as description
from coterie.server.handlers import metadata as described
from coterie.server.handlers.delete_topics import naming, refusals_of_naming
from coterie.server.handlers.topic_descriptions import Visibility
from coterie.server.metadata.topic_rules import invalid_name
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_TOPIC = ResourceType.TOPIC
_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_AUTHORIZATION_FAILED = "Authorization failed."
_METADATA_LOG = "__cluster_metadata"
_EPOCHS = Need(0, _TOPIC, AclOperation.DESCRIBE, ("topics", "topic"))
_PRODUCERS = Need(0, _TOPIC, AclOperation.READ, ("topics", "name"))
_DESCRIBED = Need(0, _TOPIC, AclOperation.DESCRIBE, ("topics", "name"))


class _Visible(Visibility):
    """What the client of one Metadata request may see and create."""

    def __init__(self, broker: Services, access: ClientAccess) -> None:
        self._broker = broker
        self._access = access

    def may_list(self, name: str) -> bool:
        """Return whether a topic is listed among all topics."""
        return self._access.may_quietly(AclOperation.DESCRIBE, _TOPIC, name)

    def may_describe(self, name: str) -> bool:
        """Return whether a topic that was asked for is described."""
        return self._access.may(AclOperation.DESCRIBE, _TOPIC, name)

    def may_create(self, name: str) -> bool:
        """Return whether a topic that does not exist may be created."""
        create = AclOperation.CREATE
        return self._access.may_quietly(create, ResourceType.CLUSTER) or self._access.may(
            create, _TOPIC, name
        )

    def topic_operations(self, name: str) -> int:
        """Return the authorized operations of a topic."""
        return self._access.bits(_TOPIC, name, TOPIC_OPERATIONS)

    def cluster_operations(self) -> int:
        """Return the authorized operations of the cluster."""
        return _cluster_operations(self._access)


def metadata(
    broker: Services, access: ClientAccess, _request: MetadataRequest, _connection: Exchange
) -> Outcome:
    """Describe what the client may see, and create what it may create."""
    return Handled(partial(described.handle, visibility=_Visible(broker, access)))


def _cluster_operations(access: ClientAccess) -> int:
    if not access.may_with_cluster(AclOperation.DESCRIBE):
        return 0
    return access.bits(ResourceType.CLUSTER, CLUSTER_NAME, CLUSTER_OPERATIONS)


def describe_cluster(
    _broker: Services, access: ClientAccess, request: DescribeClusterRequest, _connection: Exchange
) -> Outcome:
    """Return the authorized operations; the brokers are shown to everybody."""
    if not request.include_cluster_authorized_operations:
        return None

    def complete(response: Any) -> Any:
        if not response.error_code:
            response.cluster_authorized_operations = _cluster_operations(access)
        return response

    return Allowed(complete)


def describe_topic_partitions(
    broker: Services,
    access: ClientAccess,
    request: DescribeTopicPartitionsRequest,
    connection: Exchange,
) -> Outcome:
    """Describe the topics that the client may see, with the authorized operations."""
    lists_all = not request.topics
    outcome = check_elements(broker, access, request, connection, _DESCRIBED)

    def complete(response: Any) -> Any:
        for topic in response.topics:
            topic.topic_authorized_operations = access.bits(_TOPIC, topic.name, TOPIC_OPERATIONS)
        return response if outcome is None else outcome.complete(response)

    if not lists_all:
        if not request.topics:
            return answered(complete(DescribeTopicPartitionsResponse(topics=[])))
        return Allowed(complete)

    def may_see(name: str) -> bool:
        return access.may_quietly(AclOperation.DESCRIBE, _TOPIC, name)

    return Handled(partial(description.handle, may_see=may_see), complete)


def create_topics(
    _broker: Services, access: ClientAccess, request: CreateTopicsRequest, connection: Exchange
) -> Outcome:
    """Ask for CREATE on the cluster or on each topic; settings are shown with DESCRIBE_CONFIGS.

    Names that are given twice, and that of Kafka's metadata log, are refused before.
    """
    times = Counter(each.name for each in request.topics)
    denied = set[str]()
    if not access.may_quietly(AclOperation.CREATE, ResourceType.CLUSTER):
        denied = {
            name
            for name, count in times.items()
            if count == 1
            and name != _METADATA_LOG
            and not access.may(AclOperation.CREATE, _TOPIC, name)
        }
    parts: list[Any] = []
    if denied:
        _, parts = refused_elements(
            request,
            [each for each in request.topics if each.name in denied],
            _REFUSED,
            connection.version,
            error_message=_AUTHORIZATION_FAILED,
        )
        request.topics = [each for each in request.topics if each.name not in denied]

    def complete(response: Any) -> Any:
        for topic in response.topics:
            if not topic.error_code and not access.may_quietly(
                AclOperation.DESCRIBE_CONFIGS, _TOPIC, topic.name
            ):
                topic.topic_config_error_code = _REFUSED
                topic.configs = []
                topic.num_partitions = topic.replication_factor = -1
        response.topics += parts
        return response

    return Allowed(complete)


def delete_topics(
    broker: Services, access: ClientAccess, request: DeleteTopicsRequest, _connection: Exchange
) -> Outcome:
    """Ask for DELETE on the cluster or on each topic; without DESCRIBE a topic is not named."""
    if not broker.config.get_bool("delete.topic.enable") or access.may_quietly(
        AclOperation.DELETE, ResourceType.CLUSTER
    ):
        return None
    parts: list[DeleteTopicsResponseTopic] = []
    names = Counter(request.topic_names)
    request.topic_names = [
        each
        for each in request.topic_names
        if names[each] > 1 or not _refuse_deletion(broker, access, each, ZERO_UUID, parts)
    ]
    times = naming(request.topics)
    left = []
    for each in request.topics:
        named = each.name, each.topic_id
        is_wrong = refusals_of_naming(broker, times, *named) is not None
        if is_wrong or not _refuse_deletion(broker, access, *named, parts):
            left.append(each)
    request.topics = left
    return appended("responses", parts) if parts else None


def _refuse_deletion(
    broker: Services,
    access: ClientAccess,
    name: str | None,
    topic_id: bytes,
    parts: list[DeleteTopicsResponseTopic],
) -> bool:
    """Return whether a topic must not be deleted; the answer for it is added to `parts`."""
    real_name = topic_name(broker, topic_id) if name is None else name
    if real_name is None:
        return False
    may_see = access.may(AclOperation.DESCRIBE, _TOPIC, real_name)
    if may_see and (
        real_name not in broker.topics.by_name or access.may(AclOperation.DELETE, _TOPIC, real_name)
    ):
        return False
    parts.append(
        DeleteTopicsResponseTopic(
            name=real_name if may_see else name,
            topic_id=topic_id,
            error_code=_REFUSED,
            error_message=text_of(_REFUSED),
        )
    )
    return True


def offset_for_leader_epoch(
    broker: Services,
    access: ClientAccess,
    request: OffsetForLeaderEpochRequest,
    connection: Exchange,
) -> Outcome:
    """Ask for CLUSTER_ACTION on the cluster, or for DESCRIBE on each topic."""
    if access.may_quietly(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER):
        return None
    return check_elements(broker, access, request, connection, _EPOCHS)


def describe_producers(
    broker: Services, access: ClientAccess, request: DescribeProducersRequest, connection: Exchange
) -> Outcome:
    """Ask for READ on each topic whose name is possible; the handler refuses the others."""
    invalid = [each for each in request.topics if invalid_name(each.name) is not None]
    request.topics = [each for each in request.topics if invalid_name(each.name) is None]
    outcome = check_elements(broker, access, request, connection, _PRODUCERS)
    request.topics += invalid
    return outcome
