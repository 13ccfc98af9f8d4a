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
    _broker: Services, request: CreateAclsRequest, _connection: Exchange
) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[
            CreateAclsResponseResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=_REASON)
            for _ in request.creations
        ]
    )


def _delete(
    _broker: Services, request: DeleteAclsRequest, _connection: Exchange
) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsResponseResult(
                error_code=ErrorCode.SECURITY_DISABLED, error_message=_REASON, matching_acls=[]
            )
            for _ in request.filters
        ]
    )


HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.DESCRIBE_ACLS: _describe,
    ApiKey.CREATE_ACLS: _create,
    ApiKey.DELETE_ACLS: _delete,
}
