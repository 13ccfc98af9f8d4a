"""CreateAcls (API key 30): add access rules (KIP-140).

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
class CreateAclsRequestCreation(Struct):
    """A rule to add."""

    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = since(1, default=LITERAL)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(api_key=ApiKey.CREATE_ACLS, flexible=2)
class CreateAclsRequest(Message):
    """The rules to add."""

    creations: list[CreateAclsRequestCreation]


@struct
class CreateAclsResponseResult(Struct):
    """The result for a rule."""

    error_code: Int16
    error_message: String | None


@message(api_key=ApiKey.CREATE_ACLS, flexible=2)
class CreateAclsResponse(Message):
    """The result for each rule."""

    throttle_time_ms: Int32 = 0
    results: list[CreateAclsResponseResult]
