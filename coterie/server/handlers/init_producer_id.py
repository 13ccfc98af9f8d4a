"""InitProducerId: an id for an idempotent producer (KIP-98). There are no transactions here."""

from typing import TYPE_CHECKING

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection


def handle(
    broker: "Broker", request: InitProducerIdRequest, _connection: "Connection"
) -> InitProducerIdResponse:
    """Give out a fresh id; a producer that goes on after a fenced epoch (KIP-360) gets one too."""
    if request.transactional_id == "" or (request.producer_id < 0) != (request.producer_epoch < 0):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        # Not retriable, as in FindCoordinator, which refuses these producers before they come here.
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE, producer_id=broker.topics.new_producer_id(), producer_epoch=0
    )


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_epoch=-1)
