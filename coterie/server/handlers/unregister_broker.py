"""UnregisterBroker: take a stopped broker out of the cluster; ours stays [topics/one-broker]."""

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services


def handle(
    broker: Services, request: UnregisterBrokerRequest, _connection: Exchange
) -> UnregisterBrokerResponse:
    """Refuse brokers that are not in the cluster."""
    if request.broker_id in broker.image.nodes:
        # Kafka answers the same and loses its only broker. Here the broker remains.
        return UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message=None)
    return UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
        error_message=f"Broker ID {request.broker_id} is not currently registered",
    )
