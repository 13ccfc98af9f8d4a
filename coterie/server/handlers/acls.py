"""DescribeAcls, CreateAcls, DeleteAcls: the answers of a broker without authorizer (KIP-140).

[security/no-authorizer]
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    CreateAclsResponseResult,
)
from coterie.protocol.messages.delete_acls import (
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteAclsResponseResult,
)
from coterie.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.route import Handler
from coterie.server.network.sliced_response import answer_each
from coterie.server.services import Services

_REASON = "No Authorizer is configured."


def _describe(
    _broker: Services, _request: DescribeAclsRequest, _connection: Exchange
) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
        resources=[],
    )


def _create(
    broker: Services, request: CreateAclsRequest, connection: Exchange
) -> CreateAclsResponse | None:
    def answer(_: object) -> CreateAclsResponseResult:
        return CreateAclsResponseResult(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=_REASON
        )

    return answer_each(
        broker,
        connection,
        request.creations,
        answer,
        lambda answers: CreateAclsResponse(results=answers),
    )


def _delete(
    broker: Services, request: DeleteAclsRequest, connection: Exchange
) -> DeleteAclsResponse | None:
    def answer(_: object) -> DeleteAclsResponseResult:
        return DeleteAclsResponseResult(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=_REASON, matching_acls=[]
        )

    return answer_each(
        broker,
        connection,
        request.filters,
        answer,
        lambda answers: DeleteAclsResponse(filter_results=answers),
    )


HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.DESCRIBE_ACLS: _describe,
    ApiKey.CREATE_ACLS: _create,
    ApiKey.DELETE_ACLS: _delete,
}
