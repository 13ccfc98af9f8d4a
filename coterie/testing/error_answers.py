"""The response to a request that carries an error and nothing else.

Clients look for an error in different places of each API: in the response, its topics, or their
partitions. `refusal` knows them; what the group coordinator answers otherwise comes from there.
"""

from typing import Any

from coterie.coordinator.groups.served_types import SERVED_TYPES
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
)
from coterie.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
)
from coterie.protocol.refusals import refusal
from coterie.protocol.wire import ZERO_UUID, Message
from coterie.server.services import Services
from coterie.testing.actions import SHARE_LEADER_APIS
from coterie.testing.errors import WrongUse
from coterie.testing.request_subjects import session_partitions
from coterie.testing.share_errors import share_error

_NO_COORDINATOR = {"node_id": -1, "host": "", "port": -1}
# Their responses do not go along one list of the request.
_NOT_COVERED = {
    ApiKey.ALTER_REPLICA_LOG_DIRS, ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
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
    if api is ApiKey.METADATA:
        return _metadata(request, error, version, broker, listener)
    if api is ApiKey.FETCH:
        return _fetch(request, error, broker)
    if api in SHARE_LEADER_APIS:
        return share_error(request, error, version, broker)
    if api in _NOT_COVERED:
        raise WrongUse(f"AnswerError does not cover {api.kafka_name} yet")
    response: Message = (
        refusal(request, error, version, **_NO_COORDINATOR)
        if api is ApiKey.FIND_COORDINATOR
        else SERVED_TYPES.error_response(request, error, version)
    )
    return response


def _metadata(
    request: MetadataRequest, error: ErrorCode, version: int, broker: Services, listener: str
) -> Message:
    asked = request.topics
    if asked is None:
        asked = [
            MetadataRequestTopic(topic_id=each.topic_id, name=each.name)
            for each in broker.topics.by_name.values()
            if not each.is_own
        ]
    response: MetadataResponse = refusal(MetadataRequest(topics=asked), error, version)
    response.brokers = [
        MetadataResponseBroker(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
        for each in broker.image.endpoints(listener)
    ]
    return response


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
