"""DescribeAcls, CreateAcls, DeleteAcls: the answers of a broker without authorizer (KIP-140).

[security/no-authorizer]
"""

from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.refusals import refused_in_steps
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.route import Handler
from coterie.server.network.sliced_response import answer_in_slices
from coterie.server.services import Services


def _refusing(reason: str) -> Handler:
    def handle(broker: Services, request: Any, connection: Exchange) -> Any:
        refused = refused_in_steps(
            request, ErrorCode.SECURITY_DISABLED, connection.version, error_message=reason
        )
        return answer_in_slices(broker, connection, refused)

    return handle


HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.DESCRIBE_ACLS: _refusing("No Authorizer is configured on the broker"),
    ApiKey.CREATE_ACLS: _refusing("No Authorizer is configured."),
    ApiKey.DELETE_ACLS: _refusing("No Authorizer is configured."),
}
