"""What Produce needs [security/produce]."""

from typing import Any

from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.produce import ProduceRequest
from coterie.protocol.refusals import refused_elements
from coterie.protocol.resources import ResourceType
from coterie.server.authorization.access import ClientAccess
from coterie.server.authorization.declared import Need, refused_of
from coterie.server.authorization.outcome import Allowed, Outcome, refused
from coterie.server.handlers.transactional_produce import has_transactional_batch
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_TOPIC_IDS_SINCE = 13
_NO_ACKS = 0
_BY_NAME = Need(1, ResourceType.TOPIC, AclOperation.WRITE, ("topic_data", "name"))
_BY_ID = _BY_NAME._replace(by_id=True)


def produce(
    broker: Services, access: ClientAccess, request: ProduceRequest, connection: Exchange
) -> Outcome:
    """Check the transactional id, if a batch belongs to a transaction, and then each topic."""
    version = connection.version
    if has_transactional_batch(request):
        name = request.transactional_id
        if name is None or not access.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if request.acks == _NO_ACKS:
                request.topic_data = []
                return Allowed(_same, error)
            return refused(request, error, version)
    need = _BY_ID if version >= _TOPIC_IDS_SINCE else _BY_NAME
    out = refused_of(broker, access, need, request.topic_data)
    if not out:
        return None
    pairs = list(zip(request.topic_data, out, strict=True))
    request.topic_data = [each for each, gone in pairs if not gone]
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if request.acks == _NO_ACKS:
        return Allowed(_same, error)
    _, parts = refused_elements(request, [each for each, gone in pairs if gone], error, version)

    def complete(response: Any) -> Any:
        response.responses += parts
        return response

    return Allowed(complete)


def _same(response: Any) -> Any:
    return response
