"""AlterClientQuotas (API key 49): set and remove quotas (KIP-546).

v1   flexible encoding
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Boolean,
    Float64,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    message,
    struct,
)


@struct
class AlterClientQuotasRequestEntity(Struct):
    """The type and the name of an entity; null for the default of its type."""

    entity_type: String
    entity_name: String | None


@struct
class AlterClientQuotasRequestOp(Struct):
    """Set a quota, or remove it."""

    key: String
    value: Float64
    remove: Boolean


@struct
class AlterClientQuotasRequestEntry(Struct):
    """The changes of one entity."""

    entity: list[AlterClientQuotasRequestEntity]
    ops: list[AlterClientQuotasRequestOp]


@message(api_key=ApiKey.ALTER_CLIENT_QUOTAS, flexible=1)
class AlterClientQuotasRequest(Message):
    """The entities to change, or only to check."""

    entries: list[AlterClientQuotasRequestEntry]
    validate_only: Boolean


@struct
class AlterClientQuotasResponseEntity(Struct):
    """The type and the name of an entity."""

    entity_type: String
    entity_name: String | None


@struct
class AlterClientQuotasResponseEntry(Struct):
    """The result for an entity."""

    error_code: Int16
    error_message: String | None
    entity: list[AlterClientQuotasResponseEntity]


@message(api_key=ApiKey.ALTER_CLIENT_QUOTAS, flexible=1)
class AlterClientQuotasResponse(Message):
    """The result for each entity."""

    throttle_time_ms: Int32 = 0
    entries: list[AlterClientQuotasResponseEntry]
