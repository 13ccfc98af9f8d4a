"""InitProducerId: an id for an idempotent producer (KIP-98) [data-plane/producer-ids]."""

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie.server.handlers.topic_changes import answer_with_change
from coterie.server.logs.topic_changes import Change
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services


def handle(
    broker: Services, request: InitProducerIdRequest, connection: Exchange
) -> InitProducerIdResponse | None:
    """Return a new id with epoch 0, also to a producer that names its old one (KIP-360)."""
    if request.transactional_id == "" or (request.producer_id < 0) != (request.producer_epoch < 0):
        return _error(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        # Not retriable. FindCoordinator has refused this producer before, in the same way.
        return _error(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not broker.topics.has_producer_id:
        return answer_with_change(broker, connection, _reserve(broker))
    return _new_id(broker)


def _reserve(broker: Services) -> Change[InitProducerIdResponse]:
    try:
        yield from broker.topics.reserve_producer_ids(broker.changes.on_disk)
    except OSError:
        # Kafka's answer while it waits for a block of ids; clients ask again.
        return _error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return _new_id(broker)


def _new_id(broker: Services) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE, producer_id=broker.topics.new_producer_id(), producer_epoch=0
    )


def _error(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_epoch=-1)
