"""The response to a request that carries an error and nothing else.

Clients look for an error in different places of each API: in the response, its topics, or their
partitions. What the coordinator answers itself comes from there; the rest is listed here.
"""

from collections.abc import Callable, Collection
from typing import Any

from coterie.coordinator.responses import error_response
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import response_class
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import (
    CreateTopicsResponse,
    CreateTopicsResponseTopic,
)
from coterie.protocol.messages.delete_topics import (
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
)
from coterie.protocol.messages.fetch import (
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
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from coterie.protocol.messages.produce import (
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from coterie.protocol.wire import Message
from coterie.server.cluster import Endpoint
from coterie.testing.errors import WrongUse

_FIND_MANY_SINCE = 4
_GROUP_APIS = {
    ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE, ApiKey.LIST_GROUPS,
}  # fmt: skip


def error_answer(
    api: ApiKey, request: Any, error: ErrorCode, version: int, endpoints: Collection[Endpoint]
) -> Message:
    """Return the response to a request with an error in every place that has one.

    Args:
        api, request, version: the request.
        error: the error.
        endpoints: the brokers, which Metadata lists in any case.

    Raises:
        WrongUse: the response of that API has no place for it.
    """
    if api in _GROUP_APIS:
        response: Message = error_response(request, error, version)
        return response
    if api is ApiKey.METADATA:
        return _metadata(request, error, endpoints)
    build = _BUILDERS.get(api)
    if build is not None:
        return build(request, error, version)
    cls = response_class(api)
    if "error_code" not in cls.fields_:
        apis = (*_GROUP_APIS, *_BUILDERS, ApiKey.METADATA)
        known = ", ".join(sorted(each.kafka_name for each in apis))
        raise WrongUse(f"AnswerError does not cover {api.kafka_name} yet, only {known}")
    return cls(error_code=error)


def _metadata(
    request: MetadataRequest, error: ErrorCode, endpoints: Collection[Endpoint]
) -> Message:
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=each.node_id, host=each.host, port=each.port, rack=each.rack
            )
            for each in endpoints
        ],
        topics=[
            MetadataResponseTopic(
                error_code=error, name=topic.name, topic_id=topic.topic_id, partitions=[]
            )
            for topic in request.topics or ()
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


def _fetch(request: Any, error: ErrorCode, _version: int) -> Message:
    return FetchResponse(
        responses=[
            FetchResponseTopic(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    FetchResponsePartition(
                        partition_index=each.partition,
                        error_code=error,
                        high_watermark=-1,
                        aborted_transactions=None,
                        records=b"",
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
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


def _init_producer_id(_request: Any, error: ErrorCode, _version: int) -> Message:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)


_BUILDERS: dict[ApiKey, Callable[[Any, ErrorCode, int], Message]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
}
