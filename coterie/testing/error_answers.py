"""The response to a request that carries an error and nothing else.

Clients look for an error in different places of each API: in the response, its topics, or their
partitions. What the coordinator answers itself comes from there; the rest is listed here.
"""

from collections.abc import Callable
from typing import Any

from coterie.coordinator.groups.served_types import SERVED_TYPES
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import response_class
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import (
    CreateTopicsResponse,
    CreateTopicsResponseTopic,
)
from coterie.protocol.messages.delete_groups import (
    DeleteGroupsResponse,
    DeleteGroupsResponseResult,
)
from coterie.protocol.messages.delete_topics import (
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
)
from coterie.protocol.messages.describe_groups import (
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
)
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
)
from coterie.protocol.messages.find_coordinator import (
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
from coterie.protocol.messages.init_producer_id import InitProducerIdResponse
from coterie.protocol.messages.list_offsets import (
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from coterie.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from coterie.protocol.messages.produce import (
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from coterie.protocol.wire import ZERO_UUID, Message
from coterie.server.services import Services
from coterie.testing.errors import WrongUse
from coterie.testing.request_subjects import session_partitions

_FIND_MANY_SINCE = 4
_GROUP_APIS = {
    ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE, ApiKey.LIST_GROUPS,
}  # fmt: skip


def error_answer(
    api: ApiKey, request: Any, error: ErrorCode, version: int, broker: Services, listener: str
) -> Message:
    """Return the response to a request with an error in every place that has one.

    Args:
        api, request, version: the request.
        error: the error.
        broker: the broker.
        listener: the client's; Metadata lists the brokers in any case.

    Raises:
        WrongUse: the response of that API has no place for it.
    """
    if api in _GROUP_APIS:
        response: Message = SERVED_TYPES.error_response(request, error, version)
        return response
    if api is ApiKey.METADATA:
        return _metadata(request, error, broker, listener)
    if api is ApiKey.FETCH:
        return _fetch(request, error, broker)
    build = _BUILDERS.get(api)
    if build is not None:
        return build(request, error, version)
    cls = response_class(api)
    if "error_code" not in cls.fields_:
        apis = (*_GROUP_APIS, *_BUILDERS, ApiKey.METADATA, ApiKey.FETCH)
        known = ", ".join(sorted(each.kafka_name for each in apis))
        raise WrongUse(f"AnswerError does not cover {api.kafka_name} yet, only {known}")
    return cls(error_code=error)


def _metadata(
    request: MetadataRequest, error: ErrorCode, broker: Services, listener: str
) -> Message:
    asked = request.topics
    if asked is None:
        asked = [
            MetadataRequestTopic(topic_id=each.topic_id, name=each.name)
            for each in broker.topics.by_name.values()
            if not each.is_own
        ]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=each.node_id, host=each.host, port=each.port, rack=each.rack
            )
            for each in broker.image.endpoints(listener)
        ],
        topics=[
            MetadataResponseTopic(
                error_code=error, name=topic.name, topic_id=topic.topic_id, partitions=[]
            )
            for topic in asked
        ],
    )


def _produce(request: Any, error: ErrorCode, _version: int) -> Message:
    return ProduceResponse(
        responses=[
            ProduceResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    ProduceResponsePartition(index=each.index, error_code=error, base_offset=-1)
                    for each in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _fetch(request: FetchRequest, error: ErrorCode, broker: Services) -> Message:
    """Answer for all partitions that the client reads; a session has some without naming them."""
    partitions = [
        (topic.topic, topic.topic_id, each.partition)
        for topic in request.topics
        for each in topic.partitions
    ]
    named = {(topic, topic_id, index) for topic, topic_id, index in partitions}
    for each in session_partitions(request, broker):
        index = each.wanted.partition_index
        found = (each.topic if each.topic_id == ZERO_UUID else "", each.topic_id, index)
        if found not in named:
            partitions.append(found)
    return FetchResponse(
        session_id=request.session_id,
        responses=[
            FetchResponseTopic(
                topic=topic,
                topic_id=topic_id,
                partitions=[
                    FetchResponsePartition(
                        partition_index=index,
                        error_code=error,
                        high_watermark=-1,
                        aborted_transactions=None,
                        records=b"",
                    )
                ],
            )
            for topic, topic_id, index in partitions
        ],
    )


def _find_coordinator(request: Any, error: ErrorCode, version: int) -> Message:
    if version < _FIND_MANY_SINCE:
        return FindCoordinatorResponse(error_code=error, node_id=-1, host="", port=-1)
    return FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponseCoordinator(
                key=key, node_id=-1, host="", port=-1, error_code=error, error_message=None
            )
            for key in request.coordinator_keys
        ]
    )


def _list_offsets(request: Any, error: ErrorCode, _version: int) -> Message:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponseTopic(
                name=topic.name,
                partitions=[
                    ListOffsetsResponsePartition(
                        partition_index=each.partition_index, error_code=error
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _create_topics(request: Any, error: ErrorCode, _version: int) -> Message:
    return CreateTopicsResponse(
        topics=[
            CreateTopicsResponseTopic(
                name=topic.name, error_code=error, error_message=None, configs=[]
            )
            for topic in request.topics
        ]
    )


def _delete_topics(request: Any, error: ErrorCode, _version: int) -> Message:
    names = request.topic_names or [topic.name for topic in request.topics]
    return DeleteTopicsResponse(
        responses=[DeleteTopicsResponseTopic(name=name, error_code=error) for name in names]
    )


def _describe_groups(request: Any, error: ErrorCode, _version: int) -> Message:
    return DescribeGroupsResponse(
        groups=[
            DescribeGroupsResponseGroup(
                error_code=error,
                group_id=group,
                group_state="",
                protocol_type="",
                protocol_data="",
                members=[],
            )
            for group in request.groups
        ]
    )


def _delete_groups(request: Any, error: ErrorCode, _version: int) -> Message:
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponseResult(group_id=group, error_code=error)
            for group in request.groups_names
        ]
    )


def _init_producer_id(_request: Any, error: ErrorCode, _version: int) -> Message:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)


_BUILDERS: dict[ApiKey, Callable[[Any, ErrorCode, int], Message]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
}
