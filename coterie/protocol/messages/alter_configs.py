"""AlterConfigs (API key 33): replace all settings of topics or brokers (KIP-133).

v1   the client itself waits for the throttle time (KIP-219)
v2   flexible encoding (KIP-482)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Boolean,
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
class AlterConfigsRequestConfig(Struct):
    """A setting; a null value stands for its default."""

    name: String
    value: String | None


@struct
class AlterConfigsRequestResource(Struct):
    """A resource and all its new settings; others return to their defaults."""

    resource_type: Int8
    resource_name: String
    configs: list[AlterConfigsRequestConfig]


@message(api_key=ApiKey.ALTER_CONFIGS, flexible=2)
class AlterConfigsRequest(Message):
    """The resources to change; with `validate_only` the change is only checked."""

    resources: list[AlterConfigsRequestResource]
    validate_only: Boolean


@struct
class AlterConfigsResponseResource(Struct):
    """The result for one resource."""

    error_code: Int16
    error_message: String | None
    resource_type: Int8
    resource_name: String


@message(api_key=ApiKey.ALTER_CONFIGS, flexible=2)
class AlterConfigsResponse(Message):
    """One result for each resource."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResponseResource]
