"""DescribeClientQuotas (API key 48): the quotas of users, client ids and addresses (KIP-546).

v1   flexible encoding
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Boolean,
    Float64,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    message,
    struct,
)


@struct
class DescribeClientQuotasRequestComponent(Struct):
    """The names that an entity of one type may have."""

    entity_type: String
    match_type: Int8
    match: String | None


@message(api_key=ApiKey.DESCRIBE_CLIENT_QUOTAS, flexible=1)
class DescribeClientQuotasRequest(Message):
    """A filter; no components match every entity."""

    components: list[DescribeClientQuotasRequestComponent]
    strict: Boolean


@struct
class DescribeClientQuotasResponseEntity(Struct):
    """The type and the name of an entity; null for the default of its type."""

    entity_type: String
    entity_name: String | None


@struct
class DescribeClientQuotasResponseValue(Struct):
    """A quota and its value."""

    key: String
    value: Float64


@struct
class DescribeClientQuotasResponseEntry(Struct):
    """The quotas of one entity, which may be a user and a client id together."""

    entity: list[DescribeClientQuotasResponseEntity]
    values: list[DescribeClientQuotasResponseValue]


@message(api_key=ApiKey.DESCRIBE_CLIENT_QUOTAS, flexible=1)
class DescribeClientQuotasResponse(Message):
    """The quotas of each entity that fits; null if the filter is invalid."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None
    entries: list[DescribeClientQuotasResponseEntry] | None
