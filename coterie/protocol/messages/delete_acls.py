"""DeleteAcls (API key 31): remove the access rules that fit filters (KIP-140).

v1   pattern types (KIP-290)
v2   flexible encoding
v3   resources of type USER (KIP-373)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    message,
    since,
    struct,
)

# The pattern type of a resource whose name is meant literally.
LITERAL = 3


@struct
class DeleteAclsRequestFilter(Struct):
    """A filter."""

    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = since(1, default=LITERAL)
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


@message(api_key=ApiKey.DELETE_ACLS, flexible=2)
class DeleteAclsRequest(Message):
    """The filters of the rules to remove."""

    filters: list[DeleteAclsRequestFilter]


@struct
class DeleteAclsResponseAcl(Struct):
    """A removed rule."""

    error_code: Int16
    error_message: String | None
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = since(1, default=LITERAL)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class DeleteAclsResponseResult(Struct):
    """The rules that a filter has removed."""

    error_code: Int16
    error_message: String | None
    matching_acls: list[DeleteAclsResponseAcl]


@message(api_key=ApiKey.DELETE_ACLS, flexible=2)
class DeleteAclsResponse(Message):
    """The result for each filter."""

    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsResponseResult]
