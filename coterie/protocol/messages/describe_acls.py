"""DescribeAcls (API key 29): the access rules that fit a filter (KIP-140).

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


@message(api_key=ApiKey.DESCRIBE_ACLS, flexible=2)
class DescribeAclsRequest(Message):
    """A filter."""

    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = since(1, default=LITERAL)
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


@struct
class DescribeAclsResponseAcl(Struct):
    """A rule of a resource."""

    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class DescribeAclsResponseResource(Struct):
    """The rules of a resource."""

    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = since(1, default=LITERAL)
    acls: list[DescribeAclsResponseAcl]


@message(api_key=ApiKey.DESCRIBE_ACLS, flexible=2)
class DescribeAclsResponse(Message):
    """The rules of each resource."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None
    resources: list[DescribeAclsResponseResource]
