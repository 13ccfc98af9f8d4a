"""FindCoordinator: the broker that coordinates a group, a transactional id or a share partition.

[coordinator/find-coordinator] The topic of the transaction coordinator is created by the first
request for it, which clients repeat [transactions/topic]; so is that of the share coordinator
[share-partitions/state-placement].
"""

from coterie.coordinator.share_state.service import is_coordinator_key
from coterie.protocol.errors import DEFAULT_MESSAGES, ErrorCode
from coterie.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.cluster.image import ClusterImage, CoordinatorType, Endpoint
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_each
from coterie.server.services import Services

_MANY_KEYS_SINCE = 4
_SHARE_KEYS_SINCE = 6
_NOWHERE = Endpoint(-1, "", -1)

# The error of a key and its message, and where its coordinator is.
_Found = tuple[ErrorCode, str, Endpoint]
_INVALID: _Found = (
    ErrorCode.INVALID_REQUEST, DEFAULT_MESSAGES[ErrorCode.INVALID_REQUEST], _NOWHERE,
)  # fmt: skip


def handle(
    broker: Services, request: FindCoordinatorRequest, connection: Exchange
) -> FindCoordinatorResponse | None:
    """Answer for the one key of old versions, or for each key of newer ones."""
    is_share = request.key_type == CoordinatorType.SHARE
    if is_share and not any(map(is_coordinator_key, request.coordinator_keys)):
        # No topic is created for keys that no share partition has.
        refusal: _Found | None = _INVALID
    else:
        refusal = _refusal(broker, request.key_type, connection.version)
    if request.key_type == CoordinatorType.GROUP:
        # Kafka creates it now [topics/offsets-topic].
        broker.topics.show(OFFSETS_TOPIC)
    listener = connection.client.listener
    if connection.version < _MANY_KEYS_SINCE:
        error, text, where = refusal or _find(broker.image, request.key_type, request.key, listener)
        return FindCoordinatorResponse(
            error_code=error,
            error_message=text if error else "NONE",
            node_id=where.node_id,
            host=where.host,
            port=where.port,
        )
    image, key_type = broker.image, request.key_type
    # As in Kafka, which has a text only for types that it does not know.
    is_known_type = key_type in list(CoordinatorType)

    def answer(key: str) -> FindCoordinatorResponseCoordinator:
        is_malformed = is_share and not is_coordinator_key(key)
        refused = _INVALID if is_malformed else refusal
        error, text, where = refused or _find(image, key_type, key, listener)
        return FindCoordinatorResponseCoordinator(
            key=key,
            node_id=where.node_id,
            host=where.host,
            port=where.port,
            error_code=error,
            error_message="" if is_known_type else text,
        )

    return answer_each(
        broker,
        connection,
        request.coordinator_keys,
        answer,
        lambda answers: FindCoordinatorResponse(coordinators=answers),
    )


def _find(image: ClusterImage, key_type: int, key: str, listener: str) -> _Found:
    node_id = image.coordinator(CoordinatorType(key_type), key)
    where = None if node_id is None else image.endpoint(node_id, listener)
    if where is None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return error, DEFAULT_MESSAGES[error], _NOWHERE
    return ErrorCode.NONE, "", where


def _refusal(broker: Services, key_type: int, version: int) -> _Found | None:
    """Return the response for keys of a type that has no coordinators now, or None."""
    if key_type == CoordinatorType.GROUP:
        if broker.offsets_topic.exists:
            return None
        # It was deleted a moment ago [topics/offsets-topic-deletion].
        broker.offsets_topic.create()
    elif key_type == CoordinatorType.TRANSACTION or (
        key_type == CoordinatorType.SHARE and version >= _SHARE_KEYS_SINCE
    ):
        is_share = key_type == CoordinatorType.SHARE
        runtime = broker.share_state if is_share else broker.transaction_runtime
        if runtime.exists:
            return None
        runtime.create_topic()
    else:
        return _INVALID
    error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error, DEFAULT_MESSAGES[error], _NOWHERE
