"""InitProducerId: an id for a producer (KIP-98) [data-plane/producer-ids].

With a transactional id the transaction coordinator decides [transactions/init].
"""

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie.server.handlers.topic_changes import answer_with_change
from coterie.server.metadata.topic_changes import Change
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.services import Services
from coterie.server.workers import once


def handle(
    broker: Services, request: InitProducerIdRequest, connection: Exchange
) -> InitProducerIdResponse | None:
    """Return a new id with epoch 0, also to a producer that names its old one (KIP-360)."""
    if request.transactional_id == "" or (request.producer_id < 0) != (request.producer_epoch < 0):
        return _error(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _init_transactional(broker, request, connection)
    if not broker.settings.has_producer_id:
        return answer_with_change(broker, connection, _new_reserved_id(broker))
    return _new_id(broker)


def _init_transactional(
    broker: Services, request: InitProducerIdRequest, connection: Exchange
) -> InitProducerIdResponse | None:
    verb = broker.transaction_runtime.coordinator.init_producer_id
    if broker.settings.has_producer_id:
        return broker.transaction_runtime.submit(verb, request, connection)
    # The coordinator may need an id, and must not wait for the disk.
    client, version = connection.client, connection.version
    delayed = DelayedResponse(connection)
    connection.delay_and_mute(delayed)

    def reserved(is_reserved: bool, _failure: Exception | None) -> None:  # noqa: FBT001
        if is_reserved:
            broker.transaction_runtime.submit_later(verb, request, client, version, delayed)
        else:
            delayed.send(_error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))

    broker.changes.submit(_reserve(broker), reserved)
    return None


def _new_reserved_id(broker: Services) -> Change[InitProducerIdResponse]:
    if (yield from _reserve(broker)):
        return _new_id(broker)
    # Kafka's answer while it waits for a block of ids; clients ask again.
    return _error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _reserve(broker: Services) -> Change[bool]:
    """Reserve producer ids; return whether there are some."""
    try:
        # A change that was made meanwhile may have reserved some.
        if not broker.settings.has_producer_id:
            yield once(broker.settings.reserve_producer_ids)
    except OSError:
        return False
    return True


def _new_id(broker: Services) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE, producer_id=broker.settings.new_producer_id(), producer_epoch=0
    )


def _error(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_epoch=-1)
