"""The response to a request that carries an error and nothing else.

Clients look for an error in different places of each API: in the response, its topics, or their
partitions. What the coordinator answers itself comes from there. Most others are mirrored: the
declarations say where a response has an error, and which list of the request it goes along.
"""

from collections.abc import Iterator
from typing import Any

from coterie.coordinator.groups.served_types import SERVED_TYPES
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import response_class
from coterie.protocol.errors import ErrorCode
from coterie.protocol.fields import Declaration
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
)
from coterie.protocol.messages.find_coordinator import FindCoordinatorResponse
from coterie.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from coterie.protocol.schema import FieldType, WireField, fields_of
from coterie.protocol.wire import ZERO_UUID, Message
from coterie.server.services import Services
from coterie.testing.errors import WrongUse
from coterie.testing.request_subjects import session_partitions

_FIND_MANY_SINCE = 4
_GROUP_APIS = {
    ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE, ApiKey.LIST_GROUPS,
}  # fmt: skip
_MIRRORED = {
    ApiKey.PRODUCE, ApiKey.FIND_COORDINATOR, ApiKey.LIST_OFFSETS, ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS, ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_GROUPS, ApiKey.INIT_PRODUCER_ID,
}  # fmt: skip
# What names an element of a list, in the request as in the response.
_NAMES = {"name", "topic_id", "index", "partition_index"}


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
    if api is ApiKey.FIND_COORDINATOR and version < _FIND_MANY_SINCE:
        return FindCoordinatorResponse(error_code=error, node_id=-1, host="", port=-1)
    cls = response_class(api)
    if api in _MIRRORED:
        mirrored: Message = _mirrored(cls, request, error, version, is_element=False)
        return mirrored
    if "error_code" not in cls.fields_:
        apis = (*_GROUP_APIS, *_MIRRORED, ApiKey.METADATA, ApiKey.FETCH)
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


def _mirrored(
    cls: type[Any], source: Any, error: ErrorCode, version: int, *, is_element: bool
) -> Any:
    """Return a response, or an element of one, with the error.

    Args:
        cls: its class.
        source: the request, or the element of it that is answered: a structure or a name.
        error, version: the error, and the version of the request.
        is_element: whether it is an element, which has a name.
    """
    values: dict[str, Any] = {}
    is_named = not is_element or isinstance(source, Declaration)
    for field in fields_of(cls):
        element = field.type.element
        if field.name == "error_code":
            values[field.name] = error if field.present(version) else 0
        elif element is not None and _has_error(element):
            values[field.name] = [
                _mirrored(element.struct, each, error, version, is_element=True)  # type: ignore[arg-type]
                for each in _elements(source, version)
            ]
        elif not is_named and field.required:
            # The element of the request is the name itself.
            values[field.name], is_named = source, True
        elif is_element and field.name in _NAMES and hasattr(source, field.name):
            values[field.name] = getattr(source, field.name)
        elif field.required:
            values[field.name] = _neutral(field)
    return cls(**values)


def _has_error(kind: FieldType) -> bool:
    """Return whether a structure has a place for an error, at any depth."""
    return kind.struct is not None and any(
        field.name == "error_code" or (field.type.element and _has_error(field.type.element))
        for field in fields_of(kind.struct)
    )


def _elements(source: Any, version: int) -> Iterator[Any]:
    """Yield what the first list of a request, or of an element of it, names in this version."""
    lists = [
        each for each in fields_of(type(source)) if each.type.element and each.present(version)
    ]
    yield from getattr(source, lists[0].name)


def _neutral(field: WireField) -> Any:
    """Return what a field has in a response with an error."""
    if field.type.optional:
        return None
    if field.type.element is not None:
        return []
    return -1 if field.type.zero == 0 else field.type.zero


def _fetch(request: FetchRequest, error: ErrorCode, broker: Services) -> Message:
    """Answer for all partitions that the client reads; a session has some without naming them."""
    partitions = [
        (topic.topic, topic.topic_id, each.partition)
        for topic in request.topics
        for each in topic.partitions
    ]
    named = {(topic, topic_id, index) for topic, topic_id, index in partitions}
    for each in session_partitions(request, broker):
        topic, index = each.key
        found = (topic, ZERO_UUID, index) if isinstance(topic, str) else ("", topic, index)
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
