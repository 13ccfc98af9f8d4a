"""FindCoordinator: this broker coordinates every group [coordinator/find-coordinator].

There are no coordinators for transactions and share groups. A client looks for the transaction
coordinator before any other step of a transaction, so it is refused here. The error must not be one
that clients retry: with COORDINATOR_NOT_AVAILABLE they would wait for a minute.
"""

from coterie.protocol.errors import DEFAULT_MESSAGES, ErrorCode
from coterie.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_MANY_KEYS_SINCE = 4
_SHARE_SINCE = 6
_NO_TRANSACTIONS = "This broker has no transactions; use a producer without transactional.id."
_NO_SHARE_GROUPS = "This broker has no share groups."


def handle(
    broker: Services, request: FindCoordinatorRequest, connection: Exchange
) -> FindCoordinatorResponse:
    """Answer for the one key of old versions, or for each key of newer ones."""
    error, text = _refusal(request.key_type, connection.version)
    if error is ErrorCode.NONE:
        node_id, host, port = broker.node_id, broker.host, broker.port
    else:
        node_id, host, port = -1, "", -1
    if connection.version < _MANY_KEYS_SINCE:
        return FindCoordinatorResponse(
            error_code=error,
            error_message=text if error else "NONE",
            node_id=node_id,
            host=host,
            port=port,
        )
    return FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponseCoordinator(
                key=key, node_id=node_id, host=host, port=port, error_code=error, error_message=text
            )
            for key in request.coordinator_keys
        ]
    )


def _refusal(key_type: int, version: int) -> tuple[ErrorCode, str]:
    """Return the error of a key type and its message; NONE for groups."""
    if key_type == _GROUP:
        return ErrorCode.NONE, ""
    if key_type == _TRANSACTION:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _NO_TRANSACTIONS
    if key_type == _SHARE and version >= _SHARE_SINCE:
        return ErrorCode.INVALID_REQUEST, _NO_SHARE_GROUPS
    return ErrorCode.INVALID_REQUEST, DEFAULT_MESSAGES[ErrorCode.INVALID_REQUEST]
